from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attention_cases import BATCH, HEADS, KEYS, QUERIES, prefix_mask, random_mask

from mha_cli.layers.masks import broadcast_mask, combine, look_ahead_mask, padding_mask, valid_lengths_mask

SIZES = (BATCH, HEADS, QUERIES, KEYS)


def test_padding_mask_stands_on_the_axis_of_keys() -> None:
    real = prefix_mask([7, 3, 0], KEYS)
    mask = padding_mask(real)
    assert mask.dtype == tf.bool
    np.testing.assert_array_equal(mask, real.reshape(BATCH, 1, 1, KEYS))
    np.testing.assert_array_equal(padding_mask(real.astype(np.int32)), mask)


@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, QUERIES), (QUERIES, KEYS), (KEYS, QUERIES), (1, 1)])
def test_look_ahead_mask_ends_at_the_querys_own_position(queries: int, keys: int) -> None:
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
    combined = combine(SIZES, a=None, b=padding, c=None, d=ahead, e=heads)
    np.testing.assert_array_equal(combined, np.array(padding) & np.array(ahead) & np.array(heads))
    assert combine(SIZES, a=None, b=ahead) is ahead
    assert combine(SIZES, a=None) is None
    assert [none(None, *rest) for none, *rest in ((padding_mask,), (broadcast_mask,), (valid_lengths_mask, KEYS))] == [None] * 3


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
    with pytest.raises(ValueError, match=f"^{message}$"):
        combine(SIZES, pad=np.ones(shape, bool))
    combine(SIZES, pad=np.ones((1, 1, 1, 1), bool))
    combine(SIZES, pad=np.ones(SIZES, bool))
    combine(SIZES, pad=keras.KerasTensor((None, HEADS, None, KEYS)))
    combine((None, None, None, None), pad=np.ones(shape, bool))
