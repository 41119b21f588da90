from __future__ import annotations

import gzip
import os
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.runtime import lines as lines_module
from mha_cli.runtime.lines import CHUNK_BYTES, Pause, read_lines, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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


def lines_in(chunks: Iterable[bytes]) -> list[bytes]:
    """The lines in pieces of bytes between which the producer pauses."""
    pieces = [piece for chunk in chunks for piece in (chunk, Pause(0))]
    return [line for line in split_lines(iter(pieces), "x") if not isinstance(line, Pause)]


def error_of(chunks: Iterable[bytes], before: int = 0) -> str:
    """The one line about what is wrong, after so many lines."""
    lines = split_lines(iter(chunks), "x")
    for _ in range(before):
        assert isinstance(next(lines), bytes)
    with pytest.raises(MhaError) as raised:
        list(lines)
    assert raised.value.exit_code == EXIT_USAGE
    return str(raised.value)


# From a descriptor


def test_a_slow_producer_pauses(pipe: Pipe) -> None:
    lines = read_lines(pipe.read, "x")
    for line in (b"first", b"", b"third"):
        os.write(pipe.write, line + b"\n")
        assert next(lines) == line  # the producer has not ended, nor sent more
        assert next(lines) == Pause(pipe.read)
    os.close(pipe.write)
    assert list(lines) == []


def test_a_pause_within_a_line_does_not_hold_earlier_lines_back(pipe: Pipe) -> None:
    lines = read_lines(pipe.read, "x")
    os.write(pipe.write, b"one\ntwo\nthr")
    assert [next(lines) for _ in range(3)] == [b"one", b"two", Pause(pipe.read)]
    os.write(pipe.write, b"ee\nfo")
    assert [next(lines) for _ in range(2)] == [b"three", Pause(pipe.read)]
    os.write(pipe.write, b"ur")
    os.close(pipe.write)
    assert list(lines) == [b"four"]


def test_packed_lines_come_as_soon_as_they_are_sent(pipe: Pipe) -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    lines = read_lines(pipe.read, "x")
    os.write(pipe.write, packer.compress(b"one\ntwo\nthr") + packer.flush(zlib.Z_SYNC_FLUSH))
    assert [next(lines) for _ in range(3)] == [b"one", b"two", Pause(pipe.read)]
    os.write(pipe.write, packer.compress(b"ee") + packer.flush())
    os.close(pipe.write)
    assert list(lines) == [b"three"]


def test_a_file_never_pauses(tmp_path: Path) -> None:
    expected = [b"%d " % number + b"word " * (number % 40) for number in range(3_000)]
    path = tmp_path / "lines.txt"
    path.write_bytes(b"".join(line + b"\n" for line in expected))
    assert path.stat().st_size > 3 * CHUNK_BYTES
    descriptor = os.open(path, os.O_RDONLY)
    assert list(read_lines(descriptor, "x")) == expected
    os.close(descriptor)


def test_a_pipe_that_nobody_waits_for_blocks_nobody(pipe: Pipe) -> None:
    os.set_blocking(pipe.read, False)
    producer = threading.Timer(0.05, lambda: (os.write(pipe.write, b"late\n"), os.close(pipe.write)))
    producer.start()
    assert [line for line in read_lines(pipe.read, "x") if not isinstance(line, Pause)] == [b"late"]
    producer.join()


