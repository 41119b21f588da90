"""A run with pseudo-labels that is interrupted while a teacher learns or labels ends as if it had not been, bit for bit."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.runs import CHECKPOINT, has_state
from mha_cli.config.loading import config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.system.watcher import SILENT, StepProgress
from mha_cli.training.pseudo_labels import LABELS
from mha_cli.training.run import train
from tests.cli.command import TIMEOUT, TINY, environment, run_mha, start_training, tree
from tests.training.interruptions import assert_same_run, interrupt

STEPS = 7
"""Of a teacher's epoch in the first round: 216 reviews in batches of 32."""

WORDS = ("film", "plot", "cast", "scene", "it")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two rounds of two epochs each, then two of the run's own model."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)

    def text(good: bool) -> str:
        return " ".join([*rng.choice(WORDS, rng.integers(1, 9)).tolist(), "fine" if good != (rng.random() < 0.25) else "dull"])

    rows = [f"{text(bool(number % 2))},{['neg', 'pos'][number % 2]}" for number in range(240)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "more.txt").write_text("\n".join(text(bool(number % 2)) for number in range(97)) + "\n")
    settings = {
        "data.source": "files",
        "data.train": folder / "train.csv",
        "data.unlabelled": folder / "more.txt",
        "data.validation_share": 0.1,
        "model.embed_dim": 8,
        "model.num_heads": 2,
        "model.feed_forward_dim": 8,
        "model.score_ngrams": 2,
        "model.score_buckets": 256,
        "training.epochs": 2,
        "training.learning_rate": 0.01,
        "training.word_dropout": 0.2,
        "training.average_decay": 0.9,
        "training.pseudo_labels": 2,
    }
    return load_config(TINY, [f"{key}={value}" for key, value in settings.items()])


def test_stopped_again_and_again_in_every_round(config: Config, whole: Path, tmp_path: Path) -> None:
    interrupt(config, tmp_path / "run", 1)
    assert has_state(tmp_path / "run")
    assert not (tmp_path / "run" / CHECKPOINT).exists()
    later = [interrupt(config, tmp_path / "run", steps, resume=True) for steps in (2 * STEPS - 1, 11, 17)]
    assert [(first.epoch, first.step) for first in later] == [(1, 2), (1, 1), (2, 2)]  # the second of them begins the second round
    train(config, tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_stopped_while_the_texts_are_labelled(config: Config, whole: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        train(
            config,
            tmp_path / "run",
            dataclasses.replace(SILENT, log=told.append, stop=lambda: told[-1].startswith("labelling")),
        )
    seen: list[StepProgress] = []
    train(config, tmp_path / "run", dataclasses.replace(SILENT, on_step=seen.append), resume=True)
    assert seen[0].epoch == 1
    assert seen[0].steps > STEPS  # the second round: the first teacher had only to label once more
    assert_same_run(whole, tmp_path / "run")


def test_stopped_in_an_epoch_that_leaves_the_guesses_out(config: Config, tmp_path: Path) -> None:
    settings = config.training.model_copy(update={"pseudo_labels": 1, "labelled_epochs": 1})
    labels_last = config.model_copy(update={"training": settings})
    train(labels_last, tmp_path / "whole")
    of_all = 10  # steps: 216 reviews and 97 texts
    interrupt(labels_last, tmp_path / "run", 2 * STEPS + of_all + 3)
    seen: list[StepProgress] = []
    train(labels_last, tmp_path / "run", dataclasses.replace(SILENT, on_step=seen.append), resume=True)
    assert (seen[0].epoch, seen[0].step, seen[0].steps) == (2, 4, STEPS)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_nothing_of_a_teacher_is_left_but_its_labels(whole: Path) -> None:
    found = {name for name, content in tree(whole / "last").items() if content is not None}
    assert found == {"state.npz", "round-1/pseudo_labels.npy", "round-2/pseudo_labels.npy"}


KILLED_AT_A_RENAME = """
import os, sys
from pathlib import Path
from mha_cli.config.loading import load_config
from mha_cli.training import state
from mha_cli.training.run import train

config, output, deadly, after = load_config(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "after"
state.LEAST_SECONDS, state.MOST_SHARE = 0.0, 1e9
calls, replace = 0, os.replace

def counted(*arguments):
    global calls
    calls += 1
    if calls == deadly and not after:
        os.kill(os.getpid(), 9)
    replace(*arguments)
    if calls == deadly:
        os.kill(os.getpid(), 9)

os.replace = counted
train(config, output, resume=output.exists())
"""


# Renames of a teacher's round: the config (the first alone), the state of every step, then for each epoch its checkpoint if it is the best
# and its state, at last the labels. The first epoch is the best so far in any case.
@pytest.mark.parametrize(("rename", "when"), [(4, "before"), (STEPS + 3, "before"), (2 * STEPS + 6, "after")])
def test_killed_in_a_save_of_a_teacher(config: Config, whole: Path, tmp_path: Path, rename: int, when: str) -> None:
    (tmp_path / "config.yaml").write_text(config_to_yaml(config))
    command = [sys.executable, "-c", KILLED_AT_A_RENAME, tmp_path / "config.yaml", tmp_path / "run", str(rename), when]
    assert subprocess.run(command, env=environment(), check=False, timeout=TIMEOUT).returncode == -signal.SIGKILL
    train(config, tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_labels_that_are_damaged_or_of_other_texts(config: Config, tmp_path: Path) -> None:
    interrupt(config, tmp_path / "run", 2 * STEPS + 3)
    labels = tmp_path / "run" / "last" / "round-1" / LABELS
    labels.write_bytes(labels.read_bytes()[:-100])
    with pytest.raises(MhaError, match=r"pseudo_labels\.npy: cannot be resumed from: .*; train anew in another folder$"):
        train(config, tmp_path / "run", resume=True)
    np.save(labels, np.zeros((96, 2), np.float32))
    with pytest.raises(MhaError, match=r"pseudo_labels\.npy: belongs to other texts; train anew in another folder$"):
        train(config, tmp_path / "run", resume=True)


def test_ctrl_c_while_a_teacher_learns_through_the_command(config: Config, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config))
    longer = [part for setting in ("training.epochs=50", "training.patience=2", "training.pseudo_labels=1") for part in ("--set", setting)]
    process = start_training(tmp_path, "--config", "x.yaml", *longer, "--output", "run")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("epoch 1: validation accuracy"):  # what a teacher's epoch is told by
        assert line, "the training ended"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (130, "")
    again = ["train", "--config", "run/config.yaml", "--output", "run", "--resume"]
    assert err.splitlines()[-1] == f"error: interrupted; run keeps what was learnt; go on with: mha {' '.join(again)}"
    assert err.count("error:") == 1
    assert not list((tmp_path / "run").rglob("*.tmp"))
    result = run_mha(*again, cwd=tmp_path)
    assert result.code == 0, result
    assert "pseudo-labels, round 1 of 1" in result.stderr
    assert (tmp_path / "run" / "metrics.json").is_file()
