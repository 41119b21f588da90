from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers.fast import fused
from mha_cli.layers.numerics import masked_softmax
from tests.layers.attention_cases import BATCH, HEADS, KEYS, QUERIES, paper_softmax, random, random_mask


@pytest.mark.parametrize("shape", [(BATCH, 1, 1, KEYS), (BATCH, HEADS, QUERIES, KEYS), (QUERIES, KEYS)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("softmax", [masked_softmax, fused.softmax])
def test_softmax_over_the_allowed_keys_only(softmax: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> None:
    mask = random_mask(*shape)
    mask[..., -1, :] = False  # a row that may look nowhere
    scores = tf.cast(random(BATCH, HEADS, QUERIES, KEYS) * 10, dtype)
    weights = tf.cast(softmax(scores, mask), dtype)
    allowed = np.broadcast_to(mask, weights.shape)
    rounding = 1e-6 if dtype == "float32" else 2**-11  # they are computed in float32 and rounded once
    np.testing.assert_allclose(weights, paper_softmax(tf.cast(scores, "float64").numpy(), allowed), atol=1e-6, rtol=rounding)
    assert (np.array(weights)[~allowed] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("softmax", [masked_softmax, fused.softmax])
def test_high_scores_stay_finite(softmax: Callable[..., Any], dtype: str) -> None:
    scores = tf.cast(np.array([[3e4, -3e4, 0.0], [np.inf, -3e4, 0.0], [3e4, 3e4, -3e4], [-3e4, -3e4, -3e4]], np.float32), dtype)
    mask = np.array([[False, True, True], [False, True, True], [True, True, True], [False, False, False]])
    np.testing.assert_array_equal(softmax(scores, mask), [[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0], [0, 0, 0]])
