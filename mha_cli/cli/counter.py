"""How many texts are answered, in one line on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from typing import TextIO

    from rich.live import Live

FIRST_SECONDS = 0.5
"""Before the line appears: whoever waits less needs none."""
EVERY_SECONDS = 0.2


class Counter:
    """Counts what is answered. The line stays when all is done.

    Args:
        stderr: stream of a terminal.
        shown: whether to show it; else nothing is written.
    """

    def __init__(self, stderr: TextIO, shown: bool) -> None:
        self._stderr = stderr
        self._shown = shown
        self._live: Live | None = None
        self._count = 0
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Self:
        """Begin to count."""
        return self

    def __exit__(self, *_: object) -> None:
        """Show how many there were."""
        if self._live is not None:
            self._update(self._live)
            self._live.stop()

    def add(self, number: int) -> None:
        """Count further texts."""
        self._count += number
        now = time.monotonic()
        if not self._shown or now - self._start < FIRST_SECONDS or now - self._last < EVERY_SECONDS:
            return
        self._last = now
        if self._live is None:
            self._live = _live_line(self._stderr)
            self._live.start()
        self._update(self._live)

    def _update(self, live: Live) -> None:
        seconds = time.monotonic() - self._start
        live.update(f"{self._count:,} texts in {seconds:,.1f} s, {self._count / seconds:,.0f} texts/s", refresh=True)


def _live_line(stderr: TextIO) -> Live:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stderr, highlight=False)
    return Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
