"""All that changes in training, on disk: what an interrupted run needs to go on as if nothing had happened.

The file holds arrays only: the model's variables (the random states of dropout among them), the optimizer's, the averaged weights, and the
history so far. The data order needs no place in it, since it follows from the config's seed and the epoch.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_cli.errors import MhaError, printable
from mha_cli.files import atomic_write
from mha_cli.progress import EpochRecord

if TYPE_CHECKING:
    from mha_cli.training.loop import Trainer


def save_state(path: Path, trainer: Trainer, records: list[EpochRecord]) -> None:
    """Write the state after an epoch; an earlier one is replaced only by a whole one."""
    history = json.dumps([dataclasses.asdict(record) for record in records])
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
            records = [EpochRecord(**record) for record in history]
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise MhaError(
            f"{printable(str(path), 200)}: cannot be resumed from: {printable(str(error))}", "train anew in another folder"
        ) from None
    for variable, value in zip(trainer.variables, values, strict=True):
        _assign_same_shape(variable, value, path)
    return records


def _assign_same_shape(variable: Any, value: np.ndarray[Any, Any], path: Path) -> None:
    if tuple(variable.shape) != value.shape:
        raise MhaError(f"{printable(str(path), 200)}: belongs to another model", "train anew in another folder")
    variable.assign(value)
