"""Workbooks: which sheet, which row is the header, what a cell says, and files that would fill the memory."""

import struct
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from io import BytesIO
from itertools import repeat
from pathlib import Path

import pytest

from mha_cli.cli.output import answer_format
from mha_cli.records.reader import Reading
from mha_cli.records.readers import read_records
from mha_cli.records.record import ALL, Columns
from mha_cli.records.spreadsheets import file_and_sheet, sheet_writer
from tests.errors import error_of
from tests.workbooks import inline, ods_row, write_ods, write_workbook, write_xlsx

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("in_an_empty_folder")]
pytest.importorskip("python_calamine")
pytest.importorskip("xlsxwriter")

TICKETS = [
    ["Tickets of May"],
    [],
    ["as of", "31.5."],
    ["id", "body", "team", "day"],
    [1, "no paper\nagain", "printer", date(2024, 5, 2)],
    [],
    [2, "=1+1", "mail", datetime(2024, 5, 2, 8, 30)],
    [3.25, 17, True, None, "a remark beside the table"],
]


def read(
    path: str, *fields: str, text: str = "text", required: bool = False, sheet: str = ""
) -> tuple[list[tuple[object, ...]], list[str]]:
    reading = Reading(path, Columns(text, fields, required=required), sheet=sheet)
    records = read_records("spreadsheet", [Path(path).read_bytes()], reading)
    return [(record.line, record.text, *record.fields) for record in records], reading.warnings.lines


def test_the_header_is_the_first_row_with_all_columns_and_cells_are_as_a_person_sees_them() -> None:
    write_workbook("a.xlsx", {"May": TICKETS})
    rows = [(5, "no paper\nagain", "1", "printer"), (7, "0", "2", "mail"), (8, "17", "3.25", "True")]
    above = "a.xlsx: the header is in row 4; skipped above it: 2 rows"
    assert read("a.xlsx", "id", "team", text="body") == (rows, [above])
    everything = read("a.xlsx", ALL, text="body")[0]
    assert [row[2]["day"] for row in everything] == ["2024-05-02", "2024-05-02 08:30:00", ""]
    assert set(everything[2][2]) == {"id", "body", "team", "day"}
    hint = "name the columns instead of numbering them (see --text-column), or take the line out"
    assert error_of(partial(read, text="2"), "a.xlsx") == f"a.xlsx:4: the first line looks like a header: id, body, team, day; {hint}"


def test_of_several_sheets_the_first_with_the_columns_is_read_and_named() -> None:
    write_workbook("a.xlsx", {"Read me": [["Who", "What"], ["Ann", "all"]], "Empty": [], "May": TICKETS, "June": TICKETS[3:]})
    rows, (which, _) = read("a.xlsx", text="body")
    assert len(rows) == 3
    assert which == 'a.xlsx: the sheet "May" of Read me, Empty, May, June; FILE#SHEET reads another'
    assert read("a.xlsx", text="body", sheet="June") == ([(line - 3, *row) for line, *row in rows], [])
    assert read("a.xlsx", text="What", sheet="Read me") == ([(2, "all")], [])
    assert error_of(partial(read, sheet="july"), "a.xlsx") == 'a.xlsx: no sheet "july" among Read me, Empty, May, June; name one of them'
    assert error_of(read, "a.xlsx") == 'a.xlsx:1: no column "text" among Who, What; set --text-column'
    write_workbook("b.xlsx", {"May": TICKETS})
    assert error_of(partial(read, text="bodi"), "b.xlsx") == 'b.xlsx:1: no column "bodi" among Tickets of May; set --text-column'
    write_workbook("c.xlsx", {"May": TICKETS[3:]})
    expected = 'c.xlsx:1: no column "bodi" among id, body, team, day; did you mean body? (see --text-column)'
    assert error_of(partial(read, text="bodi"), "c.xlsx") == expected
    assert file_and_sheet("~/a b.XLSX#x#y.ods") == ("~/a b.XLSX", "x#y.ods")
    assert file_and_sheet("a#b.xlsx") == ("a#b.xlsx", "")


def test_opendocument() -> None:
    write_ods("a.ods", ods_row("a &amp; b", "c", rows=2), ods_row("", columns=16_384, rows=1_048_570))
    assert read("a.ods", "label") == ([(2, "a & b", "c"), (3, "a & b", "c")], [])


