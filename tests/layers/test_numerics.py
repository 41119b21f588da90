from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers.numerics import dot_products


@pytest.mark.parametrize(("dtype", "expected"), [("float16", "float32"), ("bfloat16", "bfloat16"), ("float32", "float32")])
def test_only_float16_needs_more_room(dtype: str, expected: str) -> None:
    q, k = tf.fill((1, 1, 2, 5), tf.cast(200.0, dtype)), tf.fill((1, 1, 3, 5), tf.cast(100.0, dtype))
    scores = dot_products(q, k)
    assert scores.dtype == expected
    np.testing.assert_allclose(tf.cast(scores, "float32"), np.full((1, 1, 2, 3), 1e5), rtol=2**-8)
