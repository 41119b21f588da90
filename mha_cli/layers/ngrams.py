"""N-grams by hash: of the tokens of a text, and of the characters of a token, which are its subwords.

Tokens are ids, (B, L), or ids and the code points of W characters, (B, L, 1 + W).

Axes: B batch, L length, W characters of a token, N possible subwords of a token, R rows of a table, D their width.
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
        numbers_BL: token ids or code points, (…, L); 0 is padding, only at the end.
        lengths: values of n.
        buckets: rows of the table, a power of two.
        start: initial value of the hash, to which n is added.

    Returns:
        For each n, the bucket of the n-gram that ends at a position, int32 (…, L), and whether there is one, bool (…, L): not at padding,
        nor at the first n - 1 positions.

    Source: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification", section 2.2; the hash is a polynomial in the numbers.
    """
    numbers_BL = ops.cast(numbers_BL, "int32")  # the arithmetic wraps around at 32 bits in every backend
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
    """The sum of the rows of each token's subwords, (B, L, D), and their number, (B, L, 1), both in ``dtype``; tokens are (B, L, 1 + W).

    In training, no row is looked up for padding, which most of the W characters are, so that it has no gradient. The result is the same.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2, without the word itself.
    """
    subwords = hashed_ngrams(tokens[:, :, 1:], SUBWORD_LENGTHS, table_RD.shape[0], SUBWORD_START)
    buckets_BLN, whole_BLN = (ops.concatenate(arrays, axis=2) for arrays in zip(*subwords, strict=True))
    numbers_BL1 = ops.cast(ops.sum(ops.cast(whole_BLN, "int32"), axis=2, keepdims=True), dtype)
    if training and keras.backend.backend() != "jax":  # JAX and some exports need shapes that do not depend on values
        batch, length, most = ops.shape(whole_BLN)
        token, subword = ops.nonzero(ops.reshape(whole_BLN, (-1, most)))
        rows = rows_of(table_RD, ops.take(ops.reshape(buckets_BLN, (-1,)), token * most + subword))
        sums_BLD = ops.reshape(ops.segment_sum(rows, token, batch * length), (batch, length, table_RD.shape[1]))
    else:
        rows_BLND = rows_of(table_RD, ops.where(whole_BLN, buckets_BLN, 0))
        whole_BL1N = ops.expand_dims(ops.cast(whole_BLN, table_RD.dtype), 2)
        sums_BLD = ops.matmul(whole_BL1N, rows_BLND)[:, :, 0]
    return ops.cast(sums_BLD, dtype), numbers_BL1


def rows_of(table: Any, row_numbers: Any) -> Any:
    """The given rows of a weight (R, D), as (…, D).

    After an update of single rows, TensorFlow copies the whole table for every read, but not for its own look-up of rows.
    """
    look_up = getattr(table.value, "sparse_read", None)
    return ops.take(table, row_numbers, axis=0) if look_up is None else look_up(row_numbers)
