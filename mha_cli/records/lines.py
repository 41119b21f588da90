"""Bytes to lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

from mha_cli.errors import MhaError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is refused before it fills the memory."""


class LineTooLong(MhaError):
    """A line has more than ``MAX_LINE_BYTES``."""


def lines_of(pieces: Iterable[bytes], name: str) -> Iterator[bytes | LineTooLong]:
    """The lines of a stream, each with its line feed, and a fault for each line that is too long.

    A line feed ends a line, nothing else does; but where the whole stream has no line feed, carriage returns do.

    Args:
        pieces: bytes of the stream.
        name: name of the stream in messages.
    """
    number, parts, size = 0, list[bytes](), 0
    for piece in pieces:
        for part in BytesIO(piece):
            before, size = size, size + len(part)
            ended = part.endswith(b"\n")
            if size - ended <= MAX_LINE_BYTES:
                parts.append(part)
            elif before <= MAX_LINE_BYTES:  # told at once: it may have no end
                parts.clear()
                yield LineTooLong(f"{name}:{number + 1}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text a line")
            if ended:
                number += 1
                if parts:
                    yield b"".join(parts)
                parts, size = [], 0
    if parts:
        rest = b"".join(parts)
        yield from (line + b"\n" for line in ([rest] if number else rest.removesuffix(b"\r").split(b"\r")))


def not_utf_8(error: UnicodeDecodeError, name: str, first_line: int = 1, setting: str = "--encoding ") -> MhaError:
    """A byte that is not UTF-8, with its line and position.

    Args:
        error: error of decoding one line or several.
        name: name of the stream in messages.
        first_line: number of the first of these lines, from 1.
        setting: option or setting that names an encoding.
    """
    raw, start = error.object, error.start
    line = first_line + raw.count(b"\n", 0, start)
    column = start - raw.rfind(b"\n", 0, start)
    fault = f"{name}:{line}: not UTF-8: byte 0x{raw[start]:02X} at place {column} of the line"
    return MhaError(fault, f"save it as UTF-8, or if it is from Windows, read it with {setting}windows-1252")
