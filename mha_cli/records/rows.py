"""The lines of a table to its rows."""

from __future__ import annotations

import csv
from collections import deque

from mha_cli.records.lines import MAX_LINE_BYTES

ROW_TOO_LONG = "row too long"
"""What ``Rows`` says of it, in the manner of the csv module."""


class Rows:
    """Is fed with the lines of a table and gives its rows, as Python's csv module reads them in its strict mode.

    That module wants all lines of a row at once. Whether a quoted field goes on after a line follows from the line and from whether
    one was open before it; so each line of a long row is looked at once by itself, and the row is read once it is whole.

    Args:
        delimiter: character between two columns.
    """

    def __init__(self, delimiter: str) -> None:
        csv.field_size_limit(MAX_LINE_BYTES)  # the limit is the process's: csv has no other
        self._waiting: deque[str] = deque()
        self._reader = csv.reader(iter(self._waiting.popleft, None), delimiter=delimiter, strict=True)
        self._begun: list[str] = []
        self._num_characters = 0

    def feed(self, line: str) -> list[str] | None:
        """The values of the row that ends with this line; none in a blank line, and None where a quoted field goes on.

        Raises:
            csv.Error: this is no row, or it goes on without end.
        """
        if not self._begun:
            if (row := self._read(line)) is None:
                self._begun, self._num_characters = [line], len(line)
            return row
        self._begun.append(line)
        self._num_characters += len(line)
        if '"' in line.replace('""', "") and self._read(f'"{line}') is not None:
            values, self._begun = self._read(*self._begun), []
            return values
        if self._num_characters > MAX_LINE_BYTES:
            raise csv.Error(ROW_TOO_LONG)
        return None

    def _read(self, *lines: str) -> list[str] | None:
        """The row in these lines; None if it goes on."""
        self._waiting.extend(lines)
        try:
            return next(self._reader)
        except IndexError:  # it asks for a further line
            return None
