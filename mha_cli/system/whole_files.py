"""Files that are whole or not there: written beside their place and moved into it."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import IO, Any

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError, printable, shown_path

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".mha-", ".tmp"
"""Name of an unfinished file or folder, with random characters between the two."""

LOCK = ".mha.lock"
"""Name of the file in a folder whose holder alone may write there; a killed one leaves it behind, to no effect."""

SHARED_LOCK = ".mha-batch.lock"
"""The same for several holders with one purpose, which is what the file holds."""

FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that no other folder or name helps against."""


class Stream(io.FileIO):
    """A device or a pipe without a buffer: when its writer is interrupted, nothing is left to be written at the end."""

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        left = memoryview(data).cast("B")
        number = len(left)
        while left:
            left = left[os.write(self.fileno(), left) :]
        return number


@contextmanager
def atomic_write(path: Path, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that takes its place only when everything is written and safe on disk.

    Until then an earlier file of the same name stays as it was: temporary file in the same folder, fsync, rename, fsync of the folder.
    The new one has the mode and the owner of the earlier one. A killed writer leaves its temporary file behind, until somebody locks the
    folder. A link is followed. A device or a pipe is written to, since it cannot be replaced.

    Args:
        path: file to write.
        follow: False for a name that no user has given: what is no file there, a link say, is replaced, since it may lead anywhere.

    Raises:
        BrokenPipeError: the reader of a pipe has left.
    """
    name = shown_path(path)
    try:
        earlier = os.stat(path, follow_symlinks=follow)
    except FileNotFoundError:
        earlier = None
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror}", "choose another name") from None
    if not follow and earlier is not None and not stat.S_ISREG(earlier.st_mode):
        earlier = None
    if earlier is None or stat.S_ISREG(earlier.st_mode):
        with _replacement(Path(os.path.realpath(path)) if follow and path.is_symlink() else path, name, earlier) as file:
            yield file
        return
    try:
        with Stream(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "w") as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        code = EXIT_FAILURE if error.errno in FAILURES else EXIT_USAGE
        raise MhaError(f"{name}: cannot be written: {error.strerror or printable(str(error))}", "choose another file", code) from None


@contextmanager
def atomic_place(path: Path) -> Iterator[Path]:
    """A path at which to write a file or a folder, which moves to its place only when everything is written and safe on disk.

    It lies in a temporary folder beside that place, which is removed however the block ends.
    """
    name = shown_path(path)
    try:
        temporary = TemporaryDirectory(TEMPORARY_SUFFIX, TEMPORARY_PREFIX, path.parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror}", "choose a folder that exists and can be written to") from None
    try:
        with temporary as folder:
            written = Path(folder) / path.name
            yield written
            for item in (written, *written.rglob("*")):
                _sync(item)
            if os.path.lexists(path):
                raise MhaError(f"{name}: has come to exist meanwhile", "choose another name, or remove it")
            os.rename(written, path)
            _sync(path.parent)
    except OSError as error:
        raise MhaError(f"{name}: cannot be written: {error.strerror or error}", "nothing was left there", EXIT_FAILURE) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes, and remove the unfinished files of a killed one from it. The lock dies with its holder."""
    path, name = folder / LOCK, shown_path(folder)
    with _lock_file(path) as descriptor:
        if not _is_ours(descriptor, path):
            raise MhaError(f"{name}: another training writes there", "wait for it, or choose another folder")
        _remove_leftovers(folder)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def shared(folder: Path, purpose: bytes) -> Iterator[None]:
    """Hold a folder together with processes of the same purpose, against those of another; the lock dies with its holders.

    The first of them and the last remove the unfinished files of killed processes.
    """
    path, name = folder / SHARED_LOCK, shown_path(folder)
    there = False
    while not there:
        with _lock_file(path) as descriptor:
            if _is_ours(descriptor, path):
                try:
                    os.truncate(descriptor, 0)
                    os.pwrite(descriptor, purpose, 0)
                    _remove_leftovers(folder)
                except OSError as error:
                    raise MhaError(f"{name}: cannot be written to: {error.strerror}", "make room", EXIT_FAILURE) from None
            with suppress(OSError):  # files cannot be locked
                fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for an instant: nobody holds it alone for longer
            if there := _is_there(descriptor, path):
                if os.pread(descriptor, len(purpose) + 1, 0) != purpose:
                    message = f"{name}: another batch writes there, of another model, format or column"
                    raise MhaError(message, "wait for it, or choose another folder")
                try:
                    yield
                finally:
                    if _is_ours(descriptor, path):
                        _remove_leftovers(folder)
                        path.unlink(missing_ok=True)


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    """The descriptor of a lock's file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MhaError(f"{shown_path(path.parent)}: cannot be written to: {error.strerror}", "choose another folder") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _replacement(path: Path, name: str, earlier: os.stat_result | None) -> Iterator[IO[bytes]]:
    temporary, in_place = None, False
    try:
        descriptor, temporary = mkstemp(TEMPORARY_SUFFIX, TEMPORARY_PREFIX, path.parent)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if earlier is not None:
                with suppress(OSError):  # only root may give a file away
                    os.chown(temporary, earlier.st_uid, earlier.st_gid)
            os.chmod(temporary, 0o666 & ~_umask() if earlier is None else earlier.st_mode & 0o777)
            os.replace(temporary, path)
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
        if temporary is not None and not in_place:
            with suppress(OSError):
                os.unlink(temporary)


def is_temporary(name: str) -> bool:
    """Whether a file or folder of this name is an unfinished one of ours."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of killed processes from a folder that is held, and from the folders in it."""
    name = f"{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}"
    for leftover in [*folder.glob(name), *folder.glob(f"*/{name}")]:
        with suppress(OSError):
            leftover.unlink()


def _is_ours(descriptor: int, path: Path) -> bool:
    """Lock an open file; whether it is now ours, and still there. Where files cannot be locked, it is taken to be."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return _is_there(descriptor, path)


def _is_there(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


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
