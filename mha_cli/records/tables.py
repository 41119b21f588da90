"""CSV and TSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from mha_cli.errors import MhaError, printable
from mha_cli.records.headers import are_numbers, is_header
from mha_cli.records.reader import Reading
from mha_cli.records.record import SEPARATORS, Record
from mha_cli.records.rows import BrokenRow, Row, TableLines, num_quoted_rows, rows_of
from mha_cli.records.separators import find_separator

EXCEL_LINE = re.compile(rb"sep=([,;|\t])\r?\n")
"""What Excel may put before a table."""


def table_rows(preferred: str, lines: Iterable[bytes | MhaError], reading: Reading) -> tuple[str, Iterator[Row | BrokenRow]]:
    """The separator of a table and its rows, the header line too.

    Args:
        preferred: separator where the first lines leave it open.
        lines: lines of the stream, and faults of those that are too long.
        reading: how the stream is read.
    """
    table = TableLines(lines, reading)
    if found := EXCEL_LINE.fullmatch(table.peek() or b""):
        next(table)
        separator = found[1].decode()
    else:
        separator = find_separator(table, preferred, reading)
    return separator, rows_of(table, separator, reading)


def table_records(preferred: str, lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """The rows of a table, below its header line if it has one; blank lines are skipped."""
    separator, rows = table_rows(preferred, lines, reading)
    columns, header, num_columns, empty = reading.columns, b"", 0, True
    text_at, fields_at, names = 0, list[int](), list[str]()
    for row in rows:
        if isinstance(row, BrokenRow):
            if not num_columns:  # the header
                raise row
            yield reading.on_fault(row, row.line)
        elif not row.values:
            reading.warnings.num_blank += 1
            continue
        elif not num_columns:
            location = f"{reading.name}:{row.line}"
            num_columns = len(row.values)
            names = [value.strip() for value in row.values]
            text_at, fields_at = columns.find(names, location)
            if columns.has_header or are_numbers(names):
                header = b"".join(row.lines)
                continue
            names = [str(number) for number in range(1, num_columns + 1)]
            if is_header(row.values, [at for at in (text_at, *fields_at) if at < num_columns]):
                found = ", ".join(map(printable, row.values))
                hint = f"name the columns instead of numbering them (see {columns.text_setting}), or take the line out"
                raise MhaError(f"{location}: the first line looks like a header: {found}", hint)
        if isinstance(row, Row):
            if len(row.values) != num_columns:
                yield reading.on_fault(other_width(row, num_columns, separator, reading.name, columns.has_header), row.line)
            else:
                if number := num_quoted_rows(row, separator):
                    reading.warnings.count_quoted_rows(f"{reading.name}:{row.line}", number, reading.no_quoting)
                values: list[Any] = [*row.values, dict(zip(names, row.values, strict=True))] if columns.takes_all else row.values
                yield Record(values[text_at], b"".join(row.lines), tuple([values[at] for at in fields_at]), header, row.line)
        empty = False
    if empty and header and columns.required:
        raise no_texts_below(reading.name)


def other_width(row: Row, num_columns: int, separator: str, name: str, header: bool) -> MhaError:
    """The fault of a row that has more or fewer columns than the first one."""
    first = "header" if header else "first row"
    found = f"{len(row.values)} field{'' if len(row.values) == 1 else 's'} where the {first} has {num_columns}"
    return MhaError(f"{name}:{row.line}: {found}", f"put a text that holds a {SEPARATORS[separator]} in double quotes")


def no_texts_below(name: str) -> MhaError:
    """The fault of a table that ends with its header."""
    return MhaError(f"{name}: a header but no texts", "write a text a row below it")