def test_what_is_written_is_read_again_and_strings_stay_strings() -> None:
    rows = [["=1+1", 0.25, None], ['{"a": 1}\r\n', 1.0, "http://a.example"], ["007", 0.1 + 0.2, "\x01_x0041_"]]
    file = BytesIO()
    with sheet_writer(file, ["text", "number", "+x"]) as write:
        write(rows)
    Path("a.xlsx").write_bytes(file.getvalue())
    expected = [("=1+1", "0.25", ""), ('{"a": 1}\r\n', "1", "http://a.example"), ("007", "0.3", "\x01_x0041_")]
    assert [row[1:] for row in read("a.xlsx", "number", "+x")[0]] == expected
    with pytest.raises(Exception, match="row 2 of the sheet, a cell of 32,768 characters"), sheet_writer(BytesIO(), ["text"]) as write:
        write([["x" * 32_768]])


LONG = "x" * 32_000
ENTITIES = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]>'


def shared_cells(path: str) -> None:
    cells = (f'<row r="{row}"><c r="A{row}" t="s"><v>0</v></c><c r="B{row}" t="s"><v>0</v></c></row>' for row in range(2, 40_000))
    write_xlsx(path, cells, [f"<si><t>{LONG}</t></si>"])


@pytest.mark.parametrize(
    ("path", "write"),
    [
        ("corner.xlsx", lambda path: write_xlsx(path, [f'<row r="1048576">{inline("XFD1048576", "x")}</row>'])),
        ("long.ods", lambda path: write_ods(path, ods_row(LONG, columns=2, rows=1_048_576))),
        pytest.param("blank.xlsx", lambda path: write_xlsx(path, repeat(" " * (1 << 20), 5 << 10)), marks=pytest.mark.exhaustive),
        pytest.param(
            "strings.xlsx",
            lambda path: write_xlsx(path, [], repeat(f"<si><t>{'a' * 1000}</t></si>" * 1000, 3 << 9)),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("shared.xlsx", shared_cells, marks=pytest.mark.exhaustive),
    ],
)
def test_files_that_would_fill_the_memory(path: str, write: Callable[[str], None]) -> None:
    write(path)
    assert error_of(read, path) == f"{path}: its cells take more than 1 GiB of memory; save the sheet as CSV in UTF-8"


def test_files_that_are_damaged_or_something_else() -> None:
    write_xlsx("good.xlsx", [f'<row r="2">{inline("A2", "a")}{inline("B2", "b")}</row>'])
    assert read("good.xlsx", "label") == ([(2, "a", "b")], [])
    good = Path("good.xlsx").read_bytes()
    write_xlsx("entity.xlsx", [f'<row r="2">{inline("A2", "a")}{inline("B2", "")}</row>'.replace("<t>a<", "<t>&c;<")], before=ENTITIES)
    at = good.index(b"xl/sheet.xml", good.index(b"PK\x01\x02")) - 46
    shrunk = good[: at + 24] + struct.pack("<I", 9) + good[at + 28 :]
    bad = {
        "cut.xlsx": good[:700],
        "shrunk.xlsx": shrunk,
        "html.xlsx": b"<html><table><tr><td>text",
        "old.xlsx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
        "empty.xlsx": b"",
    }
    for name, content in bad.items():
        Path(name).write_bytes(content)
    write_ods("secret.ods", encrypted=True)
    write_ods("all.ods", ods_row("x", columns=16_384, rows=1_048_576))  # 17 billion cells
    damaged, save = "damaged, no workbook, or one with a password: ", "save it again, or as CSV in UTF-8"
    for name in ("cut.xlsx", "shrunk.xlsx", "entity.xlsx", "secret.ods", "all.ods", "html.xlsx", "old.xlsx", "empty.xlsx"):
        found = error_of(read, name)
        assert found.startswith(f"{name}: {damaged}") and found.endswith(save), found


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    write_workbook("a.xlsx", {"May": TICKETS})
    monkeypatch.setattr("mha_cli.errors.find_spec", lambda _name: None)
    way_out = "pip install -e '.[sheets]' in your copy of mha's repository"
    assert error_of(read, "a.xlsx") == f"a.xlsx: a workbook needs python-calamine; {way_out}"
    assert error_of(answer_format, Path("b.xlsx"), False) == f"--output b.xlsx needs xlsxwriter; {way_out}"


def test_a_row_with_remarks_alone_beside_the_table_is_blank() -> None:
    write_workbook("a.xlsx", {"May": [["text", "label"], ["a", "b"], [None, None, "see above"], ["c", "d"]]})
    assert read("a.xlsx", "label") == ([(2, "a", "b"), (4, "c", "d")], [])
