"""Learning from the linear model: the targets, the run, and a checkpoint that stands without them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, linear_logits, refit_linear_model
from mha_cli.linear.stacking import fit_stack, probabilities_of
from mha_cli.training.distillation import distilled
from mha_cli.training.distribution import Distribution
from tests.training.interruptions import assert_same_run, interrupt, train

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mha_cli.config.settings import Config
    from mha_cli.training.run import TrainingSummary

    Finished = Callable[[bool, bool, bool], tuple[Config, TrainingSummary]]

Floats = npt.NDArray[np.float32]


def write_texts(folder: Path, classes: int, unlabelled: bool, keep: bool = False, refit: bool = False) -> Config:
    """Texts of which a word says the class but for one in ten, and a config that learns from them."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for number in range(120):
        label = number % classes
        said = rng.integers(classes) if rng.random() < 0.1 else label
        lines.append(f"{' '.join(rng.choice(['a', 'b', 'c', 'd'], 6))} says{said},{label}")
    (folder / "train.csv").write_text("\n".join(lines))
    data: dict[str, Any] = {"source": "files", "train": str(folder / "train.csv"), "text_column": "text", "label_column": "label"}
    training: dict[str, Any] = {"epochs": 2, "batch_size": 16, "learning_rate": 0.02, "distill_linear": True}
    training |= {"keep_linear": keep, "refit_linear": refit}
    if unlabelled:
        (folder / "more.txt").write_text("".join(f"a d c says{number % classes}\n" for number in range(9)))
        data["unlabelled"], training["finetune_epochs"] = str(folder / "more.txt"), 1
    model = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8}
    linear = {"max_ngram": 2, "buckets": 512, "context_windows": [2], "ngram_embeddings": unlabelled}
    text = {"vocabulary_size": 50, "sequence_length": 9}
    return config_from_dict({"data": data, "text": text, "model": model, "linear": linear, "training": training}, "test")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A config of two classes and its finished run, by what ``write_texts`` is told; each is trained once."""

    @cache  # which takes an argument with its name and the same one without for two
    def run(unlabelled: bool, keep: bool, refit: bool, /) -> tuple[Config, TrainingSummary]:
        folder = tmp_path_factory.mktemp("texts")
        config = write_texts(folder, 2, unlabelled, keep, refit)
        return config, train(config, folder / "run")

    return run


def taught(config: Config, data: PreparedData) -> PreparedData:
    return distilled(config, data, lambda _: None, Distribution())[0]


@pytest.mark.parametrize("classes", [2, 3])
def test_targets_are_half_label_and_half_what_scores_from_other_texts_say(tmp_path: Path, classes: int) -> None:
    config = write_texts(tmp_path, classes, unlabelled=True)
    data = prepare(config)
    fitted, scores = cross_fit_linear_model(config, data, lambda _: None)
    stack = fit_stack(np.zeros_like(scores), scores, data.train.labels)

    def said(scores: Floats) -> Floats:
        return probabilities_of(stack.logits(np.zeros_like(scores), scores))

    found = taught(config, data)
    labelled, guessed = found.targets[: len(data.train)], found.targets[len(data.train) :]
    np.testing.assert_allclose(labelled, (data.targets + said(scores)) / 2, atol=1e-6)
    assert data.unlabelled is not None
    np.testing.assert_allclose(guessed, said(linear_logits(config, data, data.unlabelled, fitted)), atol=1e-6)
    assert (guessed.argmax(axis=1) == np.arange(9) % classes).all()
    assert (found.num_guessed, found.unlabelled) == (9, None)
    misled = np.flatnonzero(said(scores).argmax(axis=1) != data.train.labels)
    assert len(misled)  # the scores do not repeat the labels
    assert (labelled[misled].max(axis=1) < 0.8).all()


def test_without_unlabelled_texts(tmp_path: Path) -> None:
    config = write_texts(tmp_path, 2, unlabelled=False)
    data = prepare(config)
    found = taught(config, data)
    assert found.train is data.train
    assert found.num_guessed == 0
    np.testing.assert_allclose(found.targets.sum(axis=1), 1, atol=1e-6)
    assert (found.targets.max(axis=1) >= 0.5).all()


@pytest.mark.parametrize("unlabelled", [False, True])
def test_the_encoder_stands_alone_in_the_checkpoint(finished: Finished, unlabelled: bool) -> None:
    config, summary = finished(unlabelled, False, False)
    assert summary.num_train == 108 + 9 * unlabelled
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config.linear is None
    assert not [path for path in checkpoint.weights if path.startswith("linear/")]
    assert summary.num_parameters == checkpoint.num_weights
    assert 0 <= checkpoint.metrics["calibration_error_after"] <= 1
    assert load_config(summary.checkpoint.with_name("config.yaml")) == config  # the run keeps what it was asked for


@pytest.mark.parametrize("refit", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_scores_that_stay_beside_the_encoder_they_have_taught(finished: Finished, refit: bool) -> None:
    config, summary = finished(True, True, refit)
    data = prepare(config)
    fitted = fit_linear_model(config, data, lambda _: None)
    expected = refit_linear_model(config, data, fitted, lambda _: None) if refit else fitted
    assert summary.num_train == 108 + 9
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config == config
    np.testing.assert_allclose(checkpoint.weights["linear/table"], expected.table, atol=1e-6)
    assert expected.context_weights is not None
    np.testing.assert_allclose(checkpoint.weights["linear/context_weights"], expected.context_weights, atol=1e-6)
    assert summary.num_parameters == checkpoint.num_weights
    assert "calibration_error_after" not in checkpoint.metrics  # both together never were anything else


@pytest.mark.exhaustive
@pytest.mark.parametrize("keep", [False, True])
def test_a_run_that_is_gone_on_with(finished: Finished, tmp_path: Path, keep: bool) -> None:
    config, whole = finished(True, keep, False)
    interrupt(config, tmp_path / "run", 10)
    train(config, tmp_path / "run", resume=True)
    assert_same_run(whole.checkpoint.parent, tmp_path / "run")
