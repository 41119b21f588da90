from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attention_cases import BATCH, HEADS, KEYS, QUERIES, finite_differences, paper_softmax, prefix_mask, random, random_mask

from mha_cli.layers.masks import (
    broadcast_mask,
    check_fits,
    combine_masks,
    look_ahead_mask,
    masked_softmax,
    padding_mask,
    valid_lengths_mask,
)


def test_padding_mask_stands_on_the_axis_of_keys() -> None:
    real = prefix_mask([7, 3, 0], KEYS)
    mask = padding_mask(real)
    assert mask.dtype == tf.bool
    np.testing.assert_array_equal(mask, real.reshape(BATCH, 1, 1, KEYS))
    np.testing.assert_array_equal(padding_mask(real.astype(np.int32)), mask)


@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, QUERIES), (QUERIES, KEYS), (KEYS, QUERIES), (1, 1)])
def test_look_ahead_mask_ends_at_the_querys_own_place(queries: int, keys: int) -> None:
    expected = np.array([[key <= query for key in range(keys)] for query in range(queries)])
    mask = look_ahead_mask(queries, keys)
    np.testing.assert_array_equal(mask, expected[None, None])
    np.testing.assert_array_equal(tf.function(look_ahead_mask)(tf.constant(queries), tf.constant(keys)), mask)


def test_valid_lengths_for_an_entry() -> None:
    mask = valid_lengths_mask([3, 0, 9], KEYS)
    np.testing.assert_array_equal(mask, prefix_mask([3, 0, 7], KEYS).reshape(BATCH, 1, 1, KEYS))


def test_valid_lengths_for_a_query() -> None:
    lengths = np.random.default_rng(0).integers(0, KEYS + 2, (BATCH, QUERIES))
    expected = np.array([[[key < length for key in range(KEYS)] for length in row] for row in lengths])
    np.testing.assert_array_equal(valid_lengths_mask(lengths, KEYS), expected[:, None])


@pytest.mark.parametrize(
    ("shape", "whole"),
    [
        ((QUERIES, KEYS), (1, 1, QUERIES, KEYS)),
        ((BATCH, QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS)),
        ((BATCH, HEADS, QUERIES, KEYS), (BATCH, HEADS, QUERIES, KEYS)),
    ],
)
@pytest.mark.parametrize("dtype", [bool, np.int32])
def test_masks_of_two_to_four_axes_become_four(shape: tuple[int, ...], whole: tuple[int, ...], dtype: Any) -> None:
    mask = random_mask(*shape)
    result = broadcast_mask(mask.astype(dtype))
    assert result.dtype == tf.bool
    np.testing.assert_array_equal(result, mask.reshape(whole))


def test_masks_combine_by_logical_and() -> None:
    padding, ahead = padding_mask(prefix_mask([7, 3, 0], KEYS)), look_ahead_mask(QUERIES, KEYS)
    heads = broadcast_mask(random_mask(BATCH, HEADS, QUERIES, KEYS))
    combined = combine_masks(None, padding, None, ahead, heads)
    np.testing.assert_array_equal(combined, np.array(padding) & np.array(ahead) & np.array(heads))
    assert combine_masks(None, ahead, None) is ahead
    assert combine_masks(None, None) is None
    assert combine_masks() is None


@pytest.mark.parametrize("axes", [1, 5])
def test_a_mask_of_other_axes_is_refused(axes: int) -> None:
    message = rf"^attention_mask has {axes} axes; it takes \(L, M\), \(B, L, M\) or \(B, H, L, M\)$"
    with pytest.raises(ValueError, match=message):
        broadcast_mask(np.ones((2,) * axes, bool))


@pytest.mark.parametrize("axes", [0, 3])
def test_valid_lengths_of_other_axes_are_refused(axes: int) -> None:
    message = rf"^valid_lengths has {axes} axes; it takes 1 \(a number an entry\) or 2 \(a number a query\)$"
    with pytest.raises(ValueError, match=message):
        valid_lengths_mask(np.ones((2,) * axes, np.int32), KEYS)


def test_a_padding_mask_of_other_axes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a padding mask has 3 axes; it takes 2, \(batch, length\)$"):
        padding_mask(np.ones((2, 3, 5), bool))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 1, 1, 7), "pad is for 2 entries; it takes 3, or 1 for all alike"),
        ((3, 5, 1, 7), "pad is for 5 heads; it takes 2, or 1 for all alike"),
        ((3, 1, 7, 7), "pad is for 7 queries; it takes 5, or 1 for all alike"),
        ((3, 1, 1, 11), "pad is for 11 keys; it takes 7, or 1 for all alike"),
    ],
)
def test_a_mask_of_other_sizes_is_refused(shape: tuple[int, ...], message: str) -> None:
    sizes = (BATCH, HEADS, QUERIES, KEYS)
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_fits("pad", np.ones(shape, bool), sizes)
    check_fits("pad", np.ones((1, 1, 1, 1), bool), sizes)
    check_fits("pad", np.ones(sizes, bool), sizes)
    check_fits("pad", keras.KerasTensor((None, HEADS, None, KEYS)), sizes)
    check_fits("pad", np.ones(shape, bool), (None, None, None, None))


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
    assert weights.dtype == scores.dtype
    exact = paper_softmax(tf.cast(scores, "float64").numpy(), allowed)
    weights = tf.cast(weights, "float64").numpy()
    rounding = {"bfloat16": 2**-8, "float16": 2**-10, "float32": 1e-6}[dtype]
    np.testing.assert_allclose(weights, exact, atol=1e-6, rtol=rounding)
    assert (np.array(weights)[~allowed] == 0).all()
    rows = allowed.any(axis=-1)
    np.testing.assert_allclose(np.sum(weights, axis=-1), rows, atol=rounding)
    assert not rows.all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_of_the_softmax_is_exact_and_zero_where_a_row_looks_nowhere(dtype: str) -> None:
    mask = random_mask(QUERIES, KEYS)
    mask[2] = False
    upstream = random(QUERIES, KEYS, seed=1)
    scores = tf.cast(random(QUERIES, KEYS), dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = tf.reduce_sum(tf.cast(masked_softmax(scores, mask), tf.float32) * upstream)
    gradient = tape.gradient(loss, scores)
    assert gradient.dtype == scores.dtype
    gradient = tf.cast(gradient, "float64").numpy()
    assert (gradient[2] == 0).all()
    exact = tf.cast(scores, "float64").numpy()
    expected = finite_differences(lambda: float((paper_softmax(exact, mask) * upstream).sum()), exact)
    np.testing.assert_allclose(gradient, expected, atol=1e-5 if dtype == "float32" else 2e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_high_scores_stay_finite(dtype: str) -> None:
    scores = tf.cast(np.array([[3e4, -3e4, 0.0], [3e4, 3e4, -3e4], [-3e4, -3e4, -3e4]], np.float32), dtype)
    mask = np.array([[False, True, True], [True, True, True], [False, False, False]])
    np.testing.assert_array_equal(tf.cast(masked_softmax(scores, mask), tf.float32), [[0, 0, 1], [0.5, 0.5, 0], [0, 0, 0]])


def test_without_a_mask_it_is_plain_softmax() -> None:
    scores = random(BATCH, HEADS, QUERIES, KEYS)
    np.testing.assert_allclose(masked_softmax(scores), paper_softmax(scores.astype(float), np.array(True)), atol=1e-6)
    np.testing.assert_allclose(masked_softmax(scores, np.ones((1, 1, 1, KEYS), bool)), masked_softmax(scores), atol=1e-7)
