from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers import FirstPosition, GlobalMaxPooling1D, GlobalMeanPooling1D, LastPosition
from tests.layers.layer_contract import check_layer

# The second position is padding, and would win.
ACTIVATIONS = np.array([[[-3.0, 1.0], [9.0, 8.0], [-2.0, 0.5]]], dtype=np.float32)
MASK = np.array([[True, False, True]])


INPUTS = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)


@pytest.mark.parametrize("layer", [GlobalMaxPooling1D, GlobalMeanPooling1D, FirstPosition, LastPosition])
def test_honours_the_layer_contract(layer: type[keras.Layer], tmp_path: Path) -> None:
    check_layer(layer, {}, [INPUTS], (3, 7), tmp_path, keeps_mask=False)


@pytest.mark.parametrize("mask", [None, np.ones((3, 5), dtype=bool)], ids=["no-mask", "all-real"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(GlobalMaxPooling1D, keras.layers.GlobalMaxPooling1D), (GlobalMeanPooling1D, keras.layers.GlobalAveragePooling1D)]
)
def test_without_padding_it_equals_keras(ours: Any, theirs: Any, mask: np.ndarray | None) -> None:
    np.testing.assert_allclose(ours()(INPUTS, mask=mask), theirs()(INPUTS), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_empty_review_gives_zeros_and_finite_gradients(dtype: str) -> None:
    inputs = tf.cast(np.concatenate([ACTIVATIONS, ACTIVATIONS]), dtype)
    mask = np.concatenate([MASK, np.zeros_like(MASK)])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        pooled = GlobalMaxPooling1D(dtype=dtype)(inputs, mask=mask)
    assert pooled.dtype == inputs.dtype
    np.testing.assert_array_equal(tf.cast(pooled, "float32"), [[-2.0, 1.0], [0.0, 0.0]])
    gradient = tf.cast(tape.gradient(pooled, inputs), "float32")
    np.testing.assert_array_equal(gradient[0], [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(gradient[1], np.zeros((3, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_mean_leaves_padding_out_in_value_and_gradient(dtype: str) -> None:
    inputs, mask = tf.cast(INPUTS, dtype), np.arange(5) < np.array([5, 3, 0])[:, None]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        pooled = GlobalMeanPooling1D(dtype=dtype)(inputs, mask=mask)
    assert pooled.dtype == inputs.dtype
    expected = np.stack([INPUTS[0].mean(0), INPUTS[1, :3].mean(0), np.zeros(7)])
    np.testing.assert_allclose(tf.cast(pooled, "float32"), expected, atol=1e-5 if dtype == "float32" else 2e-2)
    gradient = tf.cast(tape.gradient(pooled, inputs), "float32")
    np.testing.assert_allclose(gradient[..., 0], mask / np.maximum(mask.sum(1, keepdims=True), 1), atol=2e-3)


def test_the_last_real_position_is_taken_and_an_empty_review_gives_zeros() -> None:
    mask = np.arange(5) < np.array([5, 2, 0])[:, None]
    np.testing.assert_array_equal(LastPosition()(INPUTS), INPUTS[:, -1])
    np.testing.assert_array_equal(LastPosition()(INPUTS, mask=mask), np.stack([INPUTS[0, 4], INPUTS[1, 1], np.zeros(7)]))
