"""Opening a file that may come from anywhere, and saying what is wrong with it."""

import io
import os
import stat
from pathlib import Path
from typing import Any

from mha_cli.errors import MhaError, reason_of, shown_path


class InputFile(io.FileIO):
    """A file to read through a buffer; a fault while it is read names it."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Read into a buffer."""
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise MhaError(f"{shown_path(str(self.name))}: cannot be read: {reason_of(error)}", "copy or fetch it anew") from None


def open_regular(path: Path, hint: str) -> io.BufferedReader:
    """A regular file to read; opening it waits for nothing, whatever it is. ``hint`` says what to give instead of any other."""
    name = shown_path(path)
    try:
        file = InputFile(path, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
    except FileNotFoundError:
        raise MhaError(f"{name}: no such file", hint) from None
    except (OSError, ValueError) as error:
        raise MhaError(f"{name}: cannot be read: {reason_of(error)}", hint) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise MhaError(f"{name}: is not a regular file", hint)
    return io.BufferedReader(file)
