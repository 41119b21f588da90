"""The terminal of a command: streams that are closed or take few characters, and a line that counts."""

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mha_cli.errors import plural


def prepare_streams() -> None:
    """Make stdout and stderr escape characters that their encoding lacks; output to a closed one is lost, as in /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # printing would fail, or go to the other stream
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (it stays open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def counter(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that counts further texts, if ``shown``, in a line on a terminal that appears after half a second and stays."""
    shown = shown and sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
    count, start, drawn = 0, time.monotonic(), 0.0

    def draw(end: str) -> None:
        nonlocal drawn
        drawn = time.monotonic() - start
        line = f"{plural(count, 'text')} in {drawn:,.1f} s, {count / drawn:,.0f} texts/s"
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)

    def add(number: int) -> None:
        nonlocal count
        count += number
        if shown and time.monotonic() - start >= (drawn + 0.2 if drawn else 0.5):
            draw("")

    try:
        yield add
    finally:
        if drawn:
            draw("\n")
