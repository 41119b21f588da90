"""Rows of a table, read by Python's csv module in strict mode."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mha_cli.errors import MhaError, printable
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.reader import Reading
from mha_cli.records.record import SEPARATORS

DOUBLE = 'a quote inside a quoted text is written twice: ""'
UNCLOSED_QUOTE, TEXT_BEHIND_QUOTE = "unexpected end of data", "expected after"
"""What the csv module says of a quote that is not closed, and of one with text behind it."""
ROW_TOO_LONG = "row too long"
MOST_AGAIN, FREE_AGAIN = 4, 1_000  # lines read again after broken rows, at most: four per line of the table, and 1,000 besides
MOST_BLANK = 10  # lines to look ahead at for the next one that is not blank


class Row(NamedTuple):
    """A row of a table: its values, none if all are blank, or its fault, its lines as they came, and the number of the first, from 1."""

    values: list[str]
    lines: list[bytes]
    line: int
    fault: MhaError | None = None


class TableLines:
    """Lines for the csv module, with look-ahead and a way to read the lines of a row again, and the rows that it makes of them.

    The fault of a line that is too long is raised: it may be in the middle of a row.
    """

    def __init__(self, lines: Iterable[bytes | MhaError], reading: Reading) -> None:
        csv.field_size_limit(MAX_LINE_BYTES)  # the limit is the process's: csv has no other
        self._lines, self._reading = iter(lines), reading
        self._ahead: deque[bytes | MhaError] = deque()
        self._size = 0
        self._taken: list[bytes] = []
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        """The lines."""
        return self

    def __next__(self) -> str:
        """The next line, decoded."""
        raw = self._ahead.popleft() if self._ahead else next(self._lines)
        if isinstance(raw, MhaError):
            raise raw
        self._number += 1
        self._taken.append(raw)
        self._size += len(raw)
        if self._size > MAX_LINE_BYTES and len(self._taken) > 1:
            raise csv.Error(ROW_TOO_LONG)
        return self._reading.decoded(raw, self._number)

    def peek(self, ahead: int = 0) -> bytes | None:
        """A line that is still to be read; None where the table ends before it."""
        while len(self._ahead) <= ahead:
            try:
                line = next(self._lines, None)
            except MhaError as fault:  # of the stream; the lines before it come first
                line = fault
            if line is None:
                return None
            self._ahead.append(line)
        line = self._ahead[ahead]
        return None if isinstance(line, MhaError) else line

    def rows(self, separator: str) -> Iterator[Row]:
        """The rows of the table, the header line too; a quoted field may hold line feeds.

        A broken row costs its first line: a stray quote may have drawn others into it, which are read again.
        """
        quoted = csv.reader(self, delimiter=separator, strict=True)
        literal = csv.reader(self, delimiter=separator, quoting=csv.QUOTE_NONE)
        width = num_again = 0
        while True:
            self._taken, self._size = [], 0
            start = self._number + 1
            plain = not self._reading.dialect.quoting or (separator == "\t" and _quotes_are_literal(self, width))
            try:
                values = next(literal if plain else quoted)
            except StopIteration:
                return
            except csv.Error as error:
                first, *others = self._taken
                num_again += len(others)
                if num_again > MOST_AGAIN * self._number + FREE_AGAIN:
                    message = f"{self._reading.name}:{start}: row after row has a quote that is not closed"
                    raise MhaError(message, f"close them; {DOUBLE}") from None
                self._ahead.extendleft(reversed(others))
                self._number = start
                yield Row([], [first], start, _fault_of_row(str(error), start, separator, self._reading))
                continue
            if values and not values[0].strip() and values != [""] and not any(map(str.strip, values)):  # "" alone is an empty text
                values = []
            width = width or len(values)
            yield Row(values, self._taken, start)


def num_quoted_rows(row: Row, separator: str) -> int:
    """Lines inside a row that would be rows by themselves: an open quote may have drawn them into it. 0 unless most of them would.

    Blank lines do not count. A line of prose has a space behind its commas, so a cell that begins with a space speaks against it.
    """
    if len(row.lines) < 2 or len(row.values) < 2:
        return 0
    cut, spaced = separator.encode(), f"{separator} ".encode()
    alike = [line.count(cut) + 1 == len(row.values) and spaced not in line for line in row.lines if not line.isspace()]
    return sum(alike[1:]) if alike[0] and 2 * sum(alike) > len(alike) + 1 else 0


def _quotes_are_literal(lines: TableLines, width: int) -> bool:
    """Whether the quotes of the next line of a table with tabs, of a width or of 0 for an unknown one, are characters like any other.

    Without quoting, the line must be a row. Then its quotes are literal where text follows a closing quote, where the row has another
    width with quoting, and where a quote is not closed on its line but the next line is a row by itself.
    """
    raw = lines.peek()
    if raw is None or b'"' not in raw:
        return False
    num_columns = raw.count(b"\t") + 1
    if num_columns < 2 or width not in (0, num_columns):
        return False
    try:
        values = next(csv.reader([raw.decode("utf-8", "replace")], delimiter="\t", strict=True))
    except csv.Error as error:
        if UNCLOSED_QUOTE in str(error):
            following = next((line for ahead in range(1, MOST_BLANK) if (line := lines.peek(ahead)) is None or not line.isspace()), b"")
            return following is None or following.count(b"\t") + 1 == num_columns
        return TEXT_BEHIND_QUOTE in str(error)
    return width not in (0, len(values))


def _fault_of_row(problem: str, line: int, separator: str, reading: Reading) -> MhaError:
    """The csv module's error with advice."""
    if UNCLOSED_QUOTE in problem:
        message, hint = "a quote in this row is never closed", f"close it, or read the table with {reading.no_quoting}; {DOUBLE}"
    elif "field limit" in problem or problem == ROW_TOO_LONG:
        message, hint = f"a row longer than {csv.field_size_limit():,} characters", "look for a quote that is not closed"
    elif "new-line character" in problem:
        message, hint = "a carriage return inside a field", "save it with LF or CRLF line ends, or quote the field"
    else:
        message = printable(problem)
        hint = f"separate the columns with {SEPARATORS[separator]}s, and quote the whole field; {DOUBLE}"
    return MhaError(f"{reading.name}:{line}: {message}", hint)
