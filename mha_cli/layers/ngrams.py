"""N-grams by hash: of the tokens of a text, and of the characters of a token, which are its subwords.

A token is its id, so that tokens are (B, L), or its id and then the code points of W characters of it, so that they are (B, L, 1 + W).

Axes: B batch, L length, W characters of a token, N places of its subwords, R rows of a table, D their width.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
from keras import ops

from mha_cli.config.settings import SUBWORD_LENGTHS
from mha_cli.text.ngrams import HASH_FACTOR, SUBWORD_START


def ids_of(tokens: Any) -> Any:
    """The ids (B, L) of tokens (B, L) or (B, L, 1 + W)."""
    return tokens if len(tokens.shape) == 2 else tokens[:, :, 0]


def hashed_ngrams(numbers_BL: Any, lengths: Iterable[int], buckets: int, start: int = 0) -> Iterator[tuple[Any, Any]]:
    """The function of this name in ``text/ngrams.py``, with Keras's operations.

    Args:
        numbers_BL: token ids or code points, (…, L), 0 at padding, which is only at the end.
        lengths: numbers of an n-gram, n.
        buckets: rows of the table, a power of two.
        start: number that, with n added, the hash starts with.

    Returns:
        For each n, bucket numbers, int32 (…, L), and a bool (…, L) that is False at padding and at the first n - 1 positions.

    Source: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification", section 2.2; the hash is a polynomial in the numbers.
    """
    numbers_BL = ops.cast(numbers_BL, "int32")  # the arithmetic wraps round at 32 bits, in every backend alike
    length, other_axes = ops.shape(numbers_BL)[-1], [[0, 0]] * (len(numbers_BL.shape) - 1)
    bits = buckets.bit_length() - 1  # the lowest ones: OpenVINO's remainder is inexact, and LiteRT has no bitwise and
    for n in lengths:
        hash_BL = ops.zeros_like(numbers_BL) + (start + n)
        for back in range(n - 1, -1, -1):
            earlier_BL = ops.pad(numbers_BL, [*other_axes, [back, 0]])[..., :length]
            hash_BL = hash_BL * HASH_FACTOR + earlier_BL
        whole_BL = ops.logical_and(numbers_BL != 0, ops.arange(length) >= n - 1)
        yield hash_BL - ops.right_shift(hash_BL, bits) * buckets, whole_BL


def subword_sums(table_RD: Any, tokens: Any, dtype: str, training: bool | None = None) -> tuple[Any, Any]:
    """For each token of (B, L, 1 + W) the sum of its subwords' rows, (B, L, D), and how many they are, (B, L, 1), both in ``dtype``.

    In training no row is looked up for padding, most of the W characters, so that none has a gradient; the numbers are the same.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2, without the word itself.
    """
    found = hashed_ngrams(tokens[:, :, 1:], SUBWORD_LENGTHS, table_RD.shape[0], SUBWORD_START)
    buckets_BLN, whole_BLN = (ops.concatenate(parts, axis=2) for parts in zip(*found, strict=True))
    numbers_BL1 = ops.cast(ops.sum(ops.cast(whole_BLN, "int32"), axis=2, keepdims=True), dtype)
    if training and keras.backend.backend() != "jax":  # whose shapes do not depend on numbers; nor can they in every export
        batch, length, places = ops.shape(whole_BLN)
        token, place = ops.nonzero(ops.reshape(whole_BLN, (-1, places)))
        rows = rows_of(table_RD, ops.take(ops.reshape(buckets_BLN, (-1,)), token * places + place))
        sums_BLD = ops.reshape(ops.segment_sum(rows, token, batch * length), (batch, length, table_RD.shape[1]))
    else:
        rows_BLND = rows_of(table_RD, ops.where(whole_BLN, buckets_BLN, 0))
        whole_BL1N = ops.expand_dims(ops.cast(whole_BLN, table_RD.dtype), 2)
        sums_BLD = ops.matmul(whole_BL1N, rows_BLND)[:, :, 0]
    return ops.cast(sums_BLD, dtype), numbers_BL1


def rows_of(table: Any, row_numbers: Any) -> Any:
    """The given rows of a weight (R, D), as (…, D).

    TensorFlow copies a weight of which single rows have been changed whenever the whole of it is read; its own look-up of rows does not.
    """
    look_up = getattr(table.value, "sparse_read", None)
    return ops.take(table, row_numbers, axis=0) if look_up is None else look_up(row_numbers)
