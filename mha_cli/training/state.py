"""The state of an interrupted training on disk, with which it goes on as if nothing had happened.

The state file holds arrays only: the model's variables (the random states of dropout among them), the optimizer's, and the
history so far. Data order and dropped words follow from the config's seed, the epoch and the step.
"""

import dataclasses
import json
import zipfile
from functools import partial
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array
from mha_cli.errors import MhaError, reason_of, shown_path
from mha_cli.system.callbacks import EpochRecord
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Arrays, Distribution
from mha_cli.training.learner import Learner
from mha_cli.training.progress import EpochPosition, Progress

_WAY_OUT = "train anew in another folder"


def save_state(path: Path, progress: Progress) -> None:
    """Write the state after a step; an earlier one is replaced only by a whole one."""
    history = {"epochs": [dataclasses.asdict(record) for record in progress.records], "position": dataclasses.asdict(progress.position)}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        _write_array(archive, "history", np.array(json.dumps(history)))
        for index, array in enumerate(progress.learner.arrays()):
            _write_array(archive, f"variable_{index}", array)


def _write_array(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    """Add an array as ``numpy.savez`` does, which would take all of them at once."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def restore_state(path: Path, learner: Learner, distribution: Distribution) -> Progress:
    """Put the state that the chief has saved, if any, into a learner of the same config, and return its progress."""
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
        raise MhaError(f"{shown_path(path)}: belongs to other texts, or to another version of mha", _WAY_OUT)
    learner.set_arrays(arrays)
    return Progress(learner, records, position)


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
