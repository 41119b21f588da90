"""Where runs lie: naming a new run directory, finding the last trained one."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from mha_cli.errors import MhaError

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNS = Path("runs")
CHECKPOINT = "checkpoint.keras"
CHECKPOINT_VARIABLE = "MHA_CHECKPOINT"


def new_run_directory(name: str) -> Path:
    """``runs/NAME``, or the first of ``runs/NAME-2``, ``runs/NAME-3`` … that is not there yet."""
    return next(path for number in count(1) if not (path := RUNS / (name if number == 1 else f"{name}-{number}")).exists())


def choose_checkpoint(given: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """The checkpoint to use, and why that one: the given one, else ``$MHA_CHECKPOINT``, else the last trained run's.

    Raises:
        MhaError: there is none.
    """
    if given is not None:
        return given, ""
    if environment.get(CHECKPOINT_VARIABLE):
        return Path(environment[CHECKPOINT_VARIABLE]), f"${CHECKPOINT_VARIABLE}"
    found = sorted(RUNS.glob(f"**/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
    if found:
        return found[-1], "the last trained run"
    raise MhaError(
        f"no checkpoint: none was given, ${CHECKPOINT_VARIABLE} is not set and {RUNS}/ holds no trained run",
        "train one with `mha train --config configs/sample.yaml`, or give --checkpoint FILE",
    )


def run_name(checkpoint: Path) -> str:
    """A short name for a checkpoint: that of its run directory, or of the file where it has a name of its own."""
    return checkpoint.absolute().parent.name if checkpoint.name == CHECKPOINT else checkpoint.stem
