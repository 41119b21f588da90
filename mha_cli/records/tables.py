"""CSV and TSV."""

from __future__ import annotations

import csv
from collections import deque
from typing import TYPE_CHECKING, Any

from mha_cli.errors import MhaError, printable
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.reader import RecordReader
from mha_cli.records.record import SEPARATORS, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNCLOSED_QUOTE = "unexpected end of data"
"""What the csv module says of it."""


class TableReader(RecordReader):
    """Reads the rows below a header line; a quoted field may hold line feeds, and blank lines are skipped.

    Args:
        delimiter: character between two columns.
        args: arguments of every reader, as are ``options``.
    """

    def __init__(self, delimiter: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._delimiter = delimiter
        self._rows = Rows(delimiter)
        self._earlier_lines: list[bytes] = []
        self._row_start = 1
        self._names: list[str] = []
        self._text_at, self._fields_at = 0, list[int]()

    def close(self) -> Iterator[Record]:
        """The records that end with the stream; it may not end in a quoted field."""
        yield from super().close()
        if self._earlier_lines:
            raise self._bad_row(UNCLOSED_QUOTE)

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for raw in lines:
            self._num_lines += 1
            try:
                values = self._rows.feed(self._decoded(raw))
            except csv.Error as error:
                raise self._bad_row(str(error)) from None
            if values is None:
                self._earlier_lines.append(raw)
                continue
            if self._earlier_lines:
                raw = b"".join([*self._earlier_lines, raw])
                self._earlier_lines.clear()
            if len(values) == len(self._names) != 0:
                yield Record(values[self._text_at], raw, tuple([values[at] for at in self._fields_at]), self.header, self._row_start)
            elif not values:
                self._on_blank()
            else:
                self._begin_table(values, raw)
            self._row_start = self._num_lines + 1

    def _begin_table(self, names: list[str], raw: bytes) -> None:
        location = f"{self._name}:{self._row_start}"
        if self._names:
            found = f"{len(names)} field{'' if len(names) == 1 else 's'} where the header has {len(self._names)}"
            raise MhaError(f"{location}: {found}", f"put a text that holds a {SEPARATORS[self._delimiter]} in double quotes")
        self.header, self._names = raw, [name.strip() for name in names]
        self._text_at, self._fields_at = self._columns.find(self._names, location, self._delimiter)

    def _bad_row(self, problem: str) -> MhaError:
        """What the csv module says of a row, in words that tell what to do."""
        location, double = f"{self._name}:{self._row_start}", 'a quote inside a quoted text is written twice: ""'
        if UNCLOSED_QUOTE in problem:
            return MhaError(f"{location}: a quote in this row is never closed", f"close it; {double}")
        if "field limit" in problem:
            return MhaError(f"{location}: a field longer than {csv.field_size_limit():,} characters", "look for a quote that is not closed")
        if "new-line character" in problem:
            return MhaError(f"{location}: a carriage return inside a field", "save it with LF or CRLF line ends, or quote the field")
        hint = f"separate the columns with {SEPARATORS[self._delimiter]}s, and quote the whole field; {double}"
        return MhaError(f"{location}: {printable(problem)}", hint)


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
        self._num_characters = self._num_checked = 0

    def feed(self, line: str) -> list[str] | None:
        """The values of the row that ends with this line; none in a blank line, and None where a quoted field goes on.

        Raises:
            csv.Error: this is no row.
        """
        if not self._begun:
            if (row := self._read(line)) is None:
                self._begun, self._num_characters, self._num_checked = [line], len(line), MAX_LINE_BYTES
            return row
        self._begun.append(line)
        self._num_characters += len(line)
        if '"' in line.replace('""', "") and self._read(f'"{line}') is not None:
            values, self._begun = self._read(*self._begun), []
            return values
        if self._num_characters > self._num_checked:
            self._read(*self._begun)  # which refuses a field that is too long
            self._num_checked = 2 * self._num_characters
        return None

    def _read(self, *lines: str) -> list[str] | None:
        """The row in these lines; None if it goes on."""
        self._waiting.extend(lines)
        try:
            return next(self._reader)
        except IndexError:  # it asks for a further line
            return None
