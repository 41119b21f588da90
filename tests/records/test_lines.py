"""From bytes to lines, plain and packed."""

from __future__ import annotations

import gzip
import tracemalloc
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.records import lines as lines_module
from mha_cli.records.gzipped import CHUNK_BYTES, Unpacker
from mha_cli.records.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def lines_of(pieces: Iterable[bytes], gzipped: bool = False) -> Iterator[bytes]:
    """The lines in bytes that come in pieces, with their line feeds."""
    unpacker, splitter = Unpacker("x", gzipped), LineSplitter("x")
    for piece in pieces:
        for unpacked in unpacker.feed(piece):
            yield from splitter.feed(unpacked)
    yield from splitter.feed(unpacker.close())
    yield from splitter.close()


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def error_of(pieces: Iterable[bytes], before: int = 0, gzipped: bool = False) -> str:
    """The one line about what is wrong, after so many lines at least."""
    found = []
    with pytest.raises(MhaError) as raised:
        for line in lines_of(pieces, gzipped):
            found.append(line)
    assert len(found) >= before
    assert raised.value.exit_code == EXIT_USAGE
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\n", [b"one\n"]),
        (b"one\ntwo", [b"one\n", b"two\n"]),
        (b"one\r\ntwo\r\n\rthree\r", [b"one\r\n", b"two\r\n", b"\rthree\r\n"]),
        (b"\n\none\n\ntwo\n\n", [b"\n", b"\n", b"one\n", b"\n", b"two\n", b"\n"]),
        (b"nul\x00inside\n\x00\n", [b"nul\x00inside\n", b"\x00\n"]),
        (b"\xff\n\xc3\x28\n", [b"\xff\n", b"\xc3\x28\n"]),
        ("one\u2028line\x0b\x0c\x1c\x85\u2029still\n".encode(), ["one\u2028line\x0b\x0c\x1c\x85\u2029still\n".encode()]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", [b"one\n", b"\xef\xbb\xbftwo\n"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbbone", [b"\xef\xbbone\n"]),
        (b"\x1fone\n", [b"\x1fone\n"]),
        (b"\x1f", [b"\x1f\n"]),
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
        "half-a-gzip-mark-alone",
    ],
)
def test_where_lines_end(data: bytes, lines: list[bytes]) -> None:
    for size in (1, 2, 3, 1000):
        assert list(lines_of(in_pieces(data, size))) == lines
        assert list(lines_of(in_pieces(gzip.compress(data), size))) == lines


@given(st.binary(max_size=200) | st.text("a\n\r", max_size=200).map(str.encode), st.lists(st.integers(0, 200)), st.booleans())
def test_any_cut_gives_the_same_lines(data: bytes, cuts: list[int], packed: bool) -> None:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b"}:
        return
    expected = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    data = gzip.compress(data) if packed else data
    positions = sorted(min(cut, len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *positions], [*positions, len(data)], strict=True)]
    assert [line[:-1] for line in lines_of(pieces)] == (expected if expected[-1] else expected[:-1])


def test_a_line_longer_than_a_piece_comes_whole() -> None:
    expected = [b"short\n", b"x" * (3 * CHUNK_BYTES) + b"\n", b"\n", b"y" * CHUNK_BYTES + b"\n"]
    assert list(lines_of(in_pieces(b"".join(expected), CHUNK_BYTES))) == expected


def test_a_line_comes_as_soon_as_it_ends() -> None:
    splitter = LineSplitter("x")
    assert list(splitter.feed(b"one\ntwo\nthr")) == [b"one\n", b"two\n"]
    assert list(splitter.feed(b"ee\nfo")) == [b"three\n"]
    assert list(splitter.feed(b"ur")) == []
    assert list(splitter.close()) == [b"four\n"]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_is_refused(mark: bytes) -> None:
    message = "x: UTF-16, not UTF-8; convert it first, with iconv -f UTF-16 -t UTF-8"
    for pieces in ([mark + b"a\0\n\0"], [mark[:1], mark[1:], b"a\0"], [gzip.compress(mark + b"a\0")]):
        assert error_of(pieces) == message


@pytest.mark.parametrize("size", [1, 30, 1000])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100)
    message = "x:3: a line longer than 100 bytes; write one text a line"
    assert error_of(chain([b"one\ntwo\n"], repeat(b"x" * 30)), before=2) == message
    assert error_of(in_pieces(b"one\n" + b"x" * 100 + b"\n" + b"x" * 101 + b"\nmore", size), before=2) == message


# Gzip


DAMAGED = "x: the gzip data is cut short or damaged; copy or compress the file again"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_gzip_members_follow_each_other(size: int) -> None:
    data = gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree") + b"\0" * 20
    assert list(lines_of(in_pieces(data, size))) == [b"one\n", b"two\n", b"three\n"]


def test_what_unpacks_to_much_comes_in_small_pieces() -> None:
    data = gzip.compress(b"x" * 20_000_000 + b"\n")
    assert len(data) < CHUNK_BYTES
    tracemalloc.start()
    sizes = [len(piece) for piece in Unpacker("x").feed(data)]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) == 20_000_001
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize("size", [3, 10_000])
def test_damaged_gzip(size: int) -> None:
    data = gzip.compress(b"one\ntwo\n" * 1000, mtime=0)
    flipped = bytearray(data)
    flipped[-6] ^= 1  # of the checksum
    for broken, before in ((data[:-1], 2000), (data[:5], 0), (bytes(flipped), 0), (data + b"more", 2000), (data[:12] + data[30:], 0)):
        assert error_of(in_pieces(broken, size), before=before) == DAMAGED


def test_what_has_to_be_gzip_data() -> None:
    for pieces in ([b"one\n"], [b"\x1f"], [b"\x1f", b"one"]):
        assert error_of(pieces, gzipped=True) == "x: not a gzip file; compress it with gzip, or drop .gz from its name"
    assert list(lines_of([], gzipped=True)) == []
    assert list(lines_of([gzip.compress(b"one")], gzipped=True)) == [b"one\n"]
