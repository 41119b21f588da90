"""Files and folders as they lie on disk: which of them a path names, their bytes, and the format of their texts."""

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.encodings import BOM, refuse_binary, utf_8
from mha_cli.records.lines import CHUNK_BYTES, unpacked
from mha_cli.records.queries import SQLITE, query_lines
from mha_cli.records.reader import USUAL, Dialect, Reading, StreamWarnings
from mha_cli.records.readers import EXTENSIONS, Format, extension_of
from mha_cli.records.record import LABEL_PREFIX, Columns
from mha_cli.records.spreadsheets import file_and_sheet
from mha_cli.system.input_files import open_regular
from mha_cli.system.remote_files import matching_uris, uri_pieces

_KINDS = "give a .csv, .tsv, .txt, .jsonl, .json, .ft, .parquet, .xlsx or .ods file, or with .gz, or a folder with one sub-folder per class"
_PATTERN = re.compile(r"[*?]|\[.+\]")


def matching_paths(given: str) -> list[str]:
    """Files and folders that match a pattern with ``*``, ``?``, ``[…]`` or ``**``, in natural order; a path without them is itself."""
    if given.startswith(SQLITE):
        return [given]
    given = without_file_scheme(given)
    pattern, sheet = file_and_sheet(os.path.expanduser(given))
    behind = f"#{sheet}" if sheet else ""
    if "://" in pattern:
        return [uri + behind for uri in sorted(matching_uris(pattern), key=natural_order)]
    if not _PATTERN.search(pattern) or os.path.lexists(pattern):
        return [pattern + behind]
    if not (paths := glob.glob(pattern, recursive=True)):
        raise MhaError(f"{shown_path(given)}: no file matches", "check the pattern; relative paths start at the current folder")
    return [path + behind for path in sorted(paths, key=natural_order)]


def without_file_scheme(given: str) -> str:
    """The path or pattern that a URI of this machine means; all else as it is."""
    return unquote(given.removeprefix("file://")) if given.startswith("file://") else given


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key under which runs of digits compare as numbers; by length first, since ``int`` refuses thousands of digits."""
    parts = re.split("([0-9]+)", name)
    key = [(len(digits := part.lstrip("0")), digits) if at % 2 else (0, part) for at, part in enumerate(parts)]
    return key, name


def local_path(path: str) -> str | None:
    """The file or folder of this machine that a path names; None for a URI or a query."""
    return None if "://" in path or path.startswith(SQLITE) else os.path.expanduser(file_and_sheet(path)[0])


def is_folder(path: str) -> bool:
    """Whether a path is a folder rather than a file. Pipes and devices are refused: reading them could block or never end."""
    shown = shown_path(path)
    if (local := local_path(path)) is None:
        return False
    try:
        mode = os.stat(local).st_mode
    except FileNotFoundError:
        raise MhaError(f"{shown}: no such file or folder", "check the path; relative paths start at the current folder") from None
    except (OSError, ValueError) as error:
        raise MhaError(f"{shown}: {getattr(error, 'strerror', 'not a file name')}", "give the path of data that can be read") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise MhaError(f"{shown}: {kind}, neither a file nor a folder", "save the texts in a file first; they are read more than once")
    return stat.S_ISDIR(mode)


def file_pieces(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces, or the rows of a query as JSON lines."""
    if (local := local_path(path)) is None:
        yield from query_lines(path) if path.startswith(SQLITE) else uri_pieces(file_and_sheet(path)[0])
        return
    with open_regular(Path(local), "give the path of data that can be read") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def unpacked_file(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces, unpacked if they are gzip data."""
    return unpacked(file_pieces(path), shown_path(path), path.lower().endswith(".gz"))


def byte_order_mark_of(inputs: Iterable[str]) -> bytes:
    """The byte-order mark of CSV that is made of these inputs: that of UTF-8 if a file has it or is a workbook, else none."""
    files = [path for given in inputs for path in matching_paths(given) if os.path.isfile(local_path(path) or "")]
    has_mark = any(extension_of(path) in (".xlsx", ".ods") or next(unpacked_file(path), b"").startswith(BOM) for path in files)
    return BOM if has_mark else b""


def file_reading(path: str, columns: Columns, dialect: Dialect, warnings: StreamWarnings | None = None) -> Reading:
    """How a file of labelled texts is read: bytes that are not UTF-8 are refused."""
    gzipped, sheet = path.lower().endswith(".gz"), file_and_sheet(path)[1]
    return Reading(shown_path(path), columns, dialect, warnings or StreamWarnings(), sheet, gzipped, strict=True)


def labelled_format(path: str, dialect: Dialect = USUAL) -> Format:
    """The format of a file of labelled texts, by its extension; ``.txt`` is fastText if it begins with ``__label__``, else a table."""
    extension = extension_of(path)
    if extension == ".txt":
        pieces = (piece.lstrip() for piece in utf_8(unpacked_file(path), shown_path(path), dialect.encoding))
        return "fasttext" if next(filter(None, pieces), b"").startswith(LABEL_PREFIX.encode()) else "csv"
    if extension not in EXTENSIONS:
        refuse_binary(next(unpacked_file(path), b""), shown_path(path))
        fault = f"unknown extension {printable(extension)}" if extension else "no extension that tells its format"
        raise MhaError(f"{shown_path(path)}: {fault}", _KINDS)
    return EXTENSIONS[extension]
