"""All that changes in training, on disk: what an interrupted run needs to go on as if nothing had happened.

The file holds arrays only: the model's variables (the random states of dropout among them), the optimizer's, the averaged weights, and the
history so far. The data order and the dropped words need no place in it, since they follow from the config's seed, the epoch and the step.
"""

from __future__ import annotations

import dataclasses
import json
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_cli.errors import MhaError, printable
from mha_cli.files import atomic_write
from mha_cli.progress import EpochRecord
from mha_cli.training.loop import EpochPosition

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.training.loop import Trainer

LEAST_SECONDS = 30.0
"""Between two saves."""

MOST_SHARE = 0.015
"""Of the time that saving may take."""


class StateSaver:
    """Saves the state now and then in the middle of epochs, at a small share of the time, and when the run is asked to stop.

    Args:
        path: the state file.
        trainer: whose state.
        records: the history, which grows as the run goes on.
        stop: says whether the run is asked to stop.
    """

    def __init__(self, path: Path, trainer: Trainer, records: list[EpochRecord], stop: Callable[[], bool]) -> None:
        self._path, self._trainer, self._records, self._stop = path, trainer, records, stop
        self._saved, self._wait = time.monotonic(), LEAST_SECONDS

    def after_step(self) -> None:
        """Save if it is time.

        Raises:
            KeyboardInterrupt: the run is asked to stop; its state is saved.
        """
        stop = self._stop()
        if stop or time.monotonic() - self._saved >= self._wait:
            self.save()
        if stop:
            raise KeyboardInterrupt

    def save(self) -> None:
        """Save now."""
        started = time.monotonic()
        save_state(self._path, self._trainer, self._records)
        self._saved = time.monotonic()
        self._wait = max(LEAST_SECONDS, (self._saved - started) / MOST_SHARE)


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
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise MhaError(
            f"{printable(str(path), 200)}: cannot be resumed from: {printable(str(error))}", "train anew in another folder"
        ) from None
    for variable, value in zip(trainer.variables, values, strict=True):
        _assign_same_shape(variable, value, path)
    trainer.position = position
    return records


def _assign_same_shape(variable: Any, value: np.ndarray[Any, Any], path: Path) -> None:
    if tuple(variable.shape) != value.shape:
        raise MhaError(f"{printable(str(path), 200)}: belongs to another model", "train anew in another folder")
    variable.assign(value)
