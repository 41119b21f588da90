"""Bytes to lines: gzip data are unpacked as they come, and only a line feed ends a line."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO, RawIOBase
from itertools import chain
from typing import IO, Any, cast

from mha_cli.errors import MhaError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 1 << 16  # largest unpacked piece: a few packed bytes may be gigabytes
MAX_LINE_BYTES = 64 * 1024 * 1024  # a longer line is refused before it fills the memory


class PieceFile(RawIOBase):
    """The pieces of a stream as a file; each comes as soon as it is there."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._left = filter(None, pieces), b""

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read what is there of a piece."""
        left = self._left or next(self._pieces, b"")
        size = min(len(left), len(buffer))
        buffer[:size], self._left = left[:size], left[size:]
        return size


def unpacked(pieces: Iterable[bytes], name: str, gzipped: bool = False) -> Iterator[bytes]:
    """The bytes of a stream, unpacked if they begin as gzip data do; ``gzipped`` refuses anything else."""
    pieces = iter(pieces)
    first = beginning_of(pieces, GZIP_MAGIC.startswith)
    if not first.startswith(GZIP_MAGIC):
        if gzipped and first:
            raise MhaError(f"{name}: not a gzip file", "compress it with gzip, or drop .gz from its name")
        yield first
        yield from pieces
        return
    file = gzip.GzipFile(fileobj=cast(IO[bytes], PieceFile(chain([first], pieces))))
    try:
        while piece := file.read1(CHUNK_BYTES):
            yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise MhaError(f"{name}: the gzip data is cut short or damaged", "copy or compress the file again") from None


def beginning_of(pieces: Iterator[bytes], is_open: Callable[[bytes], bool]) -> bytes:
    """The first bytes of a stream: as many pieces as it takes until the beginning is no longer open."""
    beginning = b""
    for piece in pieces:
        beginning += piece
        if not is_open(beginning):
            break
    return beginning


def lines_of(pieces: Iterable[bytes], name: str) -> Iterator[bytes | MhaError]:
    """The lines of a stream, each with its line feed, and a fault for each line that is too long.

    Where the whole stream has no line feed, carriage returns end its lines.
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
                yield MhaError(f"{name}:{number + 1}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text per line")
            if ended:
                number += 1
                if parts:
                    yield b"".join(parts)
                parts, size = [], 0
    if parts:
        rest = b"".join(parts)
        yield from (line + b"\n" for line in ([rest] if number else rest.removesuffix(b"\r").split(b"\r")))
