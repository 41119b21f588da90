"""How far an epoch has come, and how fast its steps are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochPosition:
    """How far an epoch has come.

    Args:
        epoch: number of the epoch, from 1; 0 before the first.
        step: steps done.
        loss_sum: sum of the losses of the reviews so far, in nats.
        num_correct: reviews so far that were classified rightly.
        num_reviews: reviews so far.
        seconds: time for these steps.
    """

    epoch: int
    step: int = 0
    loss_sum: float = 0.0
    num_correct: int = 0
    num_reviews: int = 0
    seconds: float = 0.0

    def after_step(self, loss_sum: float, num_correct: int, num_reviews: int, seconds: float) -> EpochPosition:
        """The position a step further; all four are of that step."""
        return EpochPosition(
            self.epoch,
            self.step + 1,
            self.loss_sum + loss_sum,
            self.num_correct + num_correct,
            self.num_reviews + num_reviews,
            self.seconds + seconds,
        )

    @property
    def loss(self) -> float:
        """Mean over the reviews so far, in nats."""
        return self.loss_sum / self.num_reviews

    @property
    def accuracy(self) -> float:
        """Share of the reviews so far that were classified rightly, in [0, 1]."""
        return self.num_correct / self.num_reviews


class Pace:
    """How fast the steps of a trainer are, but for its first one, in which TensorFlow traces the model."""

    def __init__(self) -> None:
        self._num_reviews = 0
        self._seconds: float | None = None

    def with_step(self, num_reviews: int, seconds: float) -> float | None:
        """Count a step; reviews per second so far."""
        if self._seconds is None:
            self._seconds = 0.0
            return None
        self._num_reviews += num_reviews
        self._seconds += seconds
        return self._num_reviews / self._seconds
