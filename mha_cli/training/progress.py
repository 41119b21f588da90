"""The progress of a training: finished epochs and the steps of the current one; and its state on disk, from which it can be resumed.

The state consists of arrays: the variables of the model (including dropout's random states) and of the optimizer, and the history. The
order of the texts and the dropped words follow from seed, epoch and step, so a resumed training gives the same weights.
"""

import dataclasses
import json
import math
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.corpus.batches import Rows
from mha_cli.errors import EXIT_FAILURE, MhaError, reason_of, shown_path
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Arrays, Distribution
from mha_cli.training.learner import Learner

WAY_OUT = "train anew in another folder"
DIVERGED = "lower training.learning_rate; the best epoch before it, if any, is kept"


@dataclass
class EpochPosition:
    """The steps of the current epoch so far, and sums over them."""

    epoch: int = 0  # number of the epoch, from 1; 0 before the first
    step: int = 0  # number of steps so far
    loss_sum: float = 0.0  # sum of the texts' losses, in nats
    num_correct: int = 0
    num_texts: int = 0
    seconds: float = 0.0


class Progress:
    """The progress of a learner.

    Args:
        records: finished epochs.
        position: steps of an interrupted epoch.
    """

    def __init__(self, learner: Learner, records: Sequence[EpochRecord] = (), position: EpochPosition | None = None) -> None:
        self.learner, self.records, self.position = learner, list(records), position or EpochPosition()
        self._epoch_texts = list(map(learner.num_texts, range(1, learner.num_epochs + 1)))
        self._num_steps, self._last_step = 0, 0.0  # steps of the current epoch; time at the end of the last one
        self._timed: tuple[int, float] | None = None  # texts and seconds of all steps but the first, in which TensorFlow traces the model

    @property
    def best(self) -> EpochRecord | None:
        """The best epoch so far."""
        return next((record for record in reversed(self.records) if record.best), None)

    def epochs_left(self) -> Iterator[int]:
        """The numbers of the remaining epochs, until patience runs out."""
        patience = self.learner.config.training.patience
        for epoch in range(self.records[-1].epoch + 1 if self.records else 1, self.learner.num_epochs + 1):
            if patience and self.best and epoch - 1 - self.best.epoch >= patience:
                return
            yield epoch

    def steps_left(self, epoch: int) -> Iterator[tuple[Rows, Int32s]]:
        """The rows and tokens of an epoch's remaining steps; of earlier steps, only the random numbers count."""
        if self.position.epoch != epoch:
            self.position = EpochPosition(epoch)
        batches, num_done = self.learner.batches(epoch), self.position.step
        self._num_steps, self._last_step = len(batches), time.perf_counter()
        for step, (rows, tokens) in enumerate(self.learner.steps(epoch, batches)):
            if step >= num_done:
                yield rows, tokens
            else:
                self._last_step = time.perf_counter()

    def after_step(self, loss_sum: float, num_correct: int, num_texts: int) -> StepProgress:
        """Count a step of the epoch."""
        now, done = time.perf_counter(), self.position
        seconds, self._last_step = now - self._last_step, now
        done.step += 1
        done.loss_sum += loss_sum
        done.num_correct += num_correct
        done.num_texts += num_texts
        done.seconds += seconds
        if not math.isfinite(done.loss_sum):
            raise MhaError(f"the loss is {done.loss_sum} at epoch {done.epoch}, step {done.step}", DIVERGED, EXIT_FAILURE)
        self._timed = (0, 0.0) if self._timed is None else (self._timed[0] + num_texts, self._timed[1] + seconds)
        speed = self._timed[0] / self._timed[1] if self._timed[0] else None
        total, texts_left = sum(self._epoch_texts), sum(self._epoch_texts[done.epoch - 1 :]) - done.num_texts
        return StepProgress(
            epoch=done.epoch,
            epochs=self.learner.num_epochs,
            step=done.step,
            steps=self._num_steps,
            loss=done.loss_sum / done.num_texts,
            accuracy=done.num_correct / done.num_texts,
            done=(total - texts_left) / total,
            texts_per_second=speed,
            seconds_left=None if speed is None else texts_left / speed,
        )

    def after_epoch(self, loss: float, accuracy: float) -> EpochRecord:
        """Add the record of an epoch, with its loss and accuracy on the validation part."""
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
        train_loss, train_accuracy, speed = done.loss_sum / done.num_texts, done.num_correct / done.num_texts, done.num_texts / done.seconds
        self.records.append(EpochRecord(done.epoch, train_loss, train_accuracy, loss, accuracy, done.seconds, speed, is_best))
        return self.records[-1]


def save_state(path: Path, progress: Progress) -> None:
    """Write the state after a step, array by array: ``numpy.savez`` would hold all of them in memory."""
    history = {"epochs": [dataclasses.asdict(record) for record in progress.records], "position": dataclasses.asdict(progress.position)}
    variables = ((f"variable_{index}", array) for index, array in enumerate(progress.learner.arrays()))
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in chain([("history", np.array(json.dumps(history)))], variables):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def restore_state(path: Path, learner: Learner, distribution: Distribution) -> Progress:
    """Load the chief's saved state, if there is one, into a learner of the same config, and return its progress."""
    saved = distribution.from_chief(partial(_read_state, path))
    if not saved:
        return Progress(learner)
    try:
        history = json.loads(str(saved.pop("history")))
        records = [EpochRecord(**record) for record in history["epochs"]]
        position = EpochPosition(**history["position"])
    except (ValueError, TypeError, LookupError) as error:
        raise _cannot_resume(path, error) from None
    arrays = list(saved.values())
    if [(array.shape, array.dtype) for array in arrays] != [(array.shape, array.dtype) for array in learner.arrays()]:
        raise MhaError(f"{shown_path(path)}: belongs to other texts, or to another version of mha", WAY_OUT)
    learner.set_arrays(arrays)
    return Progress(learner, records, position)


def _read_state(path: Path) -> Arrays:
    """The history and the variables in a state file; empty if there is no file."""
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            if sum(member.file_size for member in file.zip.infolist()) > path.stat().st_size:  # compressed, a few bytes would be gigabytes
                raise ValueError("its arrays are larger than the file")
            return {name: file[name] for name in ("history", *(f"variable_{index}" for index in range(len(file.files) - 1)))}
    except Exception as error:  # NumPy and zipfile raise nearly anything for damaged bytes
        raise _cannot_resume(path, error) from None


def _cannot_resume(path: Path, error: Exception) -> MhaError:
    return MhaError(f"{shown_path(path)}: cannot be resumed from: {reason_of(error)}", WAY_OUT)
