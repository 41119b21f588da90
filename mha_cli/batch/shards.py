"""Inputs to shards: every file is one, and becomes one part, whose name follows from the file's alone."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mha_cli.batch.files import Files, Folder, LocalFiles, files_of
from mha_cli.errors import MhaError, printable
from mha_cli.records.readers import EXTENSIONS, Format, extension_of, format_of

TEXT_EXTENSIONS = {*EXTENSIONS, ".txt"}  # extensions of the files that are taken from a folder
_HIDDEN = re.compile(r"(?:^|/)[._]")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_STEM_CHARACTERS = 60


@dataclass(frozen=True)
class Shard:
    """One file of texts: its path in its file system, its size in bytes, and whether nobody named its format."""

    files: Files
    path: str
    record_format: Format
    size: int
    guessed: bool = False

    @property
    def key(self) -> str:
        """The absolute path or URI; bytes that are not UTF-8 are lone surrogates in it."""
        return self.files.name(self.path)

    @property
    def name(self) -> str:
        """The same, fit to be written."""
        return os.fsencode(self.key).decode("utf-8", "replace")

    @property
    def stem(self) -> str:
        """The name of its part without the extension: that of the file, and a hash of its whole name."""
        digest = hashlib.sha256(os.fsencode(self.key)).hexdigest()[:16]
        stem = _ODD.sub("-", os.path.basename(self.path).partition(".")[0])[:_STEM_CHARACTERS].strip("-._")
        return f"{stem or 'part'}-{digest}"


def find_shards(inputs: Sequence[str], record_format: Format | None, output: Folder) -> list[Shard]:
    """The shards of files, folders, and patterns of them, local or by URI, each once, in the order of their names.

    A folder gives the files below it that have an extension of texts, or with a format all files. It gives none whose name begins with a
    dot or an underscore, and none of the output folder.
    """
    shards: dict[str, Shard] = {}
    for given in inputs:
        files, pattern = files_of(given)
        empty = True
        for path, size, below in files.matching(pattern):
            shard = Shard(files, path, record_format or format_of(path), size, guessed=record_format is None)
            is_wanted = below is None or (not _HIDDEN.search(below) and (record_format or extension_of(below) in TEXT_EXTENSIONS))
            if is_wanted and not shard.key.startswith(f"{output.name.rstrip('/')}/"):
                shards[shard.key] = shard
                empty = False
        if empty:
            shown = printable(given if isinstance(files, LocalFiles) else files.name(pattern), 200)
            raise MhaError(f"{shown}: no file of texts in it", f"its files need one of {', '.join(sorted(TEXT_EXTENSIONS))}, or --format")
    return [shards[key] for key in sorted(shards)]


def every_nth(shards: Sequence[Shard], share: str) -> Sequence[Shard]:
    """The shards of one process among n; ``share`` is ``i/n``, with i from 1 to n."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", share, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise MhaError(f"--shard {printable(share)}: is not i/n with i from 1 to n", "write 3/8 for the third of eight")
    return shards[int(match[1]) - 1 :: int(match[2])]
