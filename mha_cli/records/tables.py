"""CSV and TSV: separator, header and records."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any

from mha_cli.errors import MhaError, plural, printable
from mha_cli.records.headers import are_numbers, is_header
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.objects import as_text, without_surrogates
from mha_cli.records.reader import Reading, StreamWarnings
from mha_cli.records.record import SEPARATORS, Columns, Record, is_number, joined
from mha_cli.records.rows import MOST_BLANK, Row, TableLines, num_quoted_rows

EXCEL_LINE = re.compile(rb"sep=([,;|\t])\r?\n")  # what Excel may put before a table
MOST_LINES = 100  # lines that are looked at before one of several separators that fit is taken


def table_rows(preferred: str, lines: Iterable[bytes | MhaError], reading: Reading) -> tuple[str, Iterator[Row]]:
    """The separator of a table, ``preferred`` where the first lines leave it open, and its rows with the header line."""
    table = TableLines(lines, reading)
    if excel := EXCEL_LINE.fullmatch(table.peek() or b""):
        next(table)
        separator = excel[1].decode()
    else:
        _skip_titles(table, reading)
        separator = find_separator(table, preferred, reading)
    return separator, table.rows(separator)


def header_among(tables: Iterable[Sequence[Row]], columns: Columns, wider: bool = True) -> Row | None:
    """The first row that names the columns, if ``wider`` below rows of fewer cells; each row may be cut in several ways."""
    most = 0
    for rows in tables:
        sizes = [sum(map(bool, map(str.strip, row.values))) for row in rows]
        for row, size in zip(rows, sizes, strict=True):
            with suppress(MhaError):
                if size > most or not wider:  # so that no row of the table, which has as many cells, is taken for a title
                    columns.find([cell.strip() for cell in row.values], "")
                    return row
        most = max(most, *sizes)
    return None


def _skip_titles(lines: TableLines, reading: Reading) -> None:
    """Skip what is above the header among the first rows, and note it."""
    columns, quiet = reading.columns, replace(reading, warnings=StreamWarnings(), strict=False)
    tables = [TableLines(_first_lines(lines), quiet).rows(separator) for separator in SEPARATORS]
    header = header_among(islice(zip(*tables, strict=False), MOST_BLANK), columns._replace(fields=())) if columns.has_header else None
    above = header.line - 1 if header else 0
    if num_titles := sum(bool((lines.peek(ahead) or b"").strip(b' ,;|\t\r\n"')) for ahead in range(above)):
        for _ in range(above):
            next(lines)
        reading.warnings.note_titles(reading.name, above + 1, num_titles)


def find_separator(lines: TableLines, preferred: str, reading: Reading) -> str:
    """The separator of a table, from as few of its first lines as tell it; they are still to be read.

    A header line tells at once: of the names that are wanted, the right separator finds the most. Without one, it is the separator that
    gives every row the same number of columns, two at least; of several that do, the preferred one.
    """
    columns, quiet = reading.columns, replace(reading, warnings=StreamWarnings(), strict=False)
    wanted = (*columns.texts, *columns.fields)
    tables = {separator: TableLines(_first_lines(lines), quiet).rows(separator) for separator in (preferred, *SEPARATORS)}
    first: dict[str, list[str]] = {}

    def fit(separator: str) -> tuple[int, bool, int]:
        names = [name.strip() for name in first[separator]]
        return sum(name in names for name in wanted), len(names) > 1 and separator == preferred, len(names)

    least = max([2, *(int(column) for column in wanted if is_number(column))])
    fitting, ended = list(tables), False
    while len(fitting) > 1 and not ended:
        for separator, rows in list(tables.items()):
            row = next((row for row in rows if row.fault or row.values), None)
            if row is None:
                ended = True
            elif row.fault or len(first.setdefault(separator, row.values)) != len(row.values):
                del tables[separator]  # a row that it cannot read, or of another width
                first.pop(separator, None)
        if first and columns.has_header:
            return max(first, key=fit)
        fitting = [separator for separator, values in first.items() if len(values) >= least]
    if not fitting or preferred in fitting:
        return preferred
    if len(fitting) > 1:
        names = " and ".join(f"{SEPARATORS[separator]}s" for separator in fitting)
        hint = "put a header line first, and name the columns as it does"
        raise MhaError(f"{reading.name}:1: ambiguous separator: {names} fit every row", hint)
    return fitting[0]


def _first_lines(lines: TableLines) -> Iterator[bytes]:
    size = 0
    for ahead in range(MOST_LINES):
        if size > MAX_LINE_BYTES or (line := lines.peek(ahead)) is None:
            return
        size += len(line)
        yield line


def table_records(preferred: str, lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """The rows of a table, below its header line if it has one; blank lines are skipped."""
    separator, rows = table_rows(preferred, lines, reading)
    return row_records(rows, reading, separator)


def row_records(rows: Iterator[Row], reading: Reading, separator: str = ",") -> Iterator[Record]:
    """The records of rows, of which the first may be a header."""
    columns, warnings = reading.columns, reading.warnings
    for first in rows:
        if first.fault:  # of the header
            raise first.fault
        if first.values:
            break
        warnings.num_blank += 1
    else:
        return
    location, num_columns = f"{reading.name}:{first.line}", len(first.values)
    names = [value.strip() for value in first.values]
    texts_at, fields_at = columns.find(names, location)
    has_header, header = columns.has_header or are_numbers(names), b"".join(first.lines)
    if not has_header:
        if is_header(first.values, [at for at in (*texts_at, *fields_at) if at < num_columns], len(texts_at)):
            cells = ", ".join(map(printable, first.values))
            hint = f"name the columns instead of numbering them (see {columns.text_setting}), or take the line out"
            raise MhaError(f"{location}: the first line looks like a header: {cells}", hint)
        names, header, rows = [str(number) for number in range(1, num_columns + 1)], b"", chain([first], rows)
    empty, opening, first_quoted, num_drawn, num_needed = True, f'{separator}"'.encode(), "", 0, 0
    for row in rows:
        if row.fault:
            record = reading.on_fault(row.fault, row.line)
        elif not row.values:
            warnings.num_blank += 1
            continue
        elif len(row.values) != num_columns:
            record = reading.on_fault(other_width(row, num_columns, separator, reading.name, columns.has_header), row.line)
        else:
            if number := num_quoted_rows(row, separator):
                first_quoted, num_drawn = first_quoted or f"{reading.name}:{row.line}", num_drawn + number
            else:
                num_needed += row.lines[0].startswith(b'"') or opening in row.lines[0]
            values: list[Any] = [*row.values, dict(zip(names, row.values, strict=True))] if columns.takes_all else row.values
            text = joined([values[at] for at in texts_at])
            record = Record(text, b"".join(row.lines), tuple([values[at] for at in fields_at]), header, row.line)
        empty = False
        yield record
    if num_drawn > num_needed:  # else reading every line as a row would break more rows than it finds
        warnings.count_quoted_rows(first_quoted, num_drawn, reading.no_quoting)
    if empty and header and columns.required:
        raise no_texts_below(reading.name)


def other_width(row: Row, num_columns: int, separator: str, name: str, header: bool) -> MhaError:
    """The fault of a row that has more or fewer columns than the first one."""
    first = "header" if header else "first row"
    fields = f"{plural(len(row.values), 'field')} where the {first} has {num_columns}"
    return MhaError(f"{name}:{row.line}: {fields}", f"put a text that holds a {SEPARATORS[separator]} in double quotes")


def no_texts_below(name: str) -> MhaError:
    """The fault of a table that ends with its header."""
    return MhaError(f"{name}: a header but no texts", "write one text per row below it")


def csv_line(values: Mapping[str, object], names: Sequence[str]) -> bytes:
    """The values of these columns as a row of CSV; empty where there is none."""
    return csv_row([without_surrogates(as_text(values.get(name))) for name in names])


def csv_row(cells: Sequence[str | float | None]) -> bytes:
    """Cells as RFC 4180 has them, in UTF-8."""
    shown = [f"{cell:.6f}" if isinstance(cell, float) else cell for cell in cells]
    row: bytes = csv.writer(SimpleNamespace(write=str.encode)).writerow(shown)
    return row
