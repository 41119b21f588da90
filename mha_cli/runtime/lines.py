"""From a file descriptor to lines as they come: gzip unpacked, a byte-order mark dropped, and a sign wherever more must be waited for."""

from __future__ import annotations

import fcntl
import os
import select
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from mha_cli.data.records import BOM, GZIP_MAGIC, MAX_LINE_BYTES, UTF_16_MARKS, utf_16
from mha_cli.errors import MhaError

CHUNK_BYTES = 1 << 16
PIPE_BYTES = 1 << 20
"""What a producer may write ahead into a pipe while a batch is computed: so a fast one fills the next batch."""


class Pause(NamedTuple):
    """Stands in a stream wherever the next item has to be waited for; taking the next item waits.

    Args:
        descriptor: becomes readable when the wait is over.
    """

    descriptor: int


def read_lines(descriptor: int, name: str) -> Iterator[bytes | Pause]:
    """The lines of a stream, without their line feeds. What follows the last line feed is a line too, unless it is empty.

    Args:
        descriptor: of a file, a pipe or a terminal.
        name: of the stream, for messages.

    Raises:
        MhaError: the stream cannot be read, is UTF-16, is damaged gzip data or has a line of more than ``MAX_LINE_BYTES``; every line
            before that has come.
    """
    return split_lines(read_chunks(descriptor, name), name)


def read_chunks(descriptor: int, name: str) -> Iterator[bytes | Pause]:
    """The bytes of a stream in pieces."""
    with suppress(OSError, AttributeError):  # no pipe, or a system that cannot
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        while True:
            if not select.select([descriptor], [], [], 0)[0]:
                yield Pause(descriptor)
                select.select([descriptor], [], [])
            if not (chunk := os.read(descriptor, CHUNK_BYTES)):
                return
            yield chunk
    except (OSError, ValueError) as error:
        raise MhaError(f"{name}: cannot be read: {getattr(error, 'strerror', error)}", "give a file of texts") from None


def split_lines(chunks: Iterator[bytes | Pause], name: str) -> Iterator[bytes | Pause]:
    """The lines in bytes that come in pieces, however those are cut; see ``read_lines``."""
    begun, number = bytearray(), 0
    for chunk in _text(_unpacked(chunks, name), name):
        if isinstance(chunk, Pause):
            yield chunk
            continue
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if begun:
                line = bytes(begun + line)
                begun.clear()
            yield line
        begun += rest
        number += len(lines)
        if len(begun) > MAX_LINE_BYTES:
            raise MhaError(f"{name}:{number + 1}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text a line")
    if begun:
        yield bytes(begun)


def _unpacked(chunks: Iterator[bytes | Pause], name: str) -> Iterator[bytes | Pause]:
    """The same bytes, or what they unpack to if they begin as gzip data does."""
    chunks = _with_whole_beginning(chunks, (GZIP_MAGIC,))
    for chunk in chunks:
        if isinstance(chunk, Pause):
            yield chunk
        elif chunk.startswith(GZIP_MAGIC):
            yield from _gunzip(chain([chunk], chunks), name)
        else:
            yield chunk
            yield from chunks


def _gunzip(chunks: Iterator[bytes | Pause], name: str) -> Iterator[bytes | Pause]:
    """What gzip data of one member or several unpack to, in pieces of bounded size."""
    damaged = MhaError(f"{name}: the gzip data is cut short or damaged", "copy or compress the file again")
    member, begun = zlib.decompressobj(zlib.MAX_WBITS | 16), False
    for chunk in chunks:
        if isinstance(chunk, Pause):
            yield chunk
            continue
        packed, piece = chunk, b""
        while packed or len(piece) == CHUNK_BYTES:  # a full piece may not be all
            if not begun:
                packed = packed.lstrip(b"\0")  # some programs pad the end
            begun = begun or bool(packed)
            try:
                piece = member.decompress(packed, CHUNK_BYTES)
            except zlib.error:
                raise damaged from None
            yield piece
            packed = member.unconsumed_tail
            if member.eof:
                packed, piece = member.unused_data, b""
                member, begun = zlib.decompressobj(zlib.MAX_WBITS | 16), False
    if begun:
        raise damaged


def _text(chunks: Iterator[bytes | Pause], name: str) -> Iterator[bytes | Pause]:
    """The same bytes without a byte-order mark."""
    chunks = _with_whole_beginning(chunks, (BOM, *UTF_16_MARKS))
    for chunk in chunks:
        if isinstance(chunk, Pause):
            yield chunk
            continue
        if chunk.startswith(UTF_16_MARKS):
            raise utf_16(name)
        yield chunk.removeprefix(BOM)
        yield from chunks


def _with_whole_beginning(chunks: Iterator[bytes | Pause], marks: tuple[bytes, ...]) -> Iterator[bytes | Pause]:
    """The same bytes in pieces of which the first is not cut within one of the marks."""
    beginning = b""
    for chunk in chunks:
        if isinstance(chunk, Pause):
            yield chunk
            continue
        beginning += chunk
        if not any(mark.startswith(beginning) and mark != beginning for mark in marks):
            break
    yield beginning
    yield from chunks
