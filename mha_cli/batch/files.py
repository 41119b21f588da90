"""The files of a batch: on this machine, or in an object store, through pyarrow."""

import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError, printable, reason_of, shown_path
from mha_cli.sources.raw_files import matching_paths
from mha_cli.system.whole_files import atomic_replace, locked

OBJECT_STORES = {"s3", "gcs", "abfs"}  # pyarrow's file systems in which a file appears only when it is complete
REQUEST_BYTES = 1 << 23  # bytes per request: each request to an object store takes time and costs money
_SECRETS = re.compile(r"(?<=://)[^/@]*@|\?.*")  # parts of a URI that are never shown: passwords and settings
_WILD = re.compile(r"(\*\*/|\*\*|\*|\[[^]]+\])")
_EXPRESSIONS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


class Status(NamedTuple):
    """Size in bytes and time of the last change, in nanoseconds since 1970: they tell whether a file is still the same."""

    size: int
    modified_ns: int


class Found(NamedTuple):
    """A file of the input: its path, its size in bytes, and the path below the folder that was named, if one was."""

    path: str
    size: int
    below: str | None = None


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
                if not os.path.exists(path):
                    raise MhaError(f"{shown_path(given)}: no such file or folder", "check the path")
                yield Found(path, os.path.getsize(path))
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
            return _status_of(os.stat(path))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> IO[bytes]:
        """A file to read; opening it waits for nothing, whatever it is."""
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
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


class RemoteFiles:
    """Files behind one of pyarrow's file systems, such as an object store."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def name(self, path: str) -> str:
        """The name of a file in results and messages: the URI, without settings and secrets."""
        return f"{self._system.type_name}://{path}"

    def matching(self, pattern: str) -> Iterator[Found]:
        """The files below a folder, or those that match a pattern with ``*``, ``[…]`` or ``**``, or the file of that name."""
        from pyarrow.fs import FileSelector, FileType

        pattern = pattern.rstrip("/")
        wild = _WILD.search(pattern)
        folder = pattern[: pattern.rindex("/", 0, wild.start())] if wild else pattern
        with _shown_faults(self.name(pattern)):
            if not wild and (info := self._system.get_file_info(pattern)).type == FileType.File:
                yield Found(pattern, info.size)
                return
            below = self._system.get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        expression = _pattern(pattern if wild else f"{pattern}/**")
        files = [info for info in below if info.type == FileType.File and expression.fullmatch(info.path)]
        if not files:
            raise MhaError(f"{shown_path(self.name(pattern))}: no such file or folder", "check the name")
        for info in files:
            yield Found(info.path, info.size, None if wild else info.path.removeprefix(f"{folder}/"))

    def make_folder(self, path: str) -> None:
        """Make a folder, where there are such."""
        if self._system.type_name not in OBJECT_STORES:
            self._system.create_dir(path, recursive=True)

    def status(self, path: str) -> Status | None:
        """Size and time of a file; None where there is none."""
        from pyarrow.fs import FileType

        info = self._system.get_file_info(path)
        return Status(info.size, info.mtime_ns or 0) if info.type == FileType.File else None

    def open(self, path: str) -> IO[bytes]:
        """A file to read."""
        return io.BufferedReader(self._system.open_input_file(path), REQUEST_BYTES)

    @contextmanager
    def written(self, path: str) -> Iterator[IO[bytes]]:
        """A file that is written here first, then sent by one call.

        A stream that is interrupted between two calls would be closed with its last reference, which makes a short file.
        """
        with TemporaryFile() as file:
            yield file
            file.flush()
            target = path if self._system.type_name in OBJECT_STORES else f"{path}.{os.urandom(8).hex()}.tmp"
            with _shown_faults(self.name(path)):
                stream = self._system.open_output_stream(target, compression=None)
                if file.seek(0, os.SEEK_END):
                    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                        stream.write(content)
                stream.close()
                if target != path:
                    self._system.move(target, path)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self._system.delete_file(path)


Files: TypeAlias = LocalFiles | RemoteFiles


class Folder:
    """The folder that a batch writes its parts to, by its path or URI."""

    def __init__(self, given: str) -> None:
        self.files, path = files_of(given)
        self.name = self.files.name(path)
        self._path = (self.name if isinstance(self.files, LocalFiles) else path).rstrip("/")

    def make(self) -> None:
        """Make it, if it is not there."""
        with _shown_faults(f"--output {self.name}", "name a folder that is there, or that can be made", EXIT_USAGE):
            self.files.make_folder(self._path)

    def held(self, purpose: str) -> AbstractContextManager[None]:
        """Keep out batches of another purpose, where files can be locked; in object stores they cannot."""
        return locked(Path(self._path), purpose.encode()) if isinstance(self.files, LocalFiles) else nullcontext()

    def __truediv__(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self._path}/{name}"


def files_of(given: str) -> tuple[Files, str]:
    """The file system of a path or URI, and the path or pattern in it."""
    scheme, marked, rest = given.partition("://")
    if not marked:
        return LocalFiles(), given
    if scheme == "file":
        return LocalFiles(), unquote(rest)
    from pyarrow.fs import FileSystem

    shown = printable(_SECRETS.sub("", given), 200)
    address, mark, settings = given.partition("?")
    wild = _WILD.search(address)
    end = address.rindex("/", 0, wild.start()) if wild else len(address)
    with _shown_faults(shown, "give a path, or a URI such as s3://bucket/folder", EXIT_USAGE):
        system, path = FileSystem.from_uri(address[:end] + mark + settings)
    return RemoteFiles(system), path + unquote(address[end:])


@contextmanager
def _shown_faults(name: str, hint: str = "check name, region, credentials and network", code: int = EXIT_FAILURE) -> Iterator[None]:
    try:
        yield
    # pyarrow's own are of the first three; for some kinds it asks other packages.
    except (OSError, ValueError, NotImplementedError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise MhaError(f"{printable(name, 200)}: {printable(_SECRETS.sub('', reason), 300)}", hint, code) from None


def _status_of(result: os.stat_result) -> Status:
    if not stat.S_ISREG(result.st_mode):
        raise ValueError("is a folder" if stat.S_ISDIR(result.st_mode) else "is no file")
    return Status(result.st_size, result.st_mtime_ns)


def _refuse_unreadable(error: OSError) -> None:
    raise MhaError(f"{shown_path(error.filename)}: cannot be read: {reason_of(error)}", "make it readable, or name the others") from None


def _pattern(pattern: str) -> re.Pattern[str]:
    """A pattern as an expression: ``*`` and ``[…]`` stay within a name, ``**`` does not."""
    parts = [
        _EXPRESSIONS.get(part) or part.replace("[!", "[^") if number % 2 else re.escape(part)
        for number, part in enumerate(_WILD.split(pattern))
    ]
    return re.compile("".join(parts))
