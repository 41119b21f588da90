"""Bytes to lines, and lines to text."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Literal

from mha_cli.errors import MhaError

if TYPE_CHECKING:
    from collections.abc import Iterator

DecodeErrors = Literal["strict", "replace"]
"""What comes of bytes that are not UTF-8: an error, or U+FFFD."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is refused before it fills the memory."""

BOM = b"\xef\xbb\xbf"
"""The byte-order mark with which some programs begin UTF-8."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class LineSplitter:
    """Is fed with the bytes of a stream and gives its lines, without a byte-order mark. A line feed ends a line, nothing else does.

    Args:
        name: the stream in messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = bytearray()
        self._num_lines = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that end in these bytes, each with its line feed, to be taken before the next are fed.

        Raises:
            MhaError: a line is too long, or the bytes are UTF-16; every line before that has come.
        """
        end = data.rfind(b"\n") + 1
        if end:
            whole = data[:end]
            if self._begun:
                whole = bytes(self._begun + whole)
                self._begun.clear()
            for line in BytesIO(whole).readlines():
                if not self._num_lines:
                    line = without_mark(line, self._name)
                self._num_lines += 1
                if len(line) > MAX_LINE_BYTES + 1:
                    raise self._too_long(self._num_lines)
                yield line
        self._begun += data[end:]
        if len(self._begun) > MAX_LINE_BYTES:
            raise self._too_long(self._num_lines + 1)

    def close(self) -> Iterator[bytes]:
        """What follows the last line feed, unless it is nothing, as a line like the others.

        Raises:
            MhaError: the bytes are UTF-16.
        """
        rest = bytes(self._begun)
        if rest and not self._num_lines:
            rest = without_mark(rest, self._name)
        if rest:
            yield rest + b"\n"

    def _too_long(self, number: int) -> MhaError:
        return MhaError(f"{self._name}:{number}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text a line")


def decoded(raw: bytes, name: str, first_line: int = 1, errors: DecodeErrors = "strict") -> str:
    """Bytes as text.

    Args:
        raw: one line or several.
        name: the stream in messages.
        first_line: number of the first of these lines, from 1.
        errors: what comes of bytes that are not UTF-8.

    Raises:
        MhaError: a byte is not UTF-8; the message says where it stands.
    """
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        column = error.start - raw.rfind(b"\n", 0, error.start)
        found = f"0x{raw[error.start]:02X}"
        raise MhaError(f"{name}:{line}: not UTF-8: byte {found} at place {column} of the line", "save it as UTF-8") from None


def without_mark(beginning: bytes, name: str) -> bytes:
    """The beginning of a stream without a byte-order mark.

    Raises:
        MhaError: the mark is that of UTF-16.
    """
    if beginning.startswith(UTF_16_MARKS):
        raise MhaError(f"{name}: UTF-16, not UTF-8", "convert it first, with iconv -f UTF-16 -t UTF-8")
    return beginning.removeprefix(BOM)
