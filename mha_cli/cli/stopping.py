"""Signals end a command in order. During a training, the first one asks it to stop after the step, the second ends it at once."""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import FrameType

from mha_cli.errors import MhaError
from mha_cli.system.callbacks import Callbacks, StepProgress

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_in_order() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, and SIGTERM and SIGHUP SystemExit, so that cleanup runs. Ignored signals stay ignored."""
    for number in (*SIGNALS, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


class StopRequest:
    """The request to stop a run, after its step once ``patient`` is set, else by ``KeyboardInterrupt``; a second signal does not wait."""

    patient = False
    signal: int | None = None

    def watched(self, callbacks: Callbacks) -> Callbacks:
        """The same callbacks, which stop the run; the request is patient from the first step on, when there is something to save."""

        def on_step(progress: StepProgress) -> None:
            self.patient = True
            callbacks.on_step(progress)

        return dataclasses.replace(callbacks, on_step=on_step, stop=lambda: self.signal is not None)

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect after a signal: 130 for Ctrl-C, 143 for a polite kill."""
        return 128 + (self.signal or signal.SIGINT)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        first, self.signal = self.signal is None, number
        if not (self.patient and first):
            raise KeyboardInterrupt


@contextmanager
def stop_request(log: Callable[[str], None], result: Callable[[], str]) -> Iterator[StopRequest]:
    """Handle the signals during a run; a run that they end raises an MhaError. Signals that the caller ignores stay ignored.

    ``log`` shows that the first signal has arrived; ``result`` says after a stop what is kept and how to continue.
    """
    request = StopRequest()
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)

    def listen() -> None:  # in a thread: Python handles a signal only when TensorFlow comes back, which may take seconds
        while number := os.read(ours, 1):
            if number[0] in SIGNALS:
                log("stopping after this step; Ctrl-C again ends at once" if request.patient else "stopping")
                return

    listener = Thread(target=listen, daemon=True)
    listener.start()
    earlier = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    obeyed = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = [signal.signal(number, request.receive) for number in obeyed]
    try:
        yield request
    except KeyboardInterrupt:
        raise MhaError(f"interrupted{result()}", exit_code=request.exit_code) from None
    finally:
        for number, handler in zip(obeyed, handlers, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier)
        os.close(theirs)
        listener.join()
        os.close(ours)
