from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.runtime.lines import CHUNK_BYTES, line_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Pipe(NamedTuple):
    """Both ends, by descriptor."""

    read: int
    write: int


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = Pipe(*os.pipe())
    yield ends
    for end in ends:
        with suppress(OSError):  # the test closed it
            os.close(end)


def lines_of(pipe: Pipe, data: bytes) -> list[str]:
    """All lines of a short stream that has already ended."""
    os.write(pipe.write, data)
    os.close(pipe.write)
    return [line for batch in line_batches(pipe.read, 100) for line in batch]


def test_a_slow_producer_gets_each_line_at_once(pipe: Pipe) -> None:
    batches = line_batches(pipe.read, 100)
    for line in ("first", "", "third"):
        os.write(pipe.write, f"{line}\n".encode())
        assert next(batches) == [line]  # the producer has not ended, nor sent more
    os.close(pipe.write)
    assert list(batches) == []


def test_a_pause_within_a_line_does_not_hold_earlier_lines_back(pipe: Pipe) -> None:
    batches = line_batches(pipe.read, 100)
    os.write(pipe.write, b"one\ntwo\nthr")
    assert next(batches) == ["one", "two"]
    os.write(pipe.write, b"ee\nfo")
    assert next(batches) == ["three"]
    os.write(pipe.write, b"ur")
    os.close(pipe.write)
    assert list(batches) == [["four"]]


def test_a_fast_producer_gets_full_batches(pipe: Pipe) -> None:
    os.write(pipe.write, b"".join(b"%d\n" % number for number in range(10)))
    os.close(pipe.write)
    assert list(line_batches(pipe.read, 4)) == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


def test_a_full_batch_does_not_wait(pipe: Pipe) -> None:
    batches = line_batches(pipe.read, 2)
    os.write(pipe.write, b"1\n2\n3\n")
    assert next(batches) == ["1", "2"]
    assert next(batches) == ["3"]


def test_batches_fill_across_chunks(tmp_path: Path) -> None:
    lines = [f"{number} " + "word " * (number % 40) for number in range(3_000)]
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    assert path.stat().st_size > 3 * CHUNK_BYTES
    descriptor = os.open(path, os.O_RDONLY)
    batches = list(line_batches(descriptor, 700))
    os.close(descriptor)
    assert [len(batch) for batch in batches] == [700, 700, 700, 700, 200]
    assert [line for batch in batches for line in batch] == lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\n", ["one"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\nthree", ["one", "two", "three"]),
        (b"a\rb\r\r\nlast\r", ["a\rb\r", "last"]),
        (b"\n\none\n\ntwo\n\n", ["", "", "one", "", "two", ""]),
        (b"\r\n\r\n", ["", ""]),
        (b"  spaces \t\n", ["  spaces \t"]),
        (b"good \xff\xfe film\ncaf\xe9\n", ["good \ufffd\ufffd film", "caf\ufffd"]),
        (b"cut short \xe2\x82", ["cut short \ufffd"]),
        (b"nul\x00inside\n\x00\n", ["nul\x00inside", "\x00"]),
        ("naïve – 映画 🎬\n".encode(), ["naïve – 映画 🎬"]),
        ("one\u2028line\x0b\x0c\x1c\x85\u2029still\n".encode(), ["one\u2028line\x0b\x0c\x1c\x85\u2029still"]),
    ],
    ids=[
        "nothing",
        "one-line",
        "no-last-newline",
        "crlf",
        "lone-carriage-returns",
        "blank-lines-keep-their-place",
        "blank-crlf-lines",
        "spaces",
        "not-utf-8",
        "cut-character",
        "nul",
        "unicode",
        "other-separators-do-not-end-a-line",
    ],
)
def test_reads_lines(data: bytes, lines: list[str], pipe: Pipe) -> None:
    assert lines_of(pipe, data) == lines


@pytest.mark.parametrize("max_lines", [1, 100])
def test_a_line_longer_than_a_chunk_comes_whole(max_lines: int, pipe: Pipe) -> None:
    # The characters of three bytes are cut wherever a chunk ends, and so is the line's own end.
    lines = ["short", "映" * CHUNK_BYTES, "", "x" * (3 * CHUNK_BYTES - 1), "last"]

    def produce() -> None:
        with os.fdopen(pipe.write, "wb") as stream:
            stream.write("\r\n".join(lines).encode())

    producer = threading.Thread(target=produce)
    producer.start()
    batches = list(line_batches(pipe.read, max_lines))
    producer.join()
    assert [line for batch in batches for line in batch] == lines
    assert all(len(batch) <= max_lines for batch in batches)


@pytest.mark.parametrize("text", ["naïve 🎬\r\nnext", "\r\n\r\n\n"])
def test_bytes_that_come_one_by_one_make_the_same_lines(text: str, pipe: Pipe) -> None:
    lines: list[str] = []
    batches = line_batches(pipe.read, 100)
    reader = threading.Thread(target=lambda: lines.extend(line for batch in batches for line in batch))
    reader.start()
    for byte in text.encode():
        os.write(pipe.write, bytes([byte]))
    os.close(pipe.write)
    reader.join()
    expected = text.replace("\r\n", "\n").split("\n")
    assert lines == (expected if expected[-1] else expected[:-1])


words = [b"\n", b"\r", b"\r\n", b"a", b"\xe6\x98", b"\xa0", b"\xff", b"\0"]
any_bytes = st.binary(max_size=40) | st.lists(st.sampled_from(words)).map(b"".join)


@given(st.lists(any_bytes, max_size=5), st.integers(1, 4))
def test_any_bytes_in_any_pieces(pieces: list[bytes], max_lines: int) -> None:
    read, write = os.pipe()
    batches = []
    try:
        reader = line_batches(read, max_lines)
        for piece in pieces:
            os.write(write, piece)
            if b"\n" in piece:
                batches.append(next(reader))  # what is whole comes before the stream goes on
        os.close(write)
        batches.extend(reader)
    finally:
        os.close(read)
    *whole, last = b"".join(pieces).split(b"\n")
    expected = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in [*whole, *([last] if last else [])]]
    assert [line for batch in batches for line in batch] == expected
    assert all(0 < len(batch) <= max_lines for batch in batches)
