from __future__ import annotations

from typing import TYPE_CHECKING

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_contract import check_layer

from mha_cli.layers import GlobalMaxPooling1D

if TYPE_CHECKING:
    from pathlib import Path

# The second position is padding, and would win.
ACTIVATIONS = np.array([[[-3.0, 1.0], [9.0, 8.0], [-2.0, 0.5]]], dtype=np.float32)
MASK = np.array([[True, False, True]])


def test_honours_the_layer_contract(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    check_layer(GlobalMaxPooling1D, {}, [inputs], (3, 7), tmp_path, keeps_mask=False)


@pytest.mark.parametrize("mask", [None, np.ones((3, 5), dtype=bool)], ids=["no-mask", "all-real"])
def test_without_padding_it_equals_keras(mask: np.ndarray | None) -> None:
    inputs = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    np.testing.assert_array_equal(GlobalMaxPooling1D()(inputs, mask=mask), keras.layers.GlobalMaxPooling1D()(inputs))


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
