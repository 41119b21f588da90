"""The progress of long work: a live display on a terminal, plain lines elsewhere; always on stderr."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from mha_cli.cli.console import print_line
from mha_cli.errors import plural, printable
from mha_cli.system.callbacks import Callbacks, StepProgress

BAR_WIDTH = 20  # most columns of the bar of a training
PLAIN_SECONDS = 15.0  # seconds between two plain lines that only count


@contextmanager
def progress(status: str = "") -> Iterator[Callbacks]:
    """Callbacks that show the progress of a training; or of shorter work, from a first line on (``status``), as a line that vanishes.

    Where there is no terminal, or a dumb one, a training has plain lines, and shorter work only those that are to be kept in view.
    """
    with _console() as console:
        show = partial(print_line, console=console)
        if not console.is_terminal or console.is_dumb_terminal:
            last = time.monotonic()

            def count(line: str) -> None:
                nonlocal last
                if time.monotonic() - last > PLAIN_SECONDS:
                    last = time.monotonic()
                    show(line)

            in_training = Callbacks(
                log=show,
                count=count,
                note=show,
                on_step=lambda progress: count("".join(step_text(progress))),
                on_epoch=lambda record: show(str(record)),
            )
            yield Callbacks(note=show) if status else in_training
            return
        text = TextColumn("{task.description}", markup=False)
        waiting, stepping = (SpinnerColumn(), text), (text, BarColumn(bar_width=BAR_WIDTH))
        display = Progress(console=console, transient=True)
        task = display.add_task("", total=None)

        def log(line: str) -> None:
            display.columns = waiting
            display.update(task, description=printable(line, 200))
            display.start()  # with the first line

        def on_step(progress: StepProgress) -> None:
            display.columns = stepping
            text, rate = step_text(progress)
            has_room = len(text + rate) + 1 + BAR_WIDTH <= console.width  # the bar would become shorter, not the text
            display.update(task, description=text + rate * has_room, completed=progress.done, total=1.0)
            display.start()

        def on_texts(done: int, total: int) -> None:
            log(f"scored {done:,} of {plural(total, 'text')}")

        try:
            if status:
                log(status)
            yield Callbacks(log=log, count=log, note=show, on_step=on_step, on_epoch=lambda record: show(str(record)), on_texts=on_texts)
        finally:
            display.stop()


@contextmanager
def _console() -> Iterator[Console]:
    """A console on stderr. Its terminal is a descriptor of its own: while TensorFlow starts, the usual one is held back."""
    if not sys.stderr.isatty():
        yield Console(stderr=True, force_terminal=False)  # FORCE_COLOR asks for colours, not for a live display in a log
        return
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors) as terminal:
        yield Console(file=terminal)


def step_text(progress: StepProgress) -> tuple[str, str]:
    """The progress of an epoch, in one line, and what the line ends with if there is room: the texts per second."""
    text = f"epoch {progress.epoch}/{progress.epochs}, step {progress.step}/{progress.steps}"
    text += f", loss {progress.loss:.4f}, accuracy {progress.accuracy:.4f}"
    if progress.texts_per_second is None or progress.seconds_left is None:
        return text, ""
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return f"{text}, {minutes}:{seconds:02} left", f", {progress.texts_per_second:,.0f} texts/s"
