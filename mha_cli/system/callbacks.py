"""Reports of long work while it goes on. The library calls these functions; the command line decides how they look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepProgress:
    """The progress of an epoch.

    Args:
        epoch: number of the epoch, from 1.
        step: steps done in this epoch, of ``steps``.
        loss: mean over the texts of this epoch so far, as is the accuracy, with dropout active.
        done: share of the texts of all epochs, in [0, 1].
        texts_per_second: rate since training began, or went on; None at the first step, which takes longer than all others.
        seconds_left: time to the end of the last epoch at this rate, without scoring and early stopping.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    done: float
    texts_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class EpochRecord:
    """The figures of an epoch; a line of ``history.jsonl``.

    Args:
        train_loss: mean over the epoch, with dropout, label smoothing and the weights of the classes.
        train_accuracy: mean likewise, in [0, 1].
        validation_loss: mean cross-entropy of what would be kept of the epoch, in nats.
        validation_accuracy: share of right answers of the same, in [0, 1].
        seconds: time for the training steps, without scoring.
        best: True if this epoch is the best so far by ``training.monitor``; with ``last`` only the last one is.
    """

    epoch: int
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    seconds: float
    texts_per_second: float
    best: bool

    def __str__(self) -> str:
        """The figures in one line."""
        return (
            f"epoch {self.epoch}: loss {self.train_loss:.4f}, validation loss {self.validation_loss:.4f}, "
            f"validation accuracy {self.validation_accuracy:.4f}, {self.seconds:.1f} s ({self.texts_per_second:,.0f} texts/s)"
            + (", kept" if self.best else "")
        )


@dataclass(frozen=True)
class Callbacks:
    """Functions that a long run calls as it goes on; the defaults do nothing.

    Args:
        note: function of a line to be kept in view.
        on_texts: function of the number of texts scored so far and of the number of all.
        stop: function called after every training step; True ends the run with KeyboardInterrupt when its state is saved.
    """

    log: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    on_step: Callable[[StepProgress], None] = lambda _: None
    on_epoch: Callable[[EpochRecord], None] = lambda _: None
    on_texts: Callable[[int, int], None] = lambda _done, _total: None
    stop: Callable[[], bool] = lambda: False


SILENT = Callbacks()
