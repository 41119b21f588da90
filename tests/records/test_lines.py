"""From bytes to lines, plain and packed."""

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

import pytest

from mha_cli.errors import MhaError
from mha_cli.records import lines as lines_module
from mha_cli.records.encodings import BINARIES
from mha_cli.records.lines import CHUNK_BYTES, GZIP_MAGIC, unpacked
from mha_cli.records.reader import Dialect, Reading
from mha_cli.records.readers import text_lines
from tests.errors import error_of as one_error
from tests.limits import traced_peak


def lines_of(pieces: Iterable[bytes], gzipped: bool = False, encoding: str | None = None) -> Iterator[bytes]:
    """The lines in bytes that come in pieces, with their line feeds."""
    for line in text_lines(pieces, Reading("x", gzipped=gzipped, dialect=Dialect(encoding))):
        if isinstance(line, MhaError):
            raise line
        yield line


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def error_of(pieces: Iterable[bytes], before: int = 0, gzipped: bool = False, encoding: str | None = None) -> str:
    """The one line about what is wrong, after so many lines at least."""
    found: list[str] = []
    message = one_error(lambda: found.extend(lines_of(pieces, gzipped, encoding)))
    assert len(found) >= before
    return message


LINES = {
    "nothing": (b"", []),
    "no-last-newline": (b"one\ntwo", [b"one\n", b"two\n"]),
    "carriage-returns-are-left": (b"one\r\ntwo\r\n\rthree\r", [b"one\r\n", b"two\r\n", b"\rthree\r\n"]),
    "carriage-returns-alone-end-lines": (b"one\rtwo\r\rfour\r", [b"one\n", b"two\n", b"\n", b"four\n"]),
    "blank-lines-keep-their-place": (b"\n\none\n\ntwo\n\n", [b"\n", b"\n", b"one\n", b"\n", b"two\n", b"\n"]),
    "nul-and-not-utf-8": (b"nul\x00inside\n\x00\n\xc3\x28\n", [b"nul\x00inside\n", b"\x00\n", b"\xc3\x28\n"]),
    "other-separators-do-not-end-a-line": ("\u2028line\x0b\x0c\x1c\x85\u2029\n".encode(), ["\u2028line\x0b\x0c\x1c\x85\u2029\n".encode()]),
    "byte-order-mark-at-the-start-alone": (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", [b"one\n", b"\xef\xbb\xbftwo\n"]),
    "half-a-byte-order-mark": (b"\xef\xbbone", [b"\xef\xbbone\n"]),
}


@pytest.mark.parametrize(("data", "lines"), LINES.values(), ids=LINES)
def test_where_lines_end(data: bytes, lines: list[bytes]) -> None:
    for size in (1, 2, 3, 1000):
        assert list(lines_of(in_pieces(data, size))) == lines
        assert list(lines_of(in_pieces(gzip.compress(data), size))) == lines


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "windows-1252", "shift_jis", "gb18030"])
def test_other_encodings(encoding: str) -> None:
    text = {"windows-1252": "café\n\nfin", "shift_jis": "テスト\nfin"}.get(encoding, "テスト\n\n中文 🎬\nfin")
    data = text.encode(encoding)
    marked = encoding in {"utf-16", "utf-32"}  # Python writes the byte-order mark
    for pieces in (in_pieces(data, 1), in_pieces(data, 1000), in_pieces(gzip.compress(data), 3)):
        assert b"".join(lines_of(pieces, encoding=None if marked else encoding)).decode() == text + "\n"
    if marked:
        assert b"".join(lines_of([data], encoding="windows-1252")).decode() == text + "\n"  # the mark is right


def test_a_byte_that_the_encoding_does_not_have() -> None:
    for size in (1, 1000):
        pieces = in_pieces(b"one\ncaf\xe9 \x81\n", size)
        error = error_of(pieces, before=1, encoding="cp1252")
        assert error == "x:2: not cp1252: byte 0x81; name another encoding, or save it as UTF-8"


def test_many_control_characters_are_no_text() -> None:
    message = "x: binary data, not texts; save the texts as CSV in UTF-8, or name their encoding"
    assert error_of([bytes(100)]) == error_of([bytes(range(32, 64)) + bytes(range(8))]) == message
    for text in ("\0\nsuperb\0dreadful\n", "\x1b[1mbold\x1b[0m and \x1b[2mdim\x1b[0m\tone\r\n"):
        assert b"".join(lines_of([text.encode()])).decode() == text


@pytest.mark.parametrize("magic", BINARIES)
def test_binary_files_are_refused(magic: bytes) -> None:
    kind, hint = BINARIES[magic]
    data = magic + b"\n\0rest\n"
    packed = [in_pieces(gzip.compress(data), 5)]
    for pieces in packed if magic == GZIP_MAGIC else [in_pieces(data, 1), [data], *packed]:
        assert error_of(pieces) == f"x: {kind}, not texts; {hint}"


def test_a_tar_archive_is_refused() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    assert error_of([file.getvalue()]) == "x: a tar archive, not texts; unpack it first"


@pytest.mark.parametrize("size", [1, 30, 1000])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100)
    message = "x:3: a line longer than 100 bytes; write one text per line"
    assert error_of(chain([b"one\ntwo\n"], repeat(b"x" * 30)), before=2) == message
    assert error_of(in_pieces(b"one\n" + b"x" * 100 + b"\n" + b"x" * 101 + b"\nmore", size), before=2) == message


DAMAGED = "x: the gzip data is cut short or damaged; copy or compress the file again"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_gzip_members_follow_each_other(size: int) -> None:
    data = gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree") + b"\0" * 20
    assert list(lines_of(in_pieces(data, size))) == [b"one\n", b"two\n", b"three\n"]


def test_what_unpacks_to_much_comes_in_small_pieces() -> None:
    data = gzip.compress(b"x" * 20_000_000 + b"\n")
    assert len(data) < CHUNK_BYTES
    sizes = list[int]()
    assert traced_peak(lambda: sizes.extend(len(piece) for piece in unpacked([data], "x"))) < 1_000_000
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) == 20_000_001


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
