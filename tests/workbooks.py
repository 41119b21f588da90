"""Workbooks for tests: ordinary ones, and .xlsx and .ods whose parts are written by hand."""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/></Types>"""
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
RELATION = '<Relationship Id="{0}" Type="' + OFFICE + '/{1}" Target="{2}"/>'
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
ODS = "application/vnd.oasis.opendocument.spreadsheet"
TEXT = ' office:value-type="string"'
NAMES = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text"))


def write_workbook(path: Path | str, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """An ordinary workbook, by XlsxWriter; dates are shown as ``yyyy-mm-dd``, and strings that begin with = are formulas."""
    import xlsxwriter

    with xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd"}) as workbook:
        for name, rows in sheets.items():
            sheet = workbook.add_worksheet(name)
            for at, row in enumerate(rows):
                sheet.write_row(at, 0, row)
    return Path(path)


def inline(cell: str, text: str) -> str:
    return f'<c r="{cell}" t="inlineStr"><is><t>{escape(text)}</t></is></c>'


HEADER = f'<row r="1">{inline("A1", "text")}{inline("B1", "label")}</row>'


def write_xlsx(path: Path | str, rows: Iterable[str], strings: Iterable[str] = (), before: str = "") -> None:
    """A workbook of a sheet with these rows below a header, and these shared strings."""
    parts: dict[str, Iterable[str]] = {
        "[Content_Types].xml": [TYPES],
        "_rels/.rels": [RELATIONS.format(RELATION.format("a", "officeDocument", "xl/workbook.xml"))],
        "xl/workbook.xml": [f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets><sheet name="S" sheetId="1" r:id="b"/></sheets></workbook>'],
        "xl/_rels/workbook.xml.rels": [
            RELATIONS.format(RELATION.format("b", "worksheet", "sheet.xml") + RELATION.format("c", "sharedStrings", "sharedStrings.xml"))
        ],
        "xl/sharedStrings.xml": [f"<sst {MAIN}>", *strings, "</sst>"],
        "xl/sheet.xml": [before, f"<worksheet {MAIN}><sheetData>", HEADER, *rows, "</sheetData></worksheet>"],
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, pieces in parts.items():
            with archive.open(name, "w", force_zip64=True) as member:
                for piece in pieces:
                    member.write(piece.encode())


def ods_row(*cells: str, columns: int = 1, rows: int = 1) -> str:
    """A row of texts; the last cell, and the row, come so many times."""
    repeated = [1] * (len(cells) - 1) + [columns]
    inner = "".join(
        f'<table:table-cell{TEXT if cell else ""} table:number-columns-repeated="{number}"><text:p>{cell}</text:p></table:table-cell>'
        for cell, number in zip(cells, repeated, strict=True)
    )
    return f'<table:table-row table:number-rows-repeated="{rows}">{inner}</table:table-row>'


def write_ods(path: Path | str, *rows: str, encrypted: bool = False) -> None:
    """An OpenDocument workbook of a sheet with these rows below a header."""
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    secret = "<manifest:encryption-data/>" if encrypted else ""
    table = f'<table:table table:name="S">{ods_row("text", "label")}{"".join(rows)}</table:table>'
    entry = f'<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml">{secret}</manifest:file-entry>'
    body = f"<office:body><office:spreadsheet>{table}</office:spreadsheet></office:body>"
    parts = {
        "mimetype": ODS,
        "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{manifest}">{entry}</manifest:manifest>',
        "content.xml": f"<office:document-content {NAMES}>{body}</office:document-content>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
