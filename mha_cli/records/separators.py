"""Find the character between the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mha_cli.errors import MhaError
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.reader import Reading
from mha_cli.records.record import SEPARATORS, is_number
from mha_cli.records.rows import Row, TableLines, rows_of
from mha_cli.records.warnings import StreamWarnings

MOST_LINES = 100
"""Lines that are looked at before one of several separators that fit is taken."""


def find_separator(lines: TableLines, preferred: str, reading: Reading) -> str:
    """The separator of a table, from as few of its first lines as tell it; they are still to be read.

    A header line tells at once: of the names that are wanted, the right separator finds the most. Without one, it is the separator that
    gives every row the same number of columns, two at least; of several that do, the preferred one.

    Args:
        lines: lines of the table.
        preferred: separator that the format is named for.
        reading: how the table is read.
    """
    columns, quiet = reading.columns, replace(reading, warnings=StreamWarnings())
    wanted = (columns.text, *columns.fields)
    tables = {separator: rows_of(TableLines(_first_lines(lines), quiet), separator, quiet) for separator in (preferred, *SEPARATORS)}
    first: dict[str, list[str]] = {}

    def fit(separator: str) -> tuple[int, bool, int]:
        names = [name.strip() for name in first[separator]]
        return sum(name in names for name in wanted), len(names) > 1 and separator == preferred, len(names)

    least = max([2, *(int(column) for column in wanted if is_number(column))])
    fitting, ended = list(tables), False
    while len(fitting) > 1 and not ended:
        for separator, rows in list(tables.items()):
            row = next((row for row in rows if not isinstance(row, Row) or row.values), None)
            if row is None:
                ended = True
            elif not isinstance(row, Row) or len(first.setdefault(separator, row.values)) != len(row.values):
                del tables[separator]  # a row that it cannot read, or of another width
                first.pop(separator, None)
        if first and columns.has_header:
            return max(first, key=fit)
        fitting = [separator for separator, values in first.items() if len(values) >= least]
    if not fitting or preferred in fitting:
        return preferred
    if len(fitting) > 1:
        names = " and ".join(f"{SEPARATORS[separator]}s" for separator in fitting)
        raise MhaError(f"{reading.name}:1: {names} part every row alike", "put a header line first, and name the columns as it does")
    return fitting[0]


def _first_lines(lines: TableLines) -> Iterator[bytes]:
    size = 0
    for ahead in range(MOST_LINES):
        if size > MAX_LINE_BYTES or (line := lines.peek(ahead)) is None:
            return
        size += len(line)
        yield line