def test_a_descriptor_that_cannot_be_read(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for reason in ("Is a directory", "Bad file descriptor"):
        with pytest.raises(MhaError) as raised:
            list(read_lines(folder, "mine"))
        assert str(raised.value) == f"mine: cannot be read: {reason}; give a file of texts"
        with suppress(OSError):
            os.close(folder)


# From bytes


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\n", [b"one"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\r\ntwo\r\n\rthree\r", [b"one\r", b"two\r", b"\rthree\r"]),
        (b"\n\none\n\ntwo\n\n", [b"", b"", b"one", b"", b"two", b""]),
        (b"nul\x00inside\n\x00\n", [b"nul\x00inside", b"\x00"]),
        (b"\xff\n\xc3\x28\n", [b"\xff", b"\xc3\x28"]),
        ("one\u2028line\x0b\x0c\x1c\x85\u2029still\n".encode(), ["one\u2028line\x0b\x0c\x1c\x85\u2029still".encode()]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", [b"one", b"\xef\xbb\xbftwo"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbbone", [b"\xef\xbbone"]),
        (b"\x1fone\n", [b"\x1fone"]),
    ],
    ids=[
        "nothing",
        "one-line",
        "no-last-newline",
        "carriage-returns-are-left",
        "blank-lines-keep-their-place",
        "nul",
        "not-utf-8",
        "other-separators-do-not-end-a-line",
        "byte-order-mark-at-the-start-alone",
        "byte-order-mark-alone",
        "half-a-byte-order-mark",
        "half-a-gzip-mark",
    ],
)
def test_where_lines_end(data: bytes, lines: list[bytes]) -> None:
    assert lines_in([data]) == lines
    assert lines_in([bytes([byte]) for byte in data]) == lines
    assert lines_in([gzip.compress(data)]) == lines


@given(st.binary(max_size=200) | st.text("a\n\r", max_size=200).map(str.encode), st.lists(st.integers(0, 200)), st.booleans())
@settings(deadline=None)
def test_any_cut_gives_the_same_lines(data: bytes, cuts: list[int], packed: bool) -> None:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b"}:
        return
    expected = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    data = gzip.compress(data) if packed else data
    places = sorted(min(cut, len(data)) for cut in cuts)
    chunks = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    assert lines_in(chunks) == (expected if expected[-1] else expected[:-1])


def test_a_line_longer_than_a_chunk_comes_whole() -> None:
    expected = [b"short", b"x" * (3 * CHUNK_BYTES), b"", b"y" * CHUNK_BYTES]
    data = b"\n".join(expected)
    assert lines_in(data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)) == expected


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_is_refused(mark: bytes) -> None:
    message = "x: UTF-16, not UTF-8; convert it first, with iconv -f UTF-16 -t UTF-8"
    assert error_of([mark + b"a\0\n\0"]) == message
    assert error_of([mark[:1], mark[1:], b"a\0"]) == message
    assert error_of([gzip.compress(mark + b"a\0")]) == message


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100)
    endless = (b"x" * 30 for _ in iter(int, 1))
    assert error_of((chunk for part in ([b"one\ntwo\n"], endless) for chunk in part), before=2) == (
        "x:3: a line longer than 100 bytes; write one text a line"
    )


# Gzip


DAMAGED = "x: the gzip data is cut short or damaged; copy or compress the file again"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_gzip_members_follow_each_other(size: int) -> None:
    data = gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree") + b"\0" * 20
    assert lines_in(data[start : start + size] for start in range(0, len(data), size)) == [b"one", b"two", b"three"]


def test_what_unpacks_to_much_comes_in_small_pieces() -> None:
    data = gzip.compress(b"x" * 20_000_000 + b"\n")
    assert len(data) < CHUNK_BYTES
    sizes = [len(piece) for piece in lines_module._unpacked(iter([data]), "x") if isinstance(piece, bytes)]
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) == 20_000_001


@pytest.mark.parametrize("size", [3, 10_000])
def test_damaged_gzip(size: int) -> None:
    data = gzip.compress(b"one\ntwo\n" * 1000, mtime=0)
    flipped = bytearray(data)
    flipped[-6] ^= 1  # of the checksum
    for broken, before in ((data[:-1], 2000), (data[:5], 0), (bytes(flipped), 0), (data + b"more", 2000), (data[:12] + data[30:], 0)):
        assert error_of([broken[start : start + size] for start in range(0, len(broken), size)], before=before) == DAMAGED
