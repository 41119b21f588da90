"""Runs that are interrupted, and whether they come out as if they had not been."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT
from mha_cli.system.watcher import SILENT
from mha_cli.training.pseudo_labels import LABELS
from mha_cli.training.run import train

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.config.settings import Config
    from mha_cli.system.watcher import StepProgress


def assert_same_run(one: Path, other: Path) -> None:
    """The same metrics, weights and pseudo-labels, if there are any, bit for bit."""
    first, second = read_checkpoint(one / CHECKPOINT), read_checkpoint(other / CHECKPOINT)
    assert first.metrics == second.metrics
    for path, weight in first.weights.items():
        np.testing.assert_array_equal(weight, second.weights[path], err_msg=path)
    for labels in sorted(one.rglob(LABELS)):
        np.testing.assert_array_equal(np.load(labels), np.load(other / labels.relative_to(one)), err_msg=str(labels))


def interrupt(config: Config, output: Path, step: int, resume: bool = False) -> StepProgress:
    """Ask the run to stop after so many more steps; returns the first of them."""
    seen: list[StepProgress] = []
    watcher = dataclasses.replace(SILENT, on_step=seen.append, stop=lambda: len(seen) >= step)
    with pytest.raises(KeyboardInterrupt):
        train(config, output, watcher, resume=resume)
    assert len(seen) == step
    return seen[0]
