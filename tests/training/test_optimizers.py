"""Optimizers and learning rates against Keras's and by hand."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.model.classifier import build_classifier
from mha_cli.training.optimizers import LazyAdam, LazyRMSprop, build_optimizer, learning_rate_schedule

MIDDLE = [0.5 * (1 + math.sqrt(0.5)) / 2, 0.25, 0.5 * (1 - math.sqrt(0.5)) / 2]  # a quarter, half and three quarters down half a cosine


@pytest.mark.parametrize(
    ("schedule", "num_steps", "steps", "expected"),
    [
        ("constant", 20, [0, 7, 20], [0.5, 0.5, 0.5]),
        ("cosine", 20, [0, 5, 10, 15, 20], [0.5, *MIDDLE, 0]),
        ("warmup-cosine", 40, [0, 1, 3, 4, 13, 22, 31, 40], [0, 0.125, 0.375, 0.5, *MIDDLE, 0]),
        ("warmup-cosine", 4, [0, 2, 4], [0.5, 0.25, 0]),  # a warm-up that rounds to nothing
    ],
)
def test_learning_rates(schedule: str, num_steps: int, steps: list[int], expected: list[float]) -> None:
    config = TrainingConfig.model_validate({"learning_rate": 0.5, "schedule": schedule})
    optimizer = build_optimizer(config, learning_rate_schedule(config, num_steps))
    for step, rate in zip(steps, expected, strict=True):
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == pytest.approx(rate, abs=1e-6)


def test_lazy_adam_on_all_rows_is_adam() -> None:
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(4, 5, 3)).astype(np.float32)
    ours, theirs = tf.Variable(start), keras.Variable(start)
    lazy, adam = LazyAdam(ours), keras.optimizers.Adam(0.1)
    adam.build([theirs])
    for step, gradient in enumerate(gradients):
        adam.learning_rate = 0.1 / (1.0 + step)
        adam.apply([gradient], [theirs])
        lazy.apply(tf.IndexedSlices(gradient[::-1], np.arange(5)[::-1]), step + 1, 0.1 / (1.0 + step))
    np.testing.assert_allclose(ours.numpy(), np.array(theirs), rtol=1e-5, atol=1e-6)


def test_lazy_rmsprop_is_rmsprop_whenever_a_row_is_touched() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(6, 3)).astype(np.float32)
    ours, theirs = tf.Variable(start), keras.Variable(start)
    lazy, dense = LazyRMSprop(ours), keras.optimizers.RMSprop(0.1)
    dense.build([theirs])
    for step, rows in enumerate(([0, 1, 1], [2], [1, 3, 0], [2, 2, 2], [4], [1, 0, 2, 3], [0])):  # row 5 never, some after a while
        gradient = tf.IndexedSlices(tf.constant(rng.normal(size=(len(rows), 3)), tf.float32), tf.constant(rows), tf.constant([6, 3]))
        dense.learning_rate = 0.1 / (1.0 + step)
        dense.apply([tf.convert_to_tensor(gradient)], [theirs])  # given slices, Keras squares each before they are added up
        lazy.apply(gradient, step + 1, 0.1 / (1.0 + step))
        np.testing.assert_allclose(ours.numpy(), np.array(theirs), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.numpy()[5], start[5])


def test_weight_decay_leaves_biases_and_norms_alone(tiny_config: Config) -> None:
    model = build_classifier(tiny_config, 29, 3)
    rng = np.random.default_rng(0)
    weights = model.trainable_variables
    for weight in weights:
        weight.assign(rng.normal(size=weight.shape))
    before = [weight.numpy() for weight in weights]

    optimizer = build_optimizer(TrainingConfig(learning_rate=0.1), 0.1, is_pretrained=True)
    optimizer.apply([np.zeros(weight.shape, np.float32) for weight in weights], weights)

    decayed = set()
    for weight, old in zip(weights, before, strict=True):
        if weight.path.endswith(("bias", "gamma", "beta")):
            np.testing.assert_array_equal(weight.numpy(), old, err_msg=weight.path)
        else:
            np.testing.assert_allclose(weight.numpy(), old * (1 - 0.1 * 0.01), rtol=1e-5, err_msg=weight.path)
            decayed.add(weight.path)
    assert len(decayed) == 9  # two embeddings, four kernels of the attention, three of other layers
