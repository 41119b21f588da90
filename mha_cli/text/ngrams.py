"""N-grams by hash, in NumPy: of the tokens of a text, and of the characters of a token, which are its subwords.

Axes: B batch, L length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

HASH_FACTOR = -1_640_531_535
"""2³² / golden ratio, as a 32-bit integer: odd and far from round, so that neighbouring ids scatter over the buckets (Knuth,
"The Art of Computer Programming", volume 3, section 6.4)."""

SUBWORD_START = 16
"""Added to the number that a hash starts with, so that code points do not fall where the same numbers do as ids."""

Array = npt.NDArray[Any]


def ngram_buckets(numbers_BL: Array, n: int, buckets: int, start: int = 0) -> Array:
    """The bucket of the n numbers that end at each position, (B, L).

    It is the lowest bits of a polynomial in them, in 32-bit arithmetic that wraps round; ``buckets`` is a power of two.
    """
    batch, length = numbers_BL.shape
    padded = np.zeros((batch, n - 1 + length), dtype=np.int32)
    padded[:, n - 1 :] = numbers_BL
    hashes = np.full(numbers_BL.shape, start + n, dtype=np.int32)
    for first in range(n):
        hashes = hashes * HASH_FACTOR + padded[:, first : first + length]
    return hashes & np.int32(buckets - 1)


def ngrams_end(numbers_BL: Array, n: int) -> Array:
    """Whether n numbers end at each position, bool (B, L): not at padding and not at the first n - 1 positions."""
    whole_BL: Array = (numbers_BL != 0) & (np.arange(numbers_BL.shape[1]) >= n - 1)
    return whole_BL
