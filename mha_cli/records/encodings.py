"""The bytes of a stream as UTF-8: binary files are refused, other encodings are converted."""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain

from mha_cli.errors import MhaError
from mha_cli.records.lines import GZIP_MAGIC, beginning_of

BOM = codecs.BOM_UTF8
MARKS = {
    BOM: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte-order marks; UTF-32's begin as UTF-16's, so they come first. A mark decides, whatever encoding was asked for."""
_UNPACK = "unpack it first, with {0} or in a pipe, as {0} -c FILE | mha predict"
_EXPORT = "save the texts as CSV in UTF-8"
_UNZIP = "name a workbook .xlsx or .ods, or unpack the archive"
BINARIES: dict[bytes, tuple[str, str]] = {
    **dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"), ("a zip file, as are .xlsx, .docx and .keras", _UNZIP)),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an old Excel or Word file", "save it as .xlsx, or the texts as CSV in UTF-8"),
    GZIP_MAGIC: ("packed with gzip twice", _UNPACK.format("gunzip")),
    **{b"BZh%d1AY&SY" % level: ("packed with bzip2", _UNPACK.format("bunzip2")) for level in range(1, 10)},
    b"\xfd7zXZ\0": ("packed with xz", _UNPACK.format("unxz")),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", _UNPACK.format("unzstd")),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it first"),
    b"Rar!\x1a\x07": ("a RAR archive", "unpack it first"),
    b"PAR1\x15": ("Parquet", "add --format parquet, or name it .parquet"),
    **dict.fromkeys((b"ARROW1\0\0", b"\xff\xff\xff\xff"), ("an Arrow or Feather file", "write it as Parquet or CSV")),
    b"\x89HDF\r\n\x1a\n": ("an HDF5 file", _EXPORT),
    b"SQLite format 3\0": ("an SQLite database", _EXPORT),
    b"\x93NUMPY": ("a NumPy array", _EXPORT),
    b"%PDF-": ("a PDF", _EXPORT),
    b"\x89PNG\r\n\x1a\n": ("a PNG picture", _EXPORT),
    b"\xff\xd8\xff": ("a JPEG picture", _EXPORT),
    **dict.fromkeys((b"GIF87a", b"GIF89a"), ("a GIF picture", _EXPORT)),
}
"""First bytes of files that are no text: kind, and the next thing to do."""
_BEGINNINGS = (*MARKS, *BINARIES)
_PROBED_BYTES, _LEAST_PROBED = 256, 32
MOST_CONTROLS = 0.15  # share of control characters in a text's first bytes; colours of a terminal have fewer
_NO_CONTROLS = bytes([*b"\t\n\v\f\r\x1b", *range(32, 256)])


def utf_8(pieces: Iterable[bytes], name: str, encoding: str | None = None) -> Iterator[bytes]:
    """The bytes of a text stream in UTF-8, without a byte-order mark. Bytes that should be UTF-8 come as they are, right or wrong."""
    pieces = iter(pieces)
    first = beginning_of(pieces, lambda beginning: any(known.startswith(beginning) for known in _BEGINNINGS))
    mark = next((mark for mark in MARKS if first.startswith(mark)), b"")
    first, encoding = first.removeprefix(mark), MARKS[mark] if mark else encoding
    if not mark:
        refuse_binary(first, name, encoding)
    if encoding is None or mark == BOM:
        yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    num_lines = 1
    for piece in chain([first], pieces, [b""]):
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeError as error:
            fault, before = "", ""
            if isinstance(error, UnicodeDecodeError):
                fault, before = f": byte 0x{error.object[error.start]:02X}", error.object[: error.start].decode(encoding, "ignore")
            yield before.encode("utf-8", "replace")
            line = num_lines + before.count("\n")
            raise MhaError(f"{name}:{line}: not {encoding}{fault}", "name another encoding, or save it as UTF-8") from None
        num_lines += text.count("\n")
        yield text.encode("utf-8", "replace")


def refuse_binary(beginning: bytes, name: str, encoding: str | None = None) -> None:
    """Raise an MhaError if a stream begins as a file that holds no text: by its first bytes, or by many control characters."""
    probed = beginning[:_PROBED_BYTES]
    controls = len(probed.translate(None, _NO_CONTROLS))
    kind = next((known for magic, known in BINARIES.items() if beginning.startswith(magic)), None)
    if beginning[257:].startswith(b"ustar"):
        kind = kind or ("a tar archive", "unpack it first")
    elif encoding is None and len(probed) >= _LEAST_PROBED and controls > MOST_CONTROLS * len(probed):
        kind = kind or ("binary data", f"{_EXPORT}, or name their encoding")
    if kind:
        raise MhaError(f"{name}: {kind[0]}, not texts", kind[1])
