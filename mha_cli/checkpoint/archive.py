"""A zip archive that may come from anywhere, read member by member; every limit holds before memory is taken.

Nothing is ever unpacked to disk, and nothing is decompressed: the members have to be stored as they are.
"""

import hashlib
import io
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mha_cli.errors import MhaError, reason_of, shown_path
from mha_cli.runs import CHECKPOINT, RUNS
from mha_cli.system.input_files import open_regular

WAY_OUT = "give a checkpoint that `mha train` wrote"
MAX_FILE_BYTES = 8_000_000_000
MAX_READ_BYTES = 1 << 17  # bytes that a read may ask for, so that an archive's directory, which zipfile reads whole, is small
HEADER_BYTES, END_BYTES = 30, 22  # a member's header without its name, and the record that closes an archive without its comment


def require(holds: bool, name: str, problem: str) -> None:
    """Refuse a file for a problem, unless a condition holds."""
    if not holds:
        raise MhaError(f"{name}: {problem}", WAY_OUT)


class Archive:
    """An open archive; ``name`` is the path of its file, safe to print."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._entries = {entry.orig_filename: entry for entry in archive.infolist()}  # zipfile changes ``filename``
        self.name = name

    def __contains__(self, member: str) -> bool:
        """Whether it has a member of this name."""
        return member in self._entries

    def read(self, member: str, limit: int) -> tuple[memoryview, str]:
        """A member of at most ``limit`` bytes, in memory that may be written to, and its SHA-256 in hexadecimal."""
        entry = self._entries[member]
        require(entry.file_size <= limit, self.name, f"{member} has {entry.file_size:,} bytes; at most {limit:,} belong there")
        data, end = np.empty(entry.file_size, np.uint8).data, 0  # NumPy gets large pages, which are there sooner than many small ones
        with self._archive.open(entry) as stream:
            while chunk := stream.read(MAX_READ_BYTES // 2):
                data[end : end + len(chunk)] = chunk
                end += len(chunk)
        return data, hashlib.sha256(data).hexdigest()


@contextmanager
def open_archive(path: Path, *member_sets: Sequence[str]) -> Iterator[Archive]:
    """An archive that holds exactly one of these sets of members, uncompressed.

    A fault of the bytes that shows only inside the ``with`` block also raises MhaError.
    """
    name = shown_path(path)
    with open_checkpoint(path) as file:
        try:
            _refuse_other_kinds(file.read(4), name)
            with zipfile.ZipFile(_InSmallPieces(file.fileno(), closefd=False)) as archive:
                _refuse_other_members(archive, member_sets, name, file.fileno())
                yield Archive(archive, name)
        except (zipfile.BadZipFile, struct.error, EOFError, OSError, ArithmeticError, LookupError, RuntimeError, ValueError) as error:
            # zipfile, and the reader inside the block, raise these for bytes that are not what they say.
            raise MhaError(f"{name}: damaged, or no checkpoint ({reason_of(error)})", WAY_OUT) from None


def open_checkpoint(path: Path) -> io.BufferedReader:
    """A regular file that is neither empty nor too large; opening it waits for nothing, whatever it is."""
    name = shown_path(path)
    if os.path.isdir(path):
        raise MhaError(f"{name}: is a folder without {CHECKPOINT}", WAY_OUT)
    run = RUNS / path
    file = open_regular(path, f"did you mean {shown_path(run)}?" if os.path.isfile(run / CHECKPOINT) else WAY_OUT)
    size = os.fstat(file.fileno()).st_size
    if not 0 < size <= MAX_FILE_BYTES:
        file.close()
        raise MhaError(f"{name}: is {f'larger than {MAX_FILE_BYTES:,} bytes' if size else 'empty'}", WAY_OUT)
    return file


def _refuse_other_kinds(first_bytes: bytes, name: str) -> None:
    from mha_cli.records.readers import EXTENSIONS, extension_of

    extension = "" if first_bytes.startswith(b"PK") else extension_of(name)
    if extension in {*EXTENSIONS, ".txt"}:
        raise MhaError(f"{name}: is data, not a checkpoint", f"give it with --data {name}, or to `mha predict` with --input {name}")
    if extension in {".yaml", ".yml"}:
        raise MhaError(f"{name}: is a config, not a checkpoint", f"`mha train --config {name}` makes a checkpoint")


class _InSmallPieces(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > MAX_READ_BYTES:
            raise zipfile.BadZipFile("its directory is too large")
        return super().read(size) or b""


def _refuse_other_members(archive: zipfile.ZipFile, member_sets: Sequence[Sequence[str]], name: str, descriptor: int) -> None:
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    names = [entry.orig_filename for entry in entries]
    missing = next((member for member in member_sets[0] if member not in names), "")
    has_all = any(set(members) <= set(names) for members in member_sets)
    problem = "has members that do not belong there" if has_all else f"has no {missing}"
    require(sorted(names) in map(sorted, member_sets), name, f"not a checkpoint of mha: {problem}")
    are_plain = all(entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size for entry in entries)
    require(are_plain, name, "holds compressed members")
    are_files = all(stat.S_IFMT(entry.external_attr >> 16) in {0, stat.S_IFREG} for entry in entries)
    require(are_files, name, "holds members that are no regular files")
    # Else another archive could lie between the members, in front of them or in a comment, and other programs would read that one.
    starts = [entry.header_offset for entry in entries]
    headers = [os.pread(descriptor, HEADER_BYTES, start) for start in starts]
    sizes = [HEADER_BYTES + sum(struct.unpack("<26xHH", header)) for header in headers]  # only the header itself says how long it is
    ends = [start + size + entry.compress_size for start, size, entry in zip(starts, sizes, entries, strict=True)]
    last = os.fstat(descriptor).st_size - END_BYTES
    is_whole = [*starts, archive.start_dir] == [0, *ends] and os.pread(descriptor, 4, last) == b"PK\5\6"
    require(is_whole, name, "is cut off, or holds more than its members one after another")
