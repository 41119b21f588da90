"""Runs that are interrupted, and whether they come out as if they had not been."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runs import CHECKPOINT, HISTORY, run_directory
from mha_cli.system.callbacks import SILENT, Callbacks, StepProgress
from mha_cli.training import run
from mha_cli.training.run_files import TrainingSummary


def train(
    config: Config, output: Path, callbacks: Callbacks = SILENT, data: PreparedData | None = None, resume: bool = False
) -> TrainingSummary:
    """What `mha train` does, from its run directory on."""
    with run_directory(output, config, resume) as held:
        return run.train(config, held, callbacks, data)


def difference(one: Path, other: Path) -> str:
    """Where two finished runs differ in metrics, weights or history, bit for bit; empty if nowhere."""
    first, second = read_checkpoint(one / CHECKPOINT), read_checkpoint(other / CHECKPOINT)
    if first.metrics != second.metrics:
        return "metrics"
    different = [path for path, weight in first.weights.items() if not np.array_equal(weight, second.weights[path])]
    histories = [[line[: line.index('"seconds"')] for line in (folder / HISTORY).read_text().splitlines()] for folder in (one, other)]
    return ", ".join([*different, *(["history"] if histories[0] != histories[1] else [])])


def assert_same_run(one: Path, other: Path) -> None:
    assert not difference(one, other)


def interrupt(config: Config, output: Path, step: int, data: PreparedData | None = None, resume: bool = False) -> StepProgress:
    """Ask the run to stop after so many more steps; returns the first of them."""
    seen: list[StepProgress] = []
    callbacks = dataclasses.replace(SILENT, on_step=seen.append, stop=lambda: len(seen) >= step)
    with pytest.raises(KeyboardInterrupt):
        train(config, output, callbacks, data, resume)
    assert len(seen) == step
    return seen[0]
