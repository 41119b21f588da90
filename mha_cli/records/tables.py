"""CSV and TSV."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from mha_cli.errors import MhaError, printable
from mha_cli.records.headers import is_header
from mha_cli.records.lines import decoded
from mha_cli.records.reader import LineReader
from mha_cli.records.record import Columns, Record
from mha_cli.records.rows import ROW_TOO_LONG, Rows
from mha_cli.records.separators import SEPARATORS, SeparatorFinder

EXCEL_LINE = re.compile(rb"sep=([,;|\t])\r?\n")
"""What Excel may put before a table."""
DOUBLE = 'a quote inside a quoted text is written twice: ""'
UNCLOSED_QUOTE = "unexpected end of data"
"""What the csv module says of it."""

MOST_AGAIN, FREE_AGAIN = 4, 1_000
"""Lines that are read again behind broken rows: so many for every line of the table, and these; one stray quote takes fewer."""


Row: TypeAlias = tuple[list[str], bytes, int]
"""The values of a row, none in a blank line; its bytes as they came; and the line that it begins on, from 1."""


class BrokenRow(MhaError):
    """A row that the csv module refuses. ``RowReader.go_on`` reads what follows on its first line.

    Args:
        message: fault, as are its line and what is wrong.
        hint: next thing to do.
        line: line that the row begins on, from 1.
    """

    def __init__(self, message: str, hint: str, line: int) -> None:
        super().__init__(message, hint)
        self.line = line


class RowReader:
    """Is fed with the lines of a table and gives its rows, the header line too; a quoted field may hold line feeds.

    Rows are held back only while the first lines do not tell how the columns are separated.

    Args:
        name: name of the stream in messages.
        columns: columns that are wanted, since a header line shows by them how it is to be read.
        preferred: separator where the lines leave it open.
        on_not_utf_8: function for the fault of a line, as ``RecordReader`` has it.

    Attributes:
        separator: character between two columns; the preferred one until the first lines have told.
    """

    def __init__(self, name: str, columns: Columns, preferred: str, on_not_utf_8: Callable[[MhaError, int], object]) -> None:
        self._name, self._on_not_utf_8 = name, on_not_utf_8
        self._finder: SeparatorFinder | None = SeparatorFinder(name, columns, preferred)
        self._held: list[bytes] = []
        self._begun: list[bytes] = []
        self._lines: Iterator[bytes] = iter(())
        self._again: deque[bytes] = deque()
        self._num_lines, self._row_start, self._num_again = 0, 1, 0
        self._closed = False
        self._begin(preferred)

    def feed(self, lines: Iterable[bytes]) -> Iterator[Row]:
        """The rows that end with these lines.

        Raises:
            BrokenRow: every row before that has come.
            MhaError: several separators fit.
        """
        self._lines = self._separable(lines)
        return self._read(self._lines)

    def go_on(self) -> Iterator[Row]:
        """The rows behind a broken one, of which only the first line is lost: a stray quote may have drawn others into it.

        Raises:
            MhaError: one row after another has drawn so many lines into it that reading them again would take time without end.
        """
        self._num_again += len(self._begun) - 1
        if self._num_again > MOST_AGAIN * self._num_lines + FREE_AGAIN:
            raise MhaError(f"{self._name}:{self._row_start}: row after row has a quote that is not closed", f"close them; {DOUBLE}")
        self._again.extendleft(reversed(self._begun[1:]))
        self._num_lines = self._row_start
        self._row_start += 1
        self._begun.clear()
        self._begin(self.separator)
        return self._read(self._lines_again())

    def _separable(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines, from when it is known what separates their columns."""
        for raw in lines:
            if self._finder is None:
                yield raw
            elif not self._held and (found := EXCEL_LINE.fullmatch(raw)):
                self._finder, self._num_lines, self._row_start = None, 1, 2
                self._begin(found[1].decode())
            else:
                self._held.append(raw)
                if (separator := self._finder.feed(raw.decode("utf-8", "replace"))) is not None:
                    yield from self._released(separator)

    def close(self) -> Iterator[Row]:
        """The rows that were held back; the table may not end in a quoted field."""
        self._closed = True
        if self._finder is not None:
            self._lines = iter(self._released(self._finder.close()))
        return self._read(self._lines)

    def _begin(self, separator: str) -> None:
        self.separator, self._rows = separator, Rows(separator)

    def _released(self, separator: str) -> list[bytes]:
        """The lines that were held back."""
        held, self._held, self._finder = self._held, [], None
        self._begin(separator)
        return held

    def _lines_again(self) -> Iterator[bytes]:
        while (raw := self._again.popleft() if self._again else next(self._lines, None)) is not None:
            yield raw

    def _read(self, lines: Iterable[bytes]) -> Iterator[Row]:
        for raw in lines:
            self._num_lines += 1
            try:
                values = self._rows.feed(decoded(raw, self._name, self._num_lines, self._on_not_utf_8))
            except csv.Error as error:
                self._begun.append(raw)
                raise self._bad_row(str(error)) from None
            if values is None:
                self._begun.append(raw)
                continue
            if self._begun:
                raw = b"".join([*self._begun, raw])
                self._begun.clear()
            yield values, raw, self._row_start
            self._row_start = self._num_lines + 1
        if self._closed and self._begun:
            raise self._bad_row(UNCLOSED_QUOTE)

    def _bad_row(self, problem: str) -> BrokenRow:
        """What the csv module says of a row, in words that tell what to do."""
        location = f"{self._name}:{self._row_start}"
        if UNCLOSED_QUOTE in problem:
            message, hint = "a quote in this row is never closed", f"close it; {DOUBLE}"
        elif "field limit" in problem or problem == ROW_TOO_LONG:
            message, hint = f"a row longer than {csv.field_size_limit():,} characters", "look for a quote that is not closed"
        elif "new-line character" in problem:
            message, hint = "a carriage return inside a field", "save it with LF or CRLF line ends, or quote the field"
        else:
            message = printable(problem)
            hint = f"separate the columns with {SEPARATORS[self.separator]}s, and quote the whole field; {DOUBLE}"
        return BrokenRow(f"{location}: {message}", hint, self._row_start)


