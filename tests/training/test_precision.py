"""Training in bfloat16: where it is chosen, what it touches and what it leaves alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.config.settings import Config, ModelConfig, TextConfig, TrainingConfig
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime import forward
from mha_cli.system.callbacks import EpochRecord
from mha_cli.training.precision import WIDE, choose_precision
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from tests.cli.command import step_by_step
from tests.training.epochs import run_epoch
from tests.training.numpy_trainer import NumpyTrainer


@pytest.mark.parametrize(
    ("setting", "model", "features", "chosen"),
    [
        ("auto", {"key_dim": WIDE}, ("amx_bf16",), "bfloat16"),
        ("auto", {"key_dim": WIDE - 1}, ("amx_bf16",), "float32"),  # too narrow to gain
        ("auto", {"pretrained": "encoder"}, ("amx_bf16",), "bfloat16"),
        ("auto", {"key_dim": WIDE}, (), "float32"),
        ("bfloat16", {"key_dim": 3}, (), "bfloat16"),
        ("float32", {"key_dim": WIDE}, ("amx_bf16",), "float32"),
    ],
)
def test_the_choice(setting: str, model: Any, features: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_cli.training.precision.bfloat16_features", lambda: features)
    config = Config(model=ModelConfig(**model), training=TrainingConfig.model_validate({"precision": setting}))
    assert choose_precision(config) == chosen


def test_batches_have_common_lengths_in_bfloat16_and_their_own_in_float32(tiny_config: Config, tiny_data: PreparedData) -> None:
    lengths = np.arange(33, 62)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    texts = EncodedTexts(np.full(offsets[-1], 5), offsets, np.zeros(len(lengths), np.int32), 0)
    data = replace(tiny_data, train=texts)
    config = tiny_config.model_copy(update={"text": TextConfig(vocabulary_size=300, sequence_length=61)})
    found = {}
    for name in ("float32", "bfloat16"):
        inputs = NumpyTrainer(config.changed(training={"precision": name, "batch_size": 1}), data)
        batches = [token_ids for _, token_ids in inputs.steps(1, inputs.batches(1))]
        assert sorted(np.count_nonzero(token_ids) for token_ids in batches) == list(lengths)
        found[name] = {token_ids.shape[1] for token_ids in batches}
    assert found == {"float32": set(lengths), "bfloat16": {*range(34, 61, 2), 61}}


@pytest.fixture(scope="module")
def steps(tiny_config: Config, tiny_data: PreparedData) -> dict[str, Any]:
    """One step on all texts in either type: the trainer and the loss."""
    found = {}
    for name in ("float32", "bfloat16"):
        trainer = Trainer(tiny_config.changed(training={"precision": name, "batch_size": 400}), tiny_data)
        with step_by_step():
            found[name] = (trainer, run_epoch(trainer, 1).train_loss)
    return found


def test_a_step_in_bfloat16_learns_nearly_the_same(steps: dict[str, Any], tiny_config: Config, tiny_data: PreparedData) -> None:
    trainers, (exact, rounded) = zip(*steps.values(), strict=True)
    assert 0 < abs(rounded - exact) < 0.01
    assert {variable.dtype for variable in trainers[1].model.weights} == {"float32"}
    assert all(variable.dtype in ("float32", tf.float32) for variable in trainers[1].optimizer.variables[2:])
    start = {weight.path: np.array(weight) for weight in Trainer(tiny_config, tiny_data).model.weights}
    exact, rounded = (
        np.concatenate([(weight - start[path]).ravel() for path, weight in trainer.weights().items()]) for trainer in trainers
    )
    # Adam's first step has one size for all weights; only its direction can differ.
    assert exact @ rounded / (np.linalg.norm(exact) * np.linalg.norm(rounded)) > 0.9


def test_validation_and_the_checkpoint_are_float32(steps: dict[str, Any], tiny_data: PreparedData) -> None:
    trainer: Trainer = steps["bfloat16"][0]
    validation = Validation(trainer.config, tiny_data, None)
    score = validation.score(trainer)
    texts = tiny_data.validation
    checkpoint = validation.checkpoint(trainer.weights(), EpochRecord(1, 0.5, 0.5, score.loss, score.accuracy, 1.0, 1.0, True), score)
    probabilities = forward.class_probabilities(texts.padded(np.arange(len(texts))), checkpoint.weights, trainer.config)
    assert score.loss == pytest.approx(-np.log(probabilities[np.arange(len(texts)), texts.labels]).mean(), abs=1e-5)
    assert "float32" in checkpoint.keras_config
    assert "bfloat16" not in checkpoint.keras_config
    assert {weight.dtype for weight in checkpoint.weights.values()} == {np.dtype(np.float32)}
