"""CSV and TSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
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
    columns, warnings = reading.columns, reading.warnings
    for first in rows:
        if isinstance(first, BrokenRow):  # the header
            raise first
        if first.values:
            break
        warnings.num_blank += 1
    else:
        return
    location, num_columns = f"{reading.name}:{first.line}", len(first.values)
    names = [value.strip() for value in first.values]
    text_at, fields_at = columns.find(names, location)
    has_header, header = columns.has_header or are_numbers(names), b"".join(first.lines)
    if not has_header:
        if is_header(first.values, [at for at in (text_at, *fields_at) if at < num_columns]):
            found = ", ".join(map(printable, first.values))
            hint = f"name the columns instead of numbering them (see {columns.text_setting}), or take the line out"
            raise MhaError(f"{location}: the first line looks like a header: {found}", hint)
        names, header, rows = [str(number) for number in range(1, num_columns + 1)], b"", chain([first], rows)
    empty = True
    for row in rows:
        if isinstance(row, BrokenRow):
            record = reading.on_fault(row, row.line)
        elif not row.values:
            warnings.num_blank += 1
            continue
        elif len(row.values) != num_columns:
            record = reading.on_fault(other_width(row, num_columns, separator, reading.name, columns.has_header), row.line)
        else:
            if number := num_quoted_rows(row, separator):
                warnings.count_quoted_rows(f"{reading.name}:{row.line}", number, reading.no_quoting)
            values: list[Any] = [*row.values, dict(zip(names, row.values, strict=True))] if columns.takes_all else row.values
            record = Record(values[text_at], b"".join(row.lines), tuple([values[at] for at in fields_at]), header, row.line)
        empty = False
        yield record
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
