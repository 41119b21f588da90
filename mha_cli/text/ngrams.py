"""N-grams by hash: of the tokens of a text, and of the characters of a token, which are its subwords.

Axes: B batch, L length, T tokens, W characters of a token.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mha_cli.arrays import Array
from mha_cli.config.settings import SUBWORD_LENGTHS

HASH_FACTOR = -1_640_531_535
"""2³² / golden ratio, as a 32-bit integer: odd and far from round, so that neighbouring ids scatter over the buckets (Knuth,
"The Art of Computer Programming", volume 3, section 6.4)."""

SUBWORD_START = 16  # added to the number that a hash starts with, so that code points do not fall where the same numbers do as ids


def earlier(numbers_BL: Array, back: int) -> Array:
    """The numbers ``back`` positions before, int32 (B, L); 0 where there are none."""
    earlier_BL = np.zeros(numbers_BL.shape, np.int32)
    earlier_BL[:, back:] = numbers_BL[:, : max(0, numbers_BL.shape[1] - back)]
    return earlier_BL


def hashed_ngrams(
    numbers_BL: Any, lengths: Iterable[int], buckets: int, start: int = 0, earlier: Callable[..., Any] = earlier
) -> Iterator[tuple[Any, Any]]:
    """For each length n, the bucket of the n numbers that end at each position, and whether there are n, both (B, L).

    A bucket is the lowest bits of a polynomial in the numbers, in 32-bit arithmetic that wraps round; ``buckets`` is a power of two.
    There are not n numbers at padding, which is 0 and only at the end, and at the first n - 1 positions.
    """
    for n in lengths:
        hashes, first_BL = np.array([start + n], np.int32), earlier(numbers_BL, n - 1)
        for back in range(n - 1, -1, -1):
            hashes = hashes * HASH_FACTOR + earlier(numbers_BL, back)
        yield hashes & np.int32(buckets - 1), np.minimum(numbers_BL, first_BL) > 0


def hashed_subwords(characters_TW: Any, buckets: int, earlier: Callable[..., Any] = earlier) -> Iterator[tuple[Any, Any]]:
    """``hashed_ngrams`` of the characters of tokens, for each of ``SUBWORD_LENGTHS``."""
    return hashed_ngrams(characters_TW, SUBWORD_LENGTHS, buckets, SUBWORD_START, earlier)
