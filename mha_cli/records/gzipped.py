"""Gzip data, unpacked as they come."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from mha_cli.errors import MhaError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 1 << 16
"""The largest piece that data unpack to: a few bytes may be gigabytes."""


class Unpacker:
    """Is fed with the bytes of a stream and gives them as they are, or unpacked if they begin as gzip data do.

    Args:
        name: name of the stream in messages.
        gzipped: True to take nothing but gzip data.
    """

    def __init__(self, name: str, gzipped: bool = False) -> None:
        self._name = name
        self._must_be_gzip = gzipped
        self._beginning = b""
        self._is_gzip: bool | None = None
        self._member: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes come to, in pieces, to be taken before the next are fed.

        Raises:
            MhaError: they are no gzip data, or damaged; what comes before that has come.
        """
        if self._is_gzip is None:
            data = self._beginning + data
            if len(data) < len(GZIP_MAGIC) and GZIP_MAGIC.startswith(data):
                self._beginning = data
                return
            self._decide(data)
        if self._is_gzip:
            yield from self._unpacked(data)
        else:
            yield data

    def close(self) -> bytes:
        """The rest; the gzip data may not be cut short."""
        if self._member is not None:
            raise self._damaged()
        if self._is_gzip is None and self._beginning:
            self._decide(self._beginning)
            return self._beginning
        return b""

    def _decide(self, beginning: bytes) -> None:
        self._is_gzip = beginning.startswith(GZIP_MAGIC)
        if self._must_be_gzip and not self._is_gzip:
            raise MhaError(f"{self._name}: not a gzip file", "compress it with gzip, or drop .gz from its name")

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        piece = b""
        while packed or len(piece) == CHUNK_BYTES:  # a full piece may not be all
            if self._member is None:
                if not (packed := packed.lstrip(b"\0")):  # some programs pad the end
                    return
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = self._member.decompress(packed, CHUNK_BYTES)
            except zlib.error:
                raise self._damaged() from None
            yield piece
            packed = self._member.unconsumed_tail
            if self._member.eof:
                packed, piece, self._member = self._member.unused_data, b"", None

    def _damaged(self) -> MhaError:
        return MhaError(f"{self._name}: the gzip data is cut short or damaged", "copy or compress the file again")
