"""Reports of long work while it goes on. The library calls these functions; the command line decides how they look."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar


@dataclass(frozen=True)
class StepProgress:
    """The progress of an epoch."""

    epoch: int  # number of the epoch, from 1
    epochs: int
    step: int  # steps done in this epoch, of ``steps``
    steps: int
    loss: float  # mean over the texts of this epoch so far, as is the accuracy, with dropout active
    accuracy: float
    done: float  # share of the texts of all epochs, in [0, 1]
    texts_per_second: float | None  # rate since training began, or went on; None at the first step, the slowest
    seconds_left: float | None  # time to the end of the last epoch at this rate, without scoring and early stopping


@dataclass(frozen=True)
class EpochRecord:
    """The figures of an epoch; a line of ``history.jsonl``."""

    epoch: int
    train_loss: float  # mean over the epoch, with dropout, label smoothing and the weights of the classes
    train_accuracy: float  # mean likewise, in [0, 1]
    validation_loss: float  # mean cross-entropy of the checkpoint that this epoch would give, in nats
    validation_accuracy: float  # accuracy of this checkpoint, in [0, 1]
    seconds: float  # time for the training steps, without scoring
    texts_per_second: float
    best: bool  # True if this epoch is the best so far by ``training.monitor``; with ``last`` only the last one is

    def __str__(self) -> str:
        """Losses and validation accuracy in one line, which a terminal of 80 columns does not break."""
        return (
            f"epoch {self.epoch}: loss {self.train_loss:.4f}, validation loss {self.validation_loss:.4f}, "
            f"accuracy {self.validation_accuracy:.4f}" + ", kept so far" * self.best
        )


@dataclass(frozen=True)
class Callbacks:
    """Functions that a long run calls as it goes on; the defaults do nothing."""

    log: Callable[[str], None] = lambda _: None
    count: Callable[[str], None] = lambda _: None  # a line that the next one replaces: how far something is
    note: Callable[[str], None] = lambda _: None  # a line to be kept in view
    on_step: Callable[[StepProgress], None] = lambda _: None
    on_epoch: Callable[[EpochRecord], None] = lambda _: None
    on_texts: Callable[[int, int], None] = lambda _done, _total: None  # texts scored so far, and all
    stop: Callable[[], bool] = lambda: False  # asked after each step; True ends the run with KeyboardInterrupt, its state saved

    def after_step(self, progress: StepProgress) -> None:
        """Report a step; a run that is asked to stop and has no state to save ends with KeyboardInterrupt."""
        self.on_step(progress)
        if self.stop():
            raise KeyboardInterrupt


SILENT = Callbacks()

T = TypeVar("T")

LOG_SECONDS = 2.0  # seconds between two lines of progress


def counted_down(items: Sequence[T], what: str, callbacks: Callbacks) -> Iterator[T]:
    """The items one by one; when they take long, a line tells the time left. ``what`` names an item."""
    started = logged = monotonic()
    for done, item in enumerate(items):
        now = monotonic()
        if now - logged > LOG_SECONDS:
            logged = now
            callbacks.count(f"{what} {done + 1:,} of {len(items):,}, {(now - started) / done * (len(items) - done):,.0f} s left")
        yield item
