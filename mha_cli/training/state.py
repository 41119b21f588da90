"""The state of an interrupted training on disk, with which it goes on as if nothing had happened.

The state file holds arrays only: the model's variables (the random states of dropout among them), the optimizer's, and the
history so far. Data order and dropped words follow from the config's seed, the epoch and the step.
"""

import dataclasses
import json
import time
import zipfile
from functools import partial
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array
from mha_cli.errors import MhaError, reason_of, shown_path
from mha_cli.system.callbacks import Callbacks, EpochRecord, StepProgress
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Arrays
from mha_cli.training.epoch import EpochPosition
from mha_cli.training.trainer import Trainer

LEAST_SECONDS = 30.0  # time between two saves
MOST_SHARE = 0.015  # share of the time that saving may take

_WAY_OUT = "train anew in another folder"


class StateSaver:
    """Saves the state now and then, at a small share of the time, and when the callbacks ask the run to stop."""

    def __init__(self, path: Path, trainer: Trainer, records: list[EpochRecord], callbacks: Callbacks) -> None:
        self._path, self._trainer, self._records, self._callbacks = path, trainer, records, callbacks
        self._saved, self._cost = time.monotonic(), 0.0

    def after_step(self, progress: StepProgress) -> None:
        """Report the step, and save if it is time.

        Raises:
            KeyboardInterrupt: the run is asked to stop; its state is saved.
        """
        self._callbacks.on_step(progress)
        if self._callbacks.stop():
            save_state(self._path, self._trainer, self._records)
            raise KeyboardInterrupt
        self._save_after(LEAST_SECONDS)

    def after_epoch(self) -> None:
        """Save unless the last save was so recent that this one would take too large a share of the time."""
        self._save_after(0.0)

    def _save_after(self, seconds: float) -> None:
        if time.monotonic() - self._saved >= max(seconds, self._cost / MOST_SHARE):
            started = time.monotonic()
            save_state(self._path, self._trainer, self._records)
            self._saved = time.monotonic()
            self._cost = self._saved - started


def save_state(path: Path, trainer: Trainer, records: list[EpochRecord]) -> None:
    """Write the state after a step, if this is the chief; an earlier one is replaced only by a whole one."""
    if not trainer.distribution.task.is_chief:
        return
    history = {"epochs": [dataclasses.asdict(record) for record in records], "position": dataclasses.asdict(trainer.position)}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        _write_array(archive, "history", np.array(json.dumps(history)))
        for index, array in enumerate(trainer.arrays()):
            _write_array(archive, f"variable_{index}", array)


def _write_array(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    """Add an array as ``numpy.savez`` does, which would take all of them at once."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def restore_state(path: Path, trainer: Trainer) -> list[EpochRecord]:
    """Put the state that the chief has saved, if any, into a trainer of the same config, and return the history until then."""
    saved = trainer.distribution.from_chief(partial(_read_state, path))
    if not saved:
        return []
    try:
        history = json.loads(str(saved.pop("history")))
        records = [EpochRecord(**record) for record in history["epochs"]]
        position = EpochPosition(**history["position"])
    except (ValueError, TypeError, LookupError) as error:
        raise _cannot_resume(path, error) from None
    arrays = list(saved.values())
    if [(array.shape, array.dtype) for array in arrays] != [(array.shape, array.dtype) for array in trainer.arrays()]:
        raise MhaError(f"{shown_path(path)}: belongs to other texts, or to another version of mha", _WAY_OUT)
    trainer.set_arrays(arrays)
    trainer.position = position
    return records


def _read_state(path: Path) -> Arrays:
    """The history and the variables of a state file; nothing if there is none."""
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
    return MhaError(f"{shown_path(path)}: cannot be resumed from: {reason_of(error)}", _WAY_OUT)
