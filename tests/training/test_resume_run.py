"""The real trainer and the real command: interrupted and gone on with, a run ends as if it had not been, bit for bit."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.config.loading import config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.training.loop import fit
from mha_cli.training.pseudo_labels import LABELS
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from tests.cli.command import RESUME, TIMEOUT, TINY, run_mha, start_training
from tests.training.interruptions import assert_same_run, interrupt, train
from tests.training.numpy_trainer import probabilities_of

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.checkpoint.file import Checkpoint

STEPS, STEPS_OF_ALL = 7, 10
"""Of an epoch: 216 reviews, and with 97 texts more, in batches of 32."""

WORDS = ("film", "plot", "cast", "scene", "it")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A teacher of two epochs, then two of the run's own model, with everything that draws, averages or is fitted."""
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
        "model.dropout": 0.2,
        "model.max_ngram": 2,
        "model.ngram_buckets": 64,
        "model.score_ngrams": 2,
        "model.score_buckets": 256,
        "model.score_windows": "[3]",
        "training.epochs": 2,
        "training.learning_rate": 0.01,
        "training.word_dropout": 0.2,
        "training.average_decay": 0.9,
        "training.schedule": "cosine",
        "training.pseudo_labels": 1,
    }
    return load_config(TINY, [f"{key}={value}" for key, value in settings.items()])


@pytest.fixture(scope="module")
def data(config: Config) -> PreparedData:
    return prepare(config)


@pytest.fixture(scope="module")
def whole(config: Config, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    output = tmp_path_factory.mktemp("whole") / "run"
    train(config, output, data=data)
    return output


def test_stopped_in_the_teacher_and_in_the_runs_own_model(config: Config, data: PreparedData, whole: Path, tmp_path: Path) -> None:
    interrupt(config, tmp_path / "run", STEPS + 3, data)
    first = interrupt(config, tmp_path / "run", STEPS - 3 + STEPS_OF_ALL + 4, data, resume=True)
    assert (first.epoch, first.step, first.steps) == (2, 4, STEPS)
    train(config, tmp_path / "run", data=data, resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_the_labels_are_what_the_best_epoch_of_a_teacher_says(config: Config, data: PreparedData, whole: Path) -> None:
    from mha_cli.config.parameters import salient_words
    from mha_cli.ngram_scores.fit import fit_scores

    kept: list[Checkpoint] = []
    scores = fit_scores(data.train, 2, config.model, salient_words(config, len(data.vocabulary)), config.seed)
    list(fit(Trainer(config, data), Validation(config, data, scores), kept.append))
    assert data.unlabelled is not None
    expected = probabilities_of(data.unlabelled, kept[-1].weights, config.model)
    assert np.ptp(expected[:, 0]) > 0.1
    np.testing.assert_allclose(np.load(whole / "last" / "round-1" / LABELS), expected, atol=1e-5)


def test_killed_and_gone_on_with_through_the_command(tmp_path: Path) -> None:
    overrides = ["data.num_reviews=400", "model.embed_dim=16", "model.feed_forward_dim=16", "training.epochs=12"]
    process = start_training(tmp_path, "--config", TINY, *(part for setting in overrides for part in ("--set", setting)), "--output", "run")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("epoch 2:"):
        assert line, "the training ended"
    process.kill()
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "metrics.json").exists()
    result = run_mha(*RESUME, cwd=tmp_path)
    assert result.code == 0, result
    assert "epoch 2:" in result.stderr or "epoch 3:" in result.stderr
    assert "epoch 1:" not in result.stderr
    train(load_config(TINY, overrides), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.process
def test_ctrl_c_while_a_teacher_learns_through_the_command(config: Config, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config))
    longer = [part for setting in ("training.epochs=50", "training.patience=2") for part in ("--set", setting)]
    process = start_training(tmp_path, "--config", "x.yaml", *longer, "--output", "run")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("epoch 1: validation accuracy"):  # how a teacher's epoch is reported
        assert line, "the training ended"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == f"error: interrupted; run keeps what was learnt; go on with: mha {' '.join(RESUME)}"
    assert err.count("error:") == 1
    assert not list((tmp_path / "run").rglob("*.tmp"))
    result = run_mha(*RESUME, cwd=tmp_path)
    assert result.code == 0, result
    assert "pseudo-labels, round 1 of 1" in result.stderr
    assert (tmp_path / "run" / "metrics.json").is_file()
