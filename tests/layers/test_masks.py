from __future__ import annotations

from typing import Any

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
