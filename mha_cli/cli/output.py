"""Where answers go: to stdout as they come, or into a file that is there only when it is whole."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mha_cli.errors import EXIT_FAILURE, MhaError, shown_path
from mha_cli.system.whole_files import Stream, atomic_write

if TYPE_CHECKING:
    Write = Callable[[bytes], object]


@contextmanager
def opened_output(path: Path | None, stdout: TextIO) -> Iterator[Write]:
    """A function that writes to a file, or to ``stdout`` where there is none.

    If the reader of a pipe has left, the process ends as every Unix tool does, by SIGPIPE and without a message.

    Raises:
        MhaError: it cannot be written to. A file is then as it was before.
    """
    try:
        if path is None:
            yield lambda data: _write(data, stdout)
        else:
            with ended_in_order(), atomic_write(path) as file:
                yield file.write
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)


def refuse_output(option: str, path: Path, *, new: bool = False) -> None:
    """Refuse a path that no file can be written to, before any work is done.

    Args:
        option: option that names it, for the message.
        path: file to write.
        new: True for a file that may not be there yet.

    Raises:
        MhaError: it is a folder, or is there although it should be new; its folder does not exist; or no file can have that name.
    """
    name = f"{option} {shown_path(path)}"
    try:
        status = os.lstat(path) if new else os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.isdir(path.parent):
            raise MhaError(f"{name}: its folder does not exist", "make it first") from None
        return
    except OSError as error:
        raise MhaError(f"{name}: {error.strerror}", "choose another name") from None
    if new:
        raise MhaError(f"{name}: exists", "choose another name, or remove it")
    if stat.S_ISDIR(status.st_mode):
        raise MhaError(f"{name}: is a folder", "give the name of a file")


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Requests to end run what is to be done at the end, such as removing the unfinished file; the exit status is the usual one."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _write(data: bytes, stdout: TextIO) -> None:
    try:
        with Stream(stdout.fileno(), "w", closefd=False) as stream:
            stream.write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MhaError(f"cannot write the output: {error.strerror}", exit_code=EXIT_FAILURE) from None
