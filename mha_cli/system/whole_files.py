"""Files that are whole or not there, locks of folders, and faults of temporary files."""

import errno
import fcntl
import io
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError, printable, reason_of, shown_path

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".mha-", ".tmp"  # name of an unfinished file or folder, with random characters between the two
LOCK, SHARED_LOCK = ".mha.lock", ".mha-batch.lock"  # whose holder, or holders with one purpose, may write into the folder
FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # another folder does not help


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
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its place only when everything is written and safe on disk; see ``atomic_replace``.

    The new file has the mode and the owner of an earlier one. A link is followed, and a device or a pipe, which cannot be replaced, is
    written to; BrokenPipeError says that its reader has left.
    """
    try:
        earlier = os.stat(path)
    except FileNotFoundError:
        earlier = None
    except OSError as error:
        raise _unwritable(path, error, "choose another name") from None
    if earlier is None or stat.S_ISREG(earlier.st_mode):
        with atomic_replace(Path(os.path.realpath(path)) if path.is_symlink() else path, earlier) as file:
            yield file
        return
    try:
        with Stream(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "w") as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(path, error, "choose another file") from None


@contextmanager
def atomic_replace(path: Path, earlier: os.stat_result | None = None) -> Iterator[IO[bytes]]:
    """A binary file that replaces whatever has its name, a link too, when everything is written and safe on disk.

    Until then an earlier file stays as it was: temporary file in the same folder, fsync, rename, fsync of the folder. A killed writer
    leaves its temporary file behind, until somebody locks the folder. The new file gets mode and owner of the ``earlier`` one.
    """
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    in_place = False
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if earlier else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if earlier is not None:
                with suppress(OSError):  # only root may give a file away
                    os.chown(temporary, earlier.st_uid, earlier.st_gid)
                os.chmod(temporary, earlier.st_mode & 0o777)
            os.replace(temporary, path)
            in_place = True
        _sync(path.parent)
    except OSError as error:
        if in_place:
            message = f"{shown_path(path)}: written, but the disk does not confirm it: {reason_of(error)}"
            raise MhaError(message, "check the disk", EXIT_FAILURE) from None
        failed = error.errno in FAILURES
        hint = "the earlier file, if any, is unchanged" if failed else "choose a folder that exists and can be written to"
        raise _unwritable(path, error, hint) from None
    finally:
        if not in_place:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def atomic_place(path: Path) -> Iterator[Path]:
    """A path at which to write a file or a folder, which moves to its place only when everything is written and safe on disk.

    It lies in a temporary folder beside that place, which is removed however the block ends.
    """
    try:
        temporary = tempfile.TemporaryDirectory(TEMPORARY_SUFFIX, TEMPORARY_PREFIX, path.parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise _unwritable(path, error, "choose a folder that exists and can be written to") from None
    try:
        with temporary as folder:
            written = Path(folder) / path.name
            yield written
            for item in (written, *written.rglob("*")):
                _sync(item)
            if os.path.lexists(path):
                raise MhaError(f"{shown_path(path)}: has come to exist meanwhile", "choose another name, or remove it")
            os.rename(written, path)
            _sync(path.parent)
    except OSError as error:
        raise _unwritable(path, error, "nothing was left there", EXIT_FAILURE) from None


@contextmanager
def locked(folder: Path, purpose: bytes = b"") -> Iterator[None]:
    """Hold a folder against other processes, or only against those of another purpose. The lock dies with its holders.

    The first holder and the last one remove the unfinished files of killed processes.
    """
    path, said = folder / (SHARED_LOCK if purpose else LOCK), "batch writes there, of another model, format or column"
    if not purpose:
        purpose, said = os.urandom(16), "training writes there"
    while not _is_there(descriptor := _open_lock(path, purpose), path):
        os.close(descriptor)
    with open(descriptor, "rb") as file:
        if file.read() != purpose:
            raise MhaError(f"{shown_path(folder)}: another {said}", "wait for it, or choose another folder")
        try:
            yield
        finally:
            if _is_ours(descriptor, path):
                _remove_leftovers(folder)
                path.unlink(missing_ok=True)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold one file against other processes that would write it. The lock, a file beside it, dies with its holder."""
    real = path.resolve()  # a link to the file means the file
    lock = real.with_name(f".{real.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(path, error, "choose a folder that exists and can be written to") from None
    with open(descriptor, "rb"):
        if not _is_ours(descriptor, lock):
            raise MhaError(f"{shown_path(path)}: another process writes there", "end it first, or choose another name")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _open_lock(path: Path, purpose: bytes) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        if _is_ours(descriptor, path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, purpose, 0)
            _remove_leftovers(path.parent)
    except OSError as error:
        code = EXIT_FAILURE if error.errno in FAILURES else EXIT_USAGE
        raise MhaError(f"{shown_path(path.parent)}: cannot be written to: {reason_of(error)}", "choose another folder", code) from None
    with suppress(OSError):  # files cannot be locked
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for an instant: nobody holds it alone for longer
    return descriptor


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
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EINVAL, errno.ENOTSUP}:  # not to be opened, or nothing in it to sync
            raise


@contextmanager
def temporary_faults(needs: str) -> Iterator[None]:
    """Name the folder of temporary files in a fault of one: it is full, or cannot be written to; the hint says who needs it."""
    try:
        yield
    except OSError as error:
        folder = printable(tempfile.tempdir or "the temporary folder", 200)
        raise MhaError(f"{folder}: {reason_of(error)}", f"{needs}: make room, or set TMPDIR to another folder", EXIT_FAILURE) from None


class TemporaryBytes:
    """Bytes in a file without a name, which disappears with this object, or with the process; a fault says who needs it.

    The system caches the file, so reading takes microseconds, and none of it counts as memory of this process.
    """

    def __init__(self, needs: str) -> None:
        self._needs = needs
        with temporary_faults(needs):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, _close, self._file)

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        with temporary_faults(self._needs):
            self._file.write(data)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one position to another."""
        pieces = list[bytes]()
        with temporary_faults(self._needs):
            self._file.flush()
            while start < stop and (piece := os.pread(self._file.fileno(), stop - start, start)):  # Linux gives 2 GiB at most
                pieces.append(piece)
                start += len(piece)
        return b"".join(pieces)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what a full disk did not take is of no more use
        file.close()


def _unwritable(path: Path, error: OSError, hint: str, code: int | None = None) -> MhaError:
    code = code or (EXIT_FAILURE if error.errno in FAILURES else EXIT_USAGE)
    return MhaError(f"{shown_path(path)}: cannot be written: {reason_of(error)}", hint, code)
