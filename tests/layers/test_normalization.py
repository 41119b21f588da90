from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attention_cases import EXACT, assert_same_gradient, random
from layer_contract import check_layer, randomize

from mha_cli.layers import LayerNormalization

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 7


def filled(layer_class: type[keras.Layer] = LayerNormalization, **arguments: Any) -> keras.Layer:
    """A layer with random γ and β, the same for every class."""
    layer = layer_class(**arguments)
    layer.build((None, None, WIDTH))
    randomize(layer)
    return layer


def value_and_gradients(layer: keras.Layer, x: np.ndarray, upstream: np.ndarray) -> list[np.ndarray]:
    """What a layer gives, and the gradients of input, γ and β."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x)
        loss = tf.reduce_sum(tf.cast(output, upstream.dtype) * upstream)
    return [np.array(output), *map(np.array, tape.gradient(loss, [x, layer.gamma.value, layer.beta.value]))]


def test_honours_the_layer_contract(tmp_path: Path) -> None:
    check_layer(LayerNormalization, {"epsilon": 0.01}, [random(3, 5, WIDTH)], (3, 5, WIDTH), tmp_path, keeps_mask=True)


def test_a_position_with_one_value_in_all_features_gives_beta() -> None:
    layer, upstream = filled(), random(1, 1, WIDTH, seed=1)
    output, *gradients = value_and_gradients(layer, np.full((1, 1, WIDTH), 3.0, np.float32), upstream)
    np.testing.assert_array_equal(output[0, 0], layer.beta)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("shape", [(3, 5, WIDTH), (4, WIDTH)])
def test_value_and_gradients_equal_keras(shape: tuple[int, ...]) -> None:
    x, upstream = random(*shape) * 3 + 1, random(*shape, seed=1)
    ours, theirs = (value_and_gradients(filled(kind), x, upstream) for kind in (LayerNormalization, keras.layers.LayerNormalization))
    np.testing.assert_allclose(ours[0], theirs[0], **EXACT)
    for name, one, other in zip(("x", "gamma", "beta"), ours[1:], theirs[1:], strict=True):
        assert_same_gradient(one, other, name)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_a_float_is_normalized_in_float32(dtype: str) -> None:
    x = tf.cast(random(3, 5, WIDTH) * 0.01 + 100, dtype.removeprefix("mixed_"))  # squares of these have no digit left in half a float
    layer = filled(dtype=dtype, epsilon=1e-7)
    assert layer(x).dtype == x.dtype
    np.testing.assert_array_equal(layer(x), tf.cast(filled(epsilon=1e-7)(tf.cast(x, "float32")), x.dtype))
