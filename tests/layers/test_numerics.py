from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from attention_cases import BATCH, HEADS, KEYS, QUERIES, paper_softmax, random, random_mask

from mha_cli.layers.numerics import dot_products, masked_softmax


@pytest.mark.parametrize(("dtype", "expected"), [("float16", "float32"), ("bfloat16", "bfloat16"), ("float32", "float32")])
def test_only_float16_needs_more_room(dtype: str, expected: str) -> None:
    q, k = tf.fill((1, 1, 2, 5), tf.cast(200.0, dtype)), tf.fill((1, 1, 3, 5), tf.cast(100.0, dtype))
    scores = dot_products(q, k)
    assert scores.dtype == expected
    np.testing.assert_allclose(tf.cast(scores, "float32"), np.full((1, 1, 2, 3), 1e5), rtol=2**-8)


ROWS = {
    "padding": (BATCH, 1, 1, KEYS),
    "for-all": (1, 1, QUERIES, KEYS),
    "whole": (BATCH, HEADS, QUERIES, KEYS),
    "two-axes": (QUERIES, KEYS),
}


@pytest.mark.parametrize("shape", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_softmax_over_the_allowed_keys_only(dtype: str, shape: tuple[int, ...]) -> None:
    mask = random_mask(*shape)
    mask[..., -1, :] = False  # a row that may look nowhere
    scores = tf.cast(random(BATCH, HEADS, QUERIES, KEYS) * 10, dtype)
    weights = masked_softmax(scores, mask)
    allowed = np.broadcast_to(mask, weights.shape)
    assert weights.dtype == tf.float32
    exact = paper_softmax(tf.cast(scores, "float64").numpy(), allowed)
    weights = tf.cast(weights, "float64").numpy()
    np.testing.assert_allclose(weights, exact, atol=1e-6, rtol=1e-6)
    assert (np.array(weights)[~allowed] == 0).all()
    rows = allowed.any(axis=-1)
    np.testing.assert_allclose(np.sum(weights, axis=-1), rows, atol=1e-6)
    assert not rows.all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_high_scores_stay_finite(dtype: str) -> None:
    scores = tf.cast(np.array([[3e4, -3e4, 0.0], [3e4, 3e4, -3e4], [-3e4, -3e4, -3e4]], np.float32), dtype)
    mask = np.array([[False, True, True], [True, True, True], [False, False, False]])
    np.testing.assert_array_equal(masked_softmax(scores, mask), [[0, 0, 1], [0.5, 0.5, 0], [0, 0, 0]])
