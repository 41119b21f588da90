"""How many texts are answered, in one line on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from mha_cli.errors import plural

if TYPE_CHECKING:
    from rich.live import Live

FIRST_SECONDS = 0.5
"""Before the line appears: whoever waits less needs none."""
EVERY_SECONDS = 0.2


@contextmanager
def counter(stderr: TextIO) -> Iterator[Callable[[int], None]]:
    """A function that counts further texts; the line stays when all is done.

    Args:
        stderr: stream of a terminal.
    """
    live: Live | None = None
    count, start = 0, time.monotonic()
    due = start + FIRST_SECONDS

    def update(line: Live) -> None:
        seconds = time.monotonic() - start
        line.update(f"{plural(count, 'text')} in {seconds:,.1f} s, {count / seconds:,.0f} texts/s", refresh=True)

    def add(number: int) -> None:
        nonlocal live, count, due
        count += number
        if time.monotonic() < due:
            return
        due = time.monotonic() + EVERY_SECONDS
        if live is None:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=stderr, highlight=False)
            live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            live.start()
        update(live)

    try:
        yield add
    finally:
        if live is not None:
            update(live)
            live.stop()
