"""Files that are whole or not there: written beside their place and moved into it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mha_cli.errors import EXIT_FAILURE, MhaError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its place only when everything is written and safe on disk.

    Until then an earlier file of the same name stays as it was: temporary file in the same folder, fsync, rename, fsync of the folder.

    Raises:
        MhaError: the folder is missing or not writable, or the disk is full.
    """
    name = printable(str(path), 200)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror}", "choose a folder that exists and can be written to") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror}", "the earlier file, if any, is unchanged", EXIT_FAILURE) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


@contextmanager
def atomic_place(path: Path) -> Iterator[Path]:
    """A path at which to write a file or a folder, which moves to its place only when everything is written and safe on disk.

    It lies in a temporary folder beside that place, which is removed however the block ends.

    Raises:
        MhaError: something is there already, the folder is missing or not writable, or the disk is full.
    """
    name = printable(str(path), 200)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror}", "choose a folder that exists and can be written to") from None
    try:
        place = temporary / path.name
        yield place
        for item in (place, *place.rglob("*")):
            _sync(item)
        if os.path.lexists(path):
            raise MhaError(f"{name}: has come to exist meanwhile", "choose another name, or remove it")
        os.rename(place, path)
        _sync(path.parent)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror or error}", "nothing was left there", EXIT_FAILURE) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; the lock dies with its holder, however that ends.

    Raises:
        MhaError: another process holds it.
    """
    path = folder / ".lock"
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MhaError(
                f"{printable(str(folder), 200)}: another training writes there", "wait for it, or choose another folder"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
