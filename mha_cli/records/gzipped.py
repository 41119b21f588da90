"""Gzip data, unpacked as they come."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from mha_cli.errors import MhaError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 1 << 16
"""The largest piece that data unpack to: a few bytes may be gigabytes."""


def unpacked(pieces: Iterable[bytes], name: str, gzipped: bool = False) -> Iterator[bytes]:
    """The bytes of a stream as they are, or unpacked if they begin as gzip data do.

    Args:
        pieces: bytes of the stream.
        name: name of the stream in messages.
        gzipped: True to take nothing but gzip data.
    """
    pieces = iter(pieces)
    first = beginning_of(pieces, GZIP_MAGIC.startswith)
    if not first.startswith(GZIP_MAGIC):
        if gzipped and first:
            raise MhaError(f"{name}: not a gzip file", "compress it with gzip, or drop .gz from its name")
        yield first
        yield from pieces
        return
    damaged = MhaError(f"{name}: the gzip data is cut short or damaged", "copy or compress the file again")
    member: zlib._Decompress | None = None
    for packed in chain([first], pieces):
        piece = b""
        while packed or len(piece) == CHUNK_BYTES:  # a full piece may not be all
            if member is None:
                if not (packed := packed.lstrip(b"\0")):  # some programs pad the end
                    break
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = member.decompress(packed, CHUNK_BYTES)
            except zlib.error:
                raise damaged from None
            yield piece
            packed = member.unconsumed_tail
            if member.eof:
                packed, piece, member = member.unused_data, b"", None
    if member is not None:
        raise damaged


def beginning_of(pieces: Iterator[bytes], is_open: Callable[[bytes], bool]) -> bytes:
    """The first bytes of a stream, one piece or as many as it takes until the beginning is no longer open."""
    beginning = b""
    for piece in pieces:
        beginning += piece
        if not is_open(beginning):
            break
    return beginning
