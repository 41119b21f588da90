from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers.numerics import at_least_one, custom_gradient, dot_products


@custom_gradient
def product(x: Any, y: Any) -> Any:
    """A product whose gradient is ten times what it should be."""
    return x * y, lambda upstream: (10.0 * y * upstream, 10.0 * x * upstream)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_is_the_one_given(compiled: bool) -> None:
    def run(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            value = 7.0 * product(x, y)
        return value, tape.gradient(value, [x, y])

    value, gradients = (tf.function(run) if compiled else run)(tf.constant(3.0), tf.constant(5.0))
    assert float(value) == 105.0
    assert [float(gradient) for gradient in gradients] == [350.0, 210.0]


@pytest.mark.parametrize(("dtype", "expected"), [("float16", "float32"), ("bfloat16", "bfloat16"), ("float32", "float32")])
def test_only_float16_needs_more_room(dtype: str, expected: str) -> None:
    q, k = tf.fill((1, 1, 2, 5), tf.cast(200.0, dtype)), tf.fill((1, 1, 3, 5), tf.cast(100.0, dtype))
    scores = dot_products(q, k)
    assert scores.dtype == expected
    np.testing.assert_allclose(tf.cast(scores, "float32"), np.full((1, 1, 2, 3), 1e5), rtol=2**-8)


def test_at_least_one_whether_the_size_is_known_or_not() -> None:
    assert [at_least_one(size) for size in (0, 1, 7)] == [1, 1, 7]
    assert [int(at_least_one(tf.constant(size))) for size in (0, 1, 7)] == [1, 1, 7]
