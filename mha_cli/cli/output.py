"""Where answers go: to stdout as they come, or into a file that is there only when it is whole."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mha_cli.errors import EXIT_FAILURE, MhaError, printable
from mha_cli.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[bytes], object]


@contextmanager
def opened_output(path: Path | None) -> Iterator[Write]:
    """A function that writes to a file, or to stdout where there is none.

    If the reader of a pipe has left, the process ends as every Unix tool does, by SIGPIPE and without a message.

    Raises:
        MhaError: it cannot be written to. A file is then as it was before.
    """
    try:
        if path is None:
            yield lambda data: _write_all(sys.stdout.fileno(), data, "the output")
        elif path.exists() and not path.is_file():  # a device or a named pipe cannot be replaced
            with _opened(path) as descriptor:
                yield lambda data: _write_all(descriptor, data, printable(str(path), 200))
        else:
            with _ended_in_order(), atomic_write(path.resolve() if path.is_symlink() else path) as file:
                yield file.write
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MhaError(f"{printable(str(path), 200)}: cannot be written: {error.strerror}", "choose another file") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes, name: str) -> None:
    """Write without a buffer of ours: when we are interrupted nothing is left that would have to be written at the end."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MhaError(f"cannot write {name}: {error.strerror}", exit_code=EXIT_FAILURE) from None


@contextmanager
def _ended_in_order() -> Iterator[None]:
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
