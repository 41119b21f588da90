"""Learning from the linear model: the targets, the run, and a checkpoint that stands without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.data.preparation import prepare
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, linear_logits, refit_linear_model
from mha_cli.linear.stacking import fit_stack, probabilities_of
from mha_cli.training.distillation import distilled
from mha_cli.training.distribution import Distribution
from tests.training.interruptions import train

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.config.settings import Config

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


@pytest.mark.parametrize("classes", [2, 3])
def test_targets_are_half_label_and_half_what_scores_from_other_texts_say(tmp_path: Path, classes: int) -> None:
    config = write_texts(tmp_path, classes, unlabelled=True)
    data = prepare(config)
    fitted, scores = cross_fit_linear_model(config, data, lambda _: None)
    stack = fit_stack(np.zeros_like(scores), scores, data.train.labels)

    def said(scores: Floats) -> Floats:
        return probabilities_of(stack.logits(np.zeros_like(scores), scores))

    found = distilled(config, data, lambda _: None, Distribution())[0]
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
    found = distilled(config, data, lambda _: None, Distribution())[0]
    assert found.train is data.train
    assert found.num_guessed == 0
    np.testing.assert_allclose(found.targets.sum(axis=1), 1, atol=1e-6)
    assert (found.targets.max(axis=1) >= 0.5).all()


@pytest.mark.usefixtures("trained_in_numpy")
def test_the_encoder_stands_alone_in_the_checkpoint(tmp_path: Path) -> None:
    config = write_texts(tmp_path, 2, unlabelled=True)
    summary = train(config, tmp_path / "run")
    assert summary.num_train == 108 + 9
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config.linear is None
    assert not [path for path in checkpoint.weights if path.startswith("linear/")]
    assert summary.num_parameters == checkpoint.num_weights
    assert 0 <= checkpoint.metrics["calibration_error_after"] <= 1
    assert load_config(summary.checkpoint.with_name("config.yaml")) == config  # the run keeps what it was asked for


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_linear_model_is_refitted_and_stays_beside_the_encoder_it_has_taught(tmp_path: Path) -> None:
    config = write_texts(tmp_path, 2, unlabelled=True, keep=True, refit=True)
    summary, data = train(config, tmp_path / "run"), prepare(config)
    expected = refit_linear_model(config, data, fit_linear_model(config, data, lambda _: None), lambda _: None)
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config == config
    np.testing.assert_allclose(checkpoint.weights["linear/table"], expected.table, atol=1e-6)
    assert expected.context_weights is not None
    np.testing.assert_allclose(checkpoint.weights["linear/context_weights"], expected.context_weights, atol=1e-6)
    assert summary.num_parameters == checkpoint.num_weights
    assert "calibration_error_after" not in checkpoint.metrics  # both together never were anything else