class TableReader(LineReader):
    """Reads the rows of a table, below its header line if it has one; blank lines are skipped.

    Args:
        preferred: separator where the first lines leave it open.
        args: arguments of every reader, as are ``options``.
    """

    def __init__(self, preferred: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rows = RowReader(self._name, self._columns, preferred, self._on_not_utf_8)
        self._num_columns = 0
        self._text_at, self._fields_at = 0, list[int]()

    def close(self) -> Iterator[Record]:
        """The records that end with the stream; it may not end in a quoted field."""
        yield from super().close()
        yield from self._records_in(self._rows.close())

    def _fed(self, piece: bytes) -> Iterator[Record]:
        return self._records(self._splitter.feed(piece))  # a line that is too long may stand in the middle of a row

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        return self._records_in(self._rows.feed(lines))

    def _records_in(self, rows: Iterator[Row]) -> Iterator[Record]:
        while True:
            try:
                for values, raw, line in rows:
                    if not values:
                        self._on_blank()
                    elif self._num_columns and len(values) != self._num_columns:
                        yield self._on_fault(self._other_width(len(values), line), line)
                    elif self._num_columns or not self._begins_with_header(values, raw, line):
                        yield Record(values[self._text_at], raw, tuple([values[at] for at in self._fields_at]), self.header, line)
                return
            except BrokenRow as fault:
                if not self._num_columns:  # the header
                    raise
                yield self._on_fault(fault, fault.line)
                rows = self._rows.go_on()

    def _begins_with_header(self, values: list[str], raw: bytes, line: int) -> bool:
        """Whether the first row is a header line; it says where the columns stand in any case."""
        location = f"{self._name}:{line}"
        self._num_columns = len(values)
        self._text_at, self._fields_at = self._columns.find([value.strip() for value in values], location)
        if self._columns.has_header:
            self.header = raw
        elif is_header(values, [self._text_at, *self._fields_at]):
            found = ", ".join(map(printable, values))
            hint = f"name the columns instead of numbering them (see {self._columns.text_setting}), or take the line out"
            raise MhaError(f"{location}: the first line looks like a header: {found}", hint)
        return self._columns.has_header

    def _other_width(self, num_values: int, line: int) -> MhaError:
        first = "header" if self._columns.has_header else "first row"
        found = f"{num_values} field{'' if num_values == 1 else 's'} where the {first} has {self._num_columns}"
        return MhaError(f"{self._name}:{line}: {found}", f"put a text that holds a {SEPARATORS[self._rows.separator]} in double quotes")
