"""Files that are whole or not there: written beside their place and moved into it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = (".mha-", ".tmp")
"""How the name of a file begins and ends that is not yet in its place."""

LOCK = ".lock"
"""Name of the file in a folder whose holder alone may write there; a killed one leaves it behind, to no effect."""

FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""What no other place or name helps against."""


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its place only when everything is written and safe on disk.

    Until then an earlier file of the same name stays as it was: temporary file in the same folder, fsync, rename, fsync of the folder.
    A writer that is killed leaves its temporary file behind; the next one in that folder removes it.

    Raises:
        MhaError: the folder is missing or not writable, or the disk is full.
    """
    name = printable(str(path), 200)
    temporary, in_place = "", False
    try:
        _remove_leftovers(path.parent)
        descriptor, temporary = _temporary_file(path.parent)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)  # with the file still open, and so locked: no one takes it for a leftover
            in_place = True
        _sync(path.parent)
    except OSError as error:
        reason = error.strerror or printable(str(error))
        if in_place:
            raise MhaError(f"{name}: written, but the disk does not confirm it: {reason}", "check the disk", EXIT_FAILURE) from None
        if error.errno in FAILURES:
            raise MhaError(f"{name}: cannot be written: {reason}", "the earlier file, if any, is unchanged", EXIT_FAILURE) from None
        raise MhaError(f"{name}: cannot be written: {reason}", "choose a folder that exists and can be written to", EXIT_USAGE) from None
    finally:
        if temporary and not in_place:
            with suppress(OSError):
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
        MhaError: another process holds it, or it cannot be written to.
    """
    path, name = folder / LOCK, printable(str(folder), 200)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written to: {error.strerror}", "choose another folder") from None
    try:
        if not _is_ours(descriptor):
            raise MhaError(f"{name}: another training writes there", "wait for it, or choose another folder")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _temporary_file(folder: Path) -> tuple[int, str]:
    """A new file and its path, locked: a lock tells the files that are being written from those that were left behind."""
    while True:
        descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY[0], suffix=TEMPORARY[1], dir=folder)
        try:
            if _is_ours(descriptor):
                return descriptor, temporary
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another process saw it before it was locked, and removes it


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files whose writers are dead."""
    with suppress(OSError):
        for leftover in folder.glob("*".join(TEMPORARY)):
            with suppress(OSError):
                descriptor = os.open(leftover, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(leftover)
                finally:
                    os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    """Lock an open file; whether it is now ours, and still there. Where files cannot be locked, it is taken to be."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(descriptor).st_nlink > 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, safe on disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EINVAL, errno.ENOTSUP}:  # not to be opened, or nothing in it to sync
            raise
