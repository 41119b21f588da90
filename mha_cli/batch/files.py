"""The files of a batch: on this machine, or in an object store, through pyarrow."""

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import IO, TypeAlias

from mha_cli.errors import EXIT_USAGE, MhaError, reason_of, shown_path
from mha_cli.records.queries import SQLITE
from mha_cli.records.spreadsheets import file_and_sheet
from mha_cli.sources.raw_files import matching_paths, without_file_scheme
from mha_cli.system.remote_files import Found, RemoteFiles, Status, remote_files, shown_faults
from mha_cli.system.whole_files import atomic_replace, locked


class LocalFiles:
    """Files that this machine has, or shares with others. The faults of a file system are OSError, or ValueError for an impossible name."""

    def name(self, path: str) -> str:
        """The name of a file in results and messages: its absolute path."""
        return os.path.abspath(os.path.expanduser(path))

    def matching(self, pattern: str) -> Iterator[Found]:
        """The files that a path or pattern names, and those in a folder and all below it; links to folders are not followed there."""
        for given in matching_paths(pattern):
            path = self.name(given)
            if not os.path.isdir(path):
                if not os.path.exists(file := file_and_sheet(path)[0]):
                    raise MhaError(f"{shown_path(given)}: no such file or folder", "check the path")
                yield Found(path, os.path.getsize(file))
                continue
            for folder, _, names in os.walk(path, onerror=_refuse_unreadable):
                for name in names:
                    file = os.path.join(folder, name)
                    with suppress(FileNotFoundError):  # gone since it was listed, as an unfinished part is
                        yield Found(file, os.lstat(file).st_size, os.path.relpath(file, path))

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, if they are not there."""
        os.makedirs(path, exist_ok=True)

    def status(self, path: str) -> Status | None:
        """Size and time of a file; None where there is none. A pipe or a device is refused: it could not be read again after a kill."""
        try:
            return _status_of(os.stat(file_and_sheet(path)[0]))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> IO[bytes]:
        """A file to read; opening it waits for nothing, whatever it is."""
        file = open(file_and_sheet(path)[0], "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
        try:
            _status_of(os.fstat(file.fileno()))
        except ValueError:
            file.close()
            raise
        return file

    def written(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """A file that is there only when all of it is written. A link in its place, which may lead anywhere, is replaced."""
        return atomic_replace(Path(path))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(path)


Files: TypeAlias = LocalFiles | RemoteFiles


class Folder:
    """The folder that a batch writes its parts to, by its path or URI."""

    def __init__(self, given: str) -> None:
        self.files, path = files_of(given)
        self.name = self.files.name(path)
        self._path = (self.name if isinstance(self.files, LocalFiles) else path).rstrip("/")

    def make(self) -> None:
        """Make it, if it is not there."""
        with shown_faults(f"--output {self.name}", "name a folder that is there, or that can be made", EXIT_USAGE):
            self.files.make_folder(self._path)

    def held(self, purpose: str) -> AbstractContextManager[None]:
        """Keep out batches of another purpose, where files can be locked; in object stores they cannot."""
        return locked(Path(self._path), purpose.encode()) if isinstance(self.files, LocalFiles) else nullcontext()

    def __truediv__(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self._path}/{name}"


def files_of(given: str) -> tuple[Files, str]:
    """The file system of a path or URI, and the path or pattern in it."""
    if given.startswith(SQLITE):
        raise MhaError(f"{shown_path(given)}: a query, and mha batch reads files", "answer it with mha predict --input")
    given = without_file_scheme(given)
    return remote_files(given) if "://" in given else (LocalFiles(), given)


def _status_of(result: os.stat_result) -> Status:
    if not stat.S_ISREG(result.st_mode):
        raise ValueError("is a folder" if stat.S_ISDIR(result.st_mode) else "is no file")
    return Status(result.st_size, result.st_mtime_ns)


def _refuse_unreadable(error: OSError) -> None:
    raise MhaError(f"{shown_path(error.filename)}: cannot be read: {reason_of(error)}", "make it readable, or name the others") from None
