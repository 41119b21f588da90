"""Learning from the positions of the maximum only, against learning from all of them."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.config.settings import Config, ModelConfig, TrainingConfig
from mha_cli.model.classifier import build_classifier
from mha_cli.preparation.prepare import PreparedData
from mha_cli.training import trainer
from mha_cli.training.argmax_positions import argmax_suffices, output_at_argmax
from tests.covering import pairwise
from tests.training.epochs import run_epoch

TOKEN_IDS = np.array([[7, 2, 1, 22, 5, 5, 3, 9, 12, 4], [11, 3, 0, 0, 0, 0, 0, 0, 0, 0], [0] * 10, [4, 9, 13, 2, 6, 8, 0, 0, 0, 0]])


def output_and_gradients(config: Config, attention: str, argmax_only: bool) -> list[np.ndarray]:
    """Of a step without its update, the same chance in both."""
    keras.utils.set_random_seed(5)
    model = build_classifier(config, 23, 2, attention=attention)
    with tf.GradientTape() as tape:
        output = output_at_argmax(model, tf.constant(TOKEN_IDS))[0] if argmax_only else model(TOKEN_IDS, training=True)
        loss = tf.reduce_sum(tf.math.log(output) * [[1.0], [-0.5], [2.0], [-1.0]])
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    return [np.array(output), *(np.array(tf.convert_to_tensor(gradient)) for gradient in gradients)]


@pytest.mark.parametrize(
    ("attention", "normalization", "num_blocks", "dropout"),
    pairwise(["fused", "folded", "blockwise"], ["post", "pre"], [1, 2], [0.0, 0.5]),
)
def test_output_and_gradients_are_those_of_all_positions(attention: str, normalization: str, num_blocks: int, dropout: float) -> None:
    sizes: dict[str, Any] = {"embed_dim": 6, "num_heads": 2, "key_dim": 6, "feed_forward_dim": 5}
    kind = {"normalization": normalization, "num_blocks": num_blocks}
    config = Config(model=ModelConfig(**sizes, **kind, dropout=dropout, embedding_dropout=0.2))
    results = [output_and_gradients(config, attention, argmax_only) for argmax_only in (False, True)]
    for ours, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "mean_length", "suffice"),
    [
        ({}, 193, True),
        ({}, 192, False),  # one and a half times as many positions as dropout leaves features
        ({"model": {"pretrained": "encoder", "num_pieces": 9}}, 193, False),  # which has dropout in its blocks
        ({"training": {"few_labels": True}}, 193, False),  # which compares dropped features as well
    ],
)
def test_where_argmax_suffices(settings: dict[str, Any], mean_length: float, suffice: bool) -> None:
    model = ModelConfig(**{"embed_dim": 256, "num_heads": 2, "dropout": 0.5, **settings.get("model", {})})
    config = Config(model=model, training=TrainingConfig(**settings.get("training", {})))
    assert argmax_suffices(config, mean_length) == suffice


@pytest.mark.exhaustive
def test_a_trainer_learns_the_same_from_the_argmax_only(
    tiny_config: Config, tiny_data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, losses = tiny_config.changed(model={"embed_dim": 4, "dropout": 0.5}), []
    for suffices in (True, False):
        monkeypatch.setattr(trainer, "argmax_suffices", lambda *_, suffices=suffices: suffices)
        learner = trainer.Trainer(config, tiny_data)
        losses.append([run_epoch(learner, epoch).train_loss for epoch in (1, 2)])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
