"""Bytes to lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO

from mha_cli.errors import MhaError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is refused before it fills the memory."""

BOM = b"\xef\xbb\xbf"
"""The byte-order mark with which some programs begin UTF-8."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class LineTooLong(MhaError):
    """A line has more than ``MAX_LINE_BYTES``. The splitter that raises it goes on behind that line with what it is fed next."""


class LineSplitter:
    """Is fed with the bytes of a stream and gives its lines, without a byte-order mark. A line feed ends a line, nothing else does.

    Args:
        name: name of the stream in messages.

    Attributes:
        rest: bytes that came behind a line that was too long, to be fed again by who goes on.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = bytearray()
        self._num_lines = 0
        self._skipping = False
        self.rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that end in these bytes, each with its line feed, to be taken before the next are fed.

        Raises:
            LineTooLong: every line before that has come.
            MhaError: the first bytes are UTF-16's.
        """
        if self._skipping:
            _, ended, data = data.partition(b"\n")
            self._skipping = not ended
        end = data.rfind(b"\n") + 1
        if end:
            whole = bytes(self._begun) + data[:end]
            self._begun.clear()
            lines = BytesIO(whole).readlines()
            if not self._num_lines:
                lines[0] = without_mark(lines[0], self._name)
            for number, line in enumerate(lines) if len(whole) > MAX_LINE_BYTES else ():
                if len(line) > MAX_LINE_BYTES + 1:
                    yield from lines[:number]
                    raise self._too_long(number + 1, b"".join([*lines[number + 1 :], data[end:]]))
            yield from lines
            self._num_lines += len(lines)
        self._begun += data[end:]
        if len(self._begun) > MAX_LINE_BYTES:
            self._begun.clear()
            self._skipping = True
            raise self._too_long(1, b"")

    def close(self) -> Iterator[bytes]:
        """What follows the last line feed, unless it is nothing, as a line like the others."""
        if self._begun and (self._num_lines or self._begun != BOM):
            yield from self.feed(b"\n")

    def _too_long(self, number: int, rest: bytes) -> LineTooLong:
        self._num_lines += number
        self.rest = rest
        return LineTooLong(f"{self._name}:{self._num_lines}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text a line")


def decoded(line: bytes, name: str, number: int, on_not_utf_8: Callable[[MhaError, int], object]) -> str:
    """A line as text; bytes that are not UTF-8 become U+FFFD.

    Args:
        line: line to decode.
        name: name of the stream in messages.
        number: number of the line, from 1.
        on_not_utf_8: function that takes the fault of a line with such bytes, and its number; it may raise the fault.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        fault = not_utf_8(error, name, number)
    on_not_utf_8(fault, number)
    return line.decode("utf-8", "replace")


def not_utf_8(error: UnicodeDecodeError, name: str, first_line: int = 1) -> MhaError:
    """A byte that is not UTF-8, and where it stands.

    Args:
        error: error of decoding one line or several.
        name: name of the stream in messages.
        first_line: number of the first of these lines, from 1.
    """
    raw, start = error.object, error.start
    line = first_line + raw.count(b"\n", 0, start)
    column = start - raw.rfind(b"\n", 0, start)
    fault = f"{name}:{line}: not UTF-8: byte 0x{raw[start]:02X} at place {column} of the line"
    return MhaError(fault, "save it as UTF-8, for example with iconv -f latin1 -t utf-8")


def without_mark(beginning: bytes, name: str) -> bytes:
    """The beginning of a stream without a byte-order mark.

    Raises:
        MhaError: the mark is that of UTF-16.
    """
    if beginning.startswith(UTF_16_MARKS):
        raise MhaError(f"{name}: UTF-16, not UTF-8", "convert it first, with iconv -f UTF-16 -t UTF-8")
    return beginning.removeprefix(BOM)
