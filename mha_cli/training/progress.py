"""How far a training has come: its epochs so far, and the steps of the one that is going on."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mha_cli.arrays import Int32s
from mha_cli.data.batches import Rows
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.training.learner import Learner

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"


@dataclass
class EpochPosition:
    """How far an epoch has come."""

    epoch: int = 0  # number of the epoch, from 1; 0 before the first
    step: int = 0  # steps done; the other figures are sums over these
    loss_sum: float = 0.0  # sum of the losses of the texts, in nats
    num_correct: int = 0
    num_texts: int = 0
    seconds: float = 0.0

    def add_step(self, loss_sum: float, num_correct: int, num_texts: int, seconds: float) -> None:
        """Count a step."""
        self.step += 1
        self.loss_sum += loss_sum
        self.num_correct += num_correct
        self.num_texts += num_texts
        self.seconds += seconds

    @property
    def loss(self) -> float:
        """Mean over the texts so far, in nats."""
        return self.loss_sum / self.num_texts

    @property
    def accuracy(self) -> float:
        """Share of right answers so far, in [0, 1]."""
        return self.num_correct / self.num_texts


class Progress:
    """The progress of a learner.

    Args:
        records: records of the epochs before an interruption.
        position: steps of an interrupted epoch.
    """

    def __init__(self, learner: Learner, records: Sequence[EpochRecord] = (), position: EpochPosition | None = None) -> None:
        self.learner, self.records, self.position = learner, list(records), position or EpochPosition()
        self._paced: EpochPosition | None = None  # steps without the first one, in which TensorFlow traces the model
        self._last, self._num_steps = 0.0, 0

    @property
    def best(self) -> EpochRecord | None:
        """The last record that is the best so far."""
        return next((record for record in reversed(self.records) if record.best), None)

    def epochs_left(self) -> Iterator[int]:
        """The numbers of the epochs to come, until the last one or until patience runs out."""
        patience = self.learner.config.training.patience
        for epoch in range(self.records[-1].epoch + 1 if self.records else 1, self.learner.num_epochs + 1):
            if patience and self.best and epoch - 1 - self.best.epoch >= patience:
                return
            yield epoch

    def steps_left(self, epoch: int) -> Iterator[tuple[Rows, Int32s]]:
        """The rows and tokens of an epoch's steps, except those that are done: of these, only the random numbers are drawn."""
        if self.position.epoch != epoch:
            self.position = EpochPosition(epoch)
        batches, num_done, self._last = self.learner.batches(epoch), self.position.step, time.perf_counter()
        self._num_steps = len(batches)
        for step, (rows, tokens) in enumerate(self.learner.steps(epoch, batches)):
            if step >= num_done:
                yield rows, tokens
            else:
                self._last = time.perf_counter()

    def after_step(self, loss_sum: float, num_correct: int, num_texts: int) -> StepProgress:
        """Count a step of the epoch."""
        now, done = time.perf_counter(), self.position
        step, self._last = (loss_sum, num_correct, num_texts, now - self._last), now
        done.add_step(*step)
        if not math.isfinite(done.loss_sum):
            raise MhaError(f"the loss is {done.loss_sum} at epoch {done.epoch}, step {done.step}", DIVERGED, EXIT_FAILURE)
        pace = None
        if self._paced is None:
            self._paced = EpochPosition()
        else:
            self._paced.add_step(*step)
            pace = self._paced.num_texts / self._paced.seconds
        of_epochs = [self.learner.num_texts(epoch) for epoch in range(1, self.learner.num_epochs + 1)]
        all_texts, left = sum(of_epochs), sum(of_epochs[done.epoch - 1 :]) - done.num_texts
        return StepProgress(
            epoch=done.epoch,
            epochs=self.learner.num_epochs,
            step=done.step,
            steps=self._num_steps,
            loss=done.loss,
            accuracy=done.accuracy,
            done=(all_texts - left) / all_texts,
            texts_per_second=pace,
            seconds_left=None if pace is None else left / pace,
        )

    def after_epoch(self, loss: float, accuracy: float) -> EpochRecord:
        """The record of the epoch, by its loss and accuracy on the validation part."""
        done, best = self.position, self.best
        if not math.isfinite(loss):
            raise MhaError(f"the validation loss is {loss} after epoch {done.epoch}", DIVERGED, EXIT_FAILURE)
        match self.learner.config.training.monitor:
            case "accuracy":
                is_best = best is None or accuracy > best.validation_accuracy
            case "loss":
                is_best = best is None or loss < best.validation_loss
            case "last":
                is_best = done.epoch == self.learner.num_epochs
        speed = done.num_texts / done.seconds
        self.records.append(EpochRecord(done.epoch, done.loss, done.accuracy, loss, accuracy, done.seconds, speed, is_best))
        return self.records[-1]
