"""N-grams by hash, in NumPy: of the tokens of a text, and of the characters of a token, which are its subwords.

Axes: B batch, L length, T tokens, W characters of a token.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from mha_cli.arrays import Array
from mha_cli.config.settings import SUBWORD_LENGTHS

HASH_FACTOR = -1_640_531_535
"""2³² / golden ratio, as a 32-bit integer: odd and far from round, so that neighbouring ids scatter over the buckets (Knuth,
"The Art of Computer Programming", volume 3, section 6.4)."""

SUBWORD_START = 16  # added to the number that a hash starts with, so that code points do not fall where the same numbers do as ids


def hashed_ngrams(numbers_BL: Array, lengths: Iterable[int], buckets: int, start: int = 0) -> Iterator[tuple[Array, Array]]:
    """For each length n, the bucket of the n numbers that end at each position, and whether there are n, both (B, L).

    A bucket is the lowest bits of a polynomial in the numbers, in 32-bit arithmetic that wraps round; ``buckets`` is a power of two.
    There are not n numbers at padding, which is 0, and at the first n - 1 positions.
    """
    batch, length = numbers_BL.shape
    for n in lengths:
        padded = np.zeros((batch, n - 1 + length), dtype=np.int32)
        padded[:, n - 1 :] = numbers_BL
        hashes = np.full(numbers_BL.shape, start + n, dtype=np.int32)
        for first in range(n):
            hashes = hashes * HASH_FACTOR + padded[:, first : first + length]
        yield hashes & np.int32(buckets - 1), (numbers_BL != 0) & (np.arange(length) >= n - 1)


def hashed_subwords(characters_TW: Array, buckets: int) -> Iterator[tuple[Array, Array]]:
    """``hashed_ngrams`` of the characters of tokens, for each of ``SUBWORD_LENGTHS``."""
    return hashed_ngrams(characters_TW, SUBWORD_LENGTHS, buckets, SUBWORD_START)
