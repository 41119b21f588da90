"""A training on disk: what an interrupted one needs to go on as if nothing had happened, and what it comes to.

The state file holds arrays only: the model's variables (the random states of dropout among them), the optimizer's, the averaged weights,
and the history so far. The data order and the dropped words need no place in it, since they follow from the config's seed, the epoch and
the step.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError, printable
from mha_cli.system.files import atomic_write
from mha_cli.system.watcher import EpochRecord, Watcher
from mha_cli.training.loop import EpochPosition, fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.system.watcher import StepProgress
    from mha_cli.training.loop import Trainer

LEAST_SECONDS = 30.0
"""Between two saves."""

MOST_SHARE = 0.015
"""Of the time that saving may take."""

UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(ArithmeticError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What NumPy and zipfile raise for bytes that are not what they say."""


class StateSaver:
    """Saves the state now and then, at a small share of the time, and when the run is asked to stop.

    Args:
        path: the state file.
        trainer: whose state.
        records: the history, which grows as the run goes on.
        stop: says whether the run is asked to stop.
    """

    def __init__(self, path: Path, trainer: Trainer, records: list[EpochRecord], stop: Callable[[], bool]) -> None:
        self._path, self._trainer, self._records, self._stop = path, trainer, records, stop
        self._saved, self._cost, self._place = time.monotonic(), 0.0, (EpochPosition(0), 0)

    def after_step(self) -> None:
        """Save if it is time.

        Raises:
            KeyboardInterrupt: the run is asked to stop; its state is saved.
        """
        stop = self._stop()
        if stop or time.monotonic() - self._saved >= max(LEAST_SECONDS, self._cost / MOST_SHARE):
            self.save()
        if stop:
            raise KeyboardInterrupt

    def after_epoch(self) -> None:
        """Save unless the last save is so recent that this one would take too large a share of the time."""
        if time.monotonic() - self._saved >= self._cost / MOST_SHARE:
            self.save()

    def finish(self) -> None:
        """Save what has been learnt since the last save, if anything."""
        if self._place != (self._trainer.position, len(self._records)):
            self.save()

    def save(self) -> None:
        """Save now."""
        started, self._place = time.monotonic(), (self._trainer.position, len(self._records))
        save_state(self._path, self._trainer, self._records)
        self._saved = time.monotonic()
        self._cost = self._saved - started


def fit_resumably(
    path: Path, trainer: Trainer, watcher: Watcher, keep: Callable[[list[EpochRecord]], None], goes_on: bool = False
) -> list[EpochRecord]:
    """``fit``, from the saved state on if there is one, and with the state saved as training goes on; returns the history.

    Args:
        path: the state file.
        trainer: the model in training.
        watcher: told of every step and of every epoch.
        keep: called with the history after every epoch, before the state is saved: what has to outlast the run is to be written there.
        goes_on: whether more follows that can be interrupted, so that the end is worth a save, too.

    Raises:
        KeyboardInterrupt: the watcher asked to stop; the state is saved.
        MhaError: the state cannot be resumed from or not be saved, or the loss is no longer a number.
    """
    records = restore_state(path, trainer) if path.exists() else []
    best = next((record for record in reversed(records) if record.best), None)
    saver = StateSaver(path, trainer, records, watcher.stop)

    def on_step(progress: StepProgress) -> None:
        watcher.on_step(progress)
        saver.after_step()

    for record in fit(trainer, on_step, first_epoch=len(records) + 1, best=best):
        records.append(record)
        keep(records)
        saver.after_epoch()
        watcher.on_epoch(record)
    if goes_on:
        saver.finish()
    return records


def save_state(path: Path, trainer: Trainer, records: list[EpochRecord]) -> None:
    """Write the state after a step; an earlier one is replaced only by a whole one."""
    position = dataclasses.asdict(trainer.position)
    history = json.dumps({"epochs": [dataclasses.asdict(record) for record in records], "position": position})
    arrays = {f"variable_{index}": np.array(variable) for index, variable in enumerate(trainer.variables)}
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, history=np.array(history), **arrays)


def restore_state(path: Path, trainer: Trainer) -> list[EpochRecord]:
    """Put a saved state into a trainer of the same config and return the history until then.

    Raises:
        MhaError: the file is damaged or belongs to another model.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            history = json.loads(str(arrays["history"]))
            values = [arrays[f"variable_{index}"] for index in range(len(trainer.variables))]
            records = [EpochRecord(**record) for record in history["epochs"]]
            position = EpochPosition(**history["position"])
    except UNREADABLE as error:
        raise MhaError(
            f"{printable(str(path), 200)}: cannot be resumed from: {printable(str(error))}", "train anew in another folder"
        ) from None
    for variable, value in zip(trainer.variables, values, strict=True):
        _assign_same_shape(variable, value, path)
    trainer.position = position
    return records


def to_checkpoint(trainer: Trainer, record: EpochRecord) -> Checkpoint:
    """The trainer's weights as they would be used, with the figures of an epoch."""
    return Checkpoint(
        config=trainer.config,
        class_names=trainer.data.class_names,
        vocabulary=trainer.data.vocabulary,
        metrics={"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss},
        weights=trainer.weights(),
        keras_config=json.dumps(keras.saving.serialize_keras_object(trainer.model)),
    )


def _assign_same_shape(variable: Any, value: np.ndarray[Any, Any], path: Path) -> None:
    if tuple(variable.shape) != value.shape:
        raise MhaError(f"{printable(str(path), 200)}: belongs to another model", "train anew in another folder")
    variable.assign(value)
