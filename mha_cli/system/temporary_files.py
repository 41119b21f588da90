"""What goes wrong with temporary files, in words: their folder is full, or cannot be written to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from mha_cli.errors import EXIT_FAILURE, MhaError, printable


@contextmanager
def temporary_faults(needs: str) -> Iterator[None]:
    """Name the folder of temporary files in a fault of it.

    Args:
        needs: what is put there, for the hint.
    """
    try:
        yield
    except OSError as error:
        folder = printable(tempfile.tempdir or "the temporary folder", 200)
        reason = error.strerror or printable(str(error))
        raise MhaError(f"{folder}: {reason}", f"{needs}: make room, or set TMPDIR to another folder", EXIT_FAILURE) from None
