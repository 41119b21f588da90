"""Files behind pyarrow's file systems, such as an object store."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple
from urllib.parse import quote, unquote

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError, printable, shown_path, without_secrets

OBJECT_STORES = {"s3", "gcs", "abfs"}  # pyarrow's file systems in which a file appears only when it is complete
REQUEST_BYTES = 1 << 23  # bytes per request: each request to an object store takes time and costs money
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
        with shown_faults(self.name(pattern)):
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
            with shown_faults(self.name(path)):
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


def remote_files(given: str) -> tuple[RemoteFiles, str]:
    """The file system of a URI, and the path or pattern in it."""
    from pyarrow.fs import FileSystem

    shown = shown_path(given)
    address, mark, settings = given.partition("?")
    wild = _WILD.search(address)
    end = address.rindex("/", 0, wild.start()) if wild else len(address)
    with shown_faults(shown, "give a path, or a URI such as s3://bucket/folder", EXIT_USAGE):
        system, path = FileSystem.from_uri(address[:end] + mark + settings)
    return RemoteFiles(system), path + unquote(address[end:])


def matching_uris(given: str) -> list[str]:
    """The URIs of the files that match a pattern, in any order; a URI without ``*`` and the like is itself."""
    address, mark, settings = given.partition("?")
    if not (wild := _WILD.search(address)):
        return [given]
    folder = address[: address.rindex("/", 0, wild.start())]
    files, pattern = remote_files(given)
    top = pattern.removesuffix(unquote(address.removeprefix(folder)))
    return [folder + quote(found.path.removeprefix(top)) + mark + settings for found in files.matching(pattern)]


def uri_pieces(given: str) -> Iterator[bytes]:
    """The bytes of a URI's file in pieces."""
    files, path = remote_files(given)
    with shown_faults(files.name(path), code=EXIT_USAGE), files.open(path) as file:
        while piece := file.read(REQUEST_BYTES):
            yield piece


@contextmanager
def shown_faults(name: str, hint: str = "check name, region, credentials and network", code: int = EXIT_FAILURE) -> Iterator[None]:
    """Raise the errors of a file system as one line."""
    try:
        yield
    # pyarrow's own are of the first three; for some kinds it asks other packages.
    except (OSError, ValueError, NotImplementedError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise MhaError(f"{printable(name, 200)}: {printable(without_secrets(reason), 300)}", hint, code) from None


def _pattern(pattern: str) -> re.Pattern[str]:
    """A pattern as an expression: ``*`` and ``[…]`` stay within a name, ``**`` does not."""
    parts = [
        _EXPRESSIONS.get(part) or part.replace("[!", "[^") if number % 2 else re.escape(part)
        for number, part in enumerate(_WILD.split(pattern))
    ]
    return re.compile("".join(parts))
