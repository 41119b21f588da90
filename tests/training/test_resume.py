"""An interrupted run that goes on ends with the weights of a run that was never interrupted, bit for bit."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.runs import STATE, has_state
from mha_cli.config.loading import config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.data.preparation import prepare
from mha_cli.errors import MhaError
from mha_cli.system.files import LOCK
from mha_cli.system.watcher import SILENT, StepProgress
from mha_cli.training import state
from mha_cli.training.loop import Trainer
from mha_cli.training.run import train
from mha_cli.training.state import restore_state
from tests.checkpoints import damaged
from tests.training.interruptions import assert_same_run, interrupt

TINY = Path(__file__).parents[1] / "cli" / "tiny.yaml"
SETTINGS = [
    "data.num_reviews=400",
    "model.embed_dim=8",
    "model.num_heads=2",
    "model.feed_forward_dim=8",
    "model.max_ngram=2",
    "model.ngram_buckets=64",
    "model.score_ngrams=2",
    "model.score_buckets=256",
    "model.score_windows=[3]",
    "training.epochs=3",
    "training.word_dropout=0.2",
    "training.average_decay=0.9",
    "training.schedule=cosine",
]
STEPS = 12
"""Of an epoch: 360 reviews in batches of 32."""


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(TINY, SETTINGS)


@pytest.fixture(scope="module")
def stopped(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after its second step, to be copied."""
    output = tmp_path_factory.mktemp("stopped") / "run"
    interrupt(config, output, 2)
    return output


def test_stopped_again_and_again(config: Config, whole: Path, tmp_path: Path) -> None:
    stops = [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 5]
    for last, stop in itertools.pairwise([0, *stops]):
        first = interrupt(config, tmp_path / "run", stop - last, resume=last > 0)
        assert (first.epoch, first.step) == (last // STEPS + 1, last % STEPS + 1)
    train(config, tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_the_state_is_saved_now_and_then_without_being_asked(
    config: Config, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(state, "MOST_SHARE", 1e9)  # after every step
    seen: list[StepProgress] = []

    def fall_over(progress: StepProgress) -> None:
        seen.append(progress)
        if len(seen) == STEPS + 4:  # before this step is saved
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(config, tmp_path / "run", dataclasses.replace(SILENT, on_step=fall_over))
    seen.clear()
    train(config, tmp_path / "run", dataclasses.replace(SILENT, on_step=seen.append), resume=True)
    assert (seen[0].epoch, seen[0].step) == (2, 4)
    assert_same_run(whole, tmp_path / "run")


KILLED_IN_A_SAVE = """
import os, sys
from pathlib import Path
from mha_cli.config.loading import load_config
from mha_cli.training import state
from mha_cli.training.run import train

config, output, deadly = load_config(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
state.LEAST_SECONDS, state.MOST_SHARE = 0.0, 1e9
calls, replace = 0, os.replace

def counted(*arguments):
    global calls
    calls += 1
    if calls == deadly:
        os.kill(os.getpid(), 9)
    replace(*arguments)

os.replace = counted
train(config, output)
"""


@pytest.mark.parametrize("rename", [4, STEPS + 3, STEPS + 5])
def test_killed_in_a_save(config: Config, whole: Path, tmp_path: Path, rename: int) -> None:
    (tmp_path / "config.yaml").write_text(config_to_yaml(config))
    arguments = [sys.executable, "-c", KILLED_IN_A_SAVE, str(tmp_path / "config.yaml"), str(tmp_path / "run"), str(rename)]
    assert subprocess.run(arguments, env=os.environ, check=False).returncode == -9
    train(config, tmp_path / "run", resume=(tmp_path / "run" / "config.yaml").exists())
    assert_same_run(whole, tmp_path / "run")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MhaError("the disk is full")])
@pytest.mark.parametrize("there", [False, True])
def test_what_ends_before_anything_was_learnt_leaves_the_folder_as_it_was(
    error: BaseException, there: bool, config: Config, tmp_path: Path
) -> None:
    if there:
        (tmp_path / "run").mkdir()

    def fail(progress: StepProgress) -> None:
        assert (tmp_path / "run" / "config.yaml").exists()
        raise error

    for _ in range(2):  # the same again is not refused
        with pytest.raises(type(error)):
            train(config, tmp_path / "run", dataclasses.replace(SILENT, on_step=fail))
        assert list(tmp_path.rglob("*")) == ([tmp_path / "run"] if there else [])


def test_a_damaged_state(config: Config, stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    (tmp_path / "run" / STATE).write_bytes((tmp_path / "run" / STATE).read_bytes()[:-100])
    with pytest.raises(MhaError, match=r"state\.npz: cannot be resumed from"):
        train(config, tmp_path / "run", resume=True)


def test_a_state_that_is_damaged_anywhere_is_refused_or_harmless(config: Config, stopped: Path, tmp_path: Path) -> None:
    path = shutil.copy(stopped / STATE, tmp_path / "state.npz")
    whole, trainer, rng = path.read_bytes(), Trainer(config, prepare(config)), random.Random(0)
    restore_state(path, trainer)
    expected = [np.array(variable) for variable in trainer.variables]
    refused = 0
    for _ in range(300):
        path.write_bytes(damaged(whole, rng, end=2000))
        try:
            restore_state(path, trainer)
        except MhaError as error:
            refused += 1
            assert str(error).isprintable()
            assert "state.npz: " in str(error)
        else:
            for variable, value in zip(trainer.variables, expected, strict=True):
                np.testing.assert_array_equal(np.array(variable), value)
    assert refused > 150


def test_a_run_that_another_training_finished_meanwhile_is_not_lost(config: Config, tmp_path: Path) -> None:
    def finish(_: str) -> None:
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "metrics.json").write_text("precious")

    with pytest.raises(MhaError, match=r"run: holds a finished run; choose another folder, or remove this one$"):
        train(config, tmp_path / "run", dataclasses.replace(SILENT, log=finish))
    assert {path.name: path.read_text() for path in (tmp_path / "run").iterdir()} == {"metrics.json": "precious"}


def test_a_lock_that_a_killed_run_left_is_no_run(config: Config, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).touch()
    interrupt(config, tmp_path / "run", 1)
    assert has_state(tmp_path / "run")
