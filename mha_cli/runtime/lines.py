"""Lines from a stream, in batches that fill while the stream is fast and are cut the moment it pauses."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

CHUNK_BYTES = 1 << 16


def line_batches(descriptor: int, max_lines: int) -> Iterator[list[str]]:
    """Batches of lines read from a file descriptor.

    A batch ends when it has ``max_lines``, or when more lines would have to be waited for: a slow producer gets each line answered at
    once, a fast one gets full batches. Lines end at a line feed; a carriage return before it is dropped. Bytes that are not
    UTF-8 become U+FFFD.
    """
    batch: list[str] = []
    for line in _lines(descriptor):
        if line is not None:
            batch.append(line)
        if batch and (line is None or len(batch) == max_lines):
            yield batch
            batch = []
    if batch:
        yield batch


def _lines(descriptor: int) -> Iterator[str | None]:
    """Lines as they come; None wherever the next one would have to be waited for."""
    pending: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            break
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            pending.append(line)
            yield _decode(b"".join(pending))
            pending.clear()
        pending.append(rest)
    last = b"".join(pending)
    if last:
        yield _decode(last)


def _decode(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", errors="replace")
