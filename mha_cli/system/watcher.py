"""What long work reports while it goes on. The library calls these functions; the command line decides how they look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepProgress:
    """Where an epoch stands.

    Args:
        epoch: from 1.
        step: steps done in this epoch, of ``steps``.
        loss: mean over the reviews of this epoch so far.
        accuracy: likewise, in [0, 1], with dropout active.
        reviews_per_second: since training began, or went on; None at the first step, which takes longer than all others.
        seconds_left: to the end of the last epoch at this rate; scoring and early stopping left aside.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    reviews_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class EpochRecord:
    """What an epoch came to; a line of ``history.jsonl``.

    Args:
        train_loss: mean over the epoch, with dropout and label smoothing.
        train_accuracy: likewise, in [0, 1].
        validation_loss: mean cross-entropy of the weights after the epoch, in nats.
        validation_accuracy: in [0, 1].
        seconds: for the training steps, scoring not counted.
        best: whether this epoch is the best so far.
    """

    epoch: int
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    seconds: float
    reviews_per_second: float
    best: bool


@dataclass(frozen=True)
class Watcher:
    """Functions that a long run calls as it goes on; the defaults do nothing.

    Args:
        log: a line of text about what goes on; the next one may take its place.
        note: a line of text to be kept in view.
        on_step: after every training step.
        on_epoch: after every epoch.
        on_reviews: reviews scored so far, and of all.
        stop: asked after every training step; True ends the run with KeyboardInterrupt when its state is saved.
    """

    log: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    on_step: Callable[[StepProgress], None] = lambda _: None
    on_epoch: Callable[[EpochRecord], None] = lambda _: None
    on_reviews: Callable[[int, int], None] = lambda _done, _total: None
    stop: Callable[[], bool] = lambda: False


SILENT = Watcher()
