"""What stands between the columns of a table."""

from __future__ import annotations

import csv

from mha_cli.errors import MhaError
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.record import Columns, is_number
from mha_cli.records.rows import Rows

SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
"""In words."""
MOST_LINES = 100
"""Lines that are looked at before one of several separators that fit is taken."""


class SeparatorFinder:
    """Is fed with the first lines of a table until they tell which separator it has.

    A header line tells at once: of the names that are wanted, the right separator finds the most. Without one, it is the separator that
    gives every row the same number of columns, two at least; of several that do, the preferred one.

    Args:
        name: name of the stream in messages.
        columns: columns that are wanted.
        preferred: separator that the format is named for.
    """

    def __init__(self, name: str, columns: Columns, preferred: str) -> None:
        self._name, self._columns, self._preferred = name, columns, preferred
        others = [separator for separator in SEPARATORS if separator != preferred]
        self._rows = {separator: Rows(separator) for separator in (preferred, *others)}
        self._first: dict[str, list[str]] = {}
        self._num_lines = self._num_characters = 0

    def feed(self, line: str) -> str | None:
        """The separator, once it is known.

        Raises:
            MhaError: several separators fit, and not the preferred one.
        """
        self._num_lines += not line.isspace()
        self._num_characters += len(line)
        for separator, rows in list(self._rows.items()):
            try:
                row = rows.feed(line)
            except csv.Error:
                row = []
                self._drop(separator)
            if row and len(self._first.setdefault(separator, row)) != len(row):
                self._drop(separator)
        if not self._rows:
            return self._preferred  # with which the reader meets the fault
        if len(self._first) < len(self._rows) and self._num_lines < MOST_LINES:
            return None  # a blank line, or a quoted field that goes on
        if self._columns.has_header:
            return max(self._first, key=self._fit, default=self._preferred)
        least = max(2, *(int(column) for column in self._wanted if is_number(column)))
        fitting = [separator for separator, row in self._first.items() if len(row) >= least]
        if len(fitting) > 1 and self._num_lines < MOST_LINES and self._num_characters < MAX_LINE_BYTES:
            return None
        return self._chosen(fitting)

    def close(self) -> str:
        """The separator of a table that ends with these lines.

        Raises:
            MhaError: several separators fit, and not the preferred one.
        """
        return self._chosen([separator for separator, row in self._first.items() if len(row) > 1])

    @property
    def _wanted(self) -> tuple[str, ...]:
        return (self._columns.text, *self._columns.fields)

    def _drop(self, separator: str) -> None:
        self._rows.pop(separator)
        self._first.pop(separator, None)

    def _fit(self, separator: str) -> tuple[int, bool, int]:
        names = [name.strip() for name in self._first[separator]]
        found = sum(name in names for name in self._wanted)
        return found, len(names) > 1 and separator == self._preferred, len(names)

    def _chosen(self, fitting: list[str]) -> str:
        if not fitting or self._preferred in fitting:
            return self._preferred
        if len(fitting) > 1:
            names = " and ".join(f"{SEPARATORS[separator]}s" for separator in fitting)
            raise MhaError(f"{self._name}:1: {names} part every row alike", "put a header line first, and name the columns as it does")
        return fitting[0]
