"""The formats, and which of them a file name tells."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from mha_cli.errors import MhaError
from mha_cli.records.encodings import utf_8
from mha_cli.records.line_formats import fasttext_records, json_records, plain_records
from mha_cli.records.lines import lines_of, unpacked
from mha_cli.records.parquet import parquet_records
from mha_cli.records.queries import SQLITE
from mha_cli.records.reader import Reading
from mha_cli.records.record import Record
from mha_cli.records.spreadsheets import file_and_sheet, sheet_rows
from mha_cli.records.tables import row_records, table_records

Format = Literal["lines", "jsonl", "csv", "tsv", "fasttext", "parquet", "spreadsheet"]
_OF_LINES: dict[Format, Callable[[Iterable[bytes | MhaError], Reading], Iterator[Record]]] = {
    "lines": plain_records,
    "jsonl": json_records,
    "csv": partial(table_records, ","),
    "tsv": partial(table_records, "\t"),
    "fasttext": fasttext_records,
}
EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".ft": "fasttext",
    ".fasttext": "fasttext",
    ".parquet": "parquet",
    ".xlsx": "spreadsheet",
    ".ods": "spreadsheet",
}


def read_records(record_format: Format, pieces: Iterable[bytes], reading: Reading) -> Iterator[Record]:
    """The records of a stream, however its bytes are cut, each as soon as its last line is there."""
    if record_format in ("parquet", "spreadsheet"):
        pieces = unpacked(pieces, reading.name, reading.gzipped)
        return parquet_records(pieces, reading) if record_format == "parquet" else row_records(sheet_rows(pieces, reading), reading)
    return _OF_LINES[record_format](text_lines(pieces, reading), reading)


def text_lines(pieces: Iterable[bytes], reading: Reading) -> Iterator[bytes | MhaError]:
    """The lines of a text stream, unpacked and in UTF-8, and the faults of those that are too long."""
    return lines_of(utf_8(unpacked(pieces, reading.name, reading.gzipped), reading.name, reading.dialect.encoding), reading.name)


def extension_of(path: str) -> str:
    """The extension that tells the format, in lower case, without ``.gz``, a sheet and a URI's settings; a query gives JSON lines."""
    file = "rows.jsonl" if path.startswith(SQLITE) else file_and_sheet(path)[0]
    return os.path.splitext((file.partition("?")[0] if "://" in file else file).lower().removesuffix(".gz"))[1]


def format_of(path: str) -> Format:
    """The format by the extension of a file name, without ``.gz``; plain lines if the extension is unknown."""
    return EXTENSIONS.get(extension_of(path), "lines")
