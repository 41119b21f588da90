"""N-grams by hash, in NumPy: of the tokens of a text, and of the characters of a token, which are its subwords.

A token is its id, so that tokens are (B, L), or its id and then the code points of W characters of it, so that they are (B, L, 1 + W).

Axes: B batch, L length, T tokens of all texts, W characters of a token, R rows of a table, D their width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import SUBWORD_LENGTHS

Array = npt.NDArray[Any]

HASH_FACTOR = np.int32(-1_640_531_535)

SUBWORD_START = 16
"""Added to the number that the hash of a subword starts with."""


def ids_of(tokens: Array) -> Array:
    """The ids (B, L) of tokens (B, L) or (B, L, 1 + W)."""
    return tokens if tokens.ndim == 2 else tokens[:, :, 0]


def ngram_buckets(numbers_BL: Array, n: int, buckets: int, start: int = 0) -> Array:
    """The bucket of the n numbers that end at each position, (B, L): a polynomial in them, in 32-bit arithmetic that wraps round."""
    batch, length = numbers_BL.shape
    padded = np.zeros((batch, n - 1 + length), dtype=np.int32)
    padded[:, n - 1 :] = numbers_BL
    hashes = np.full(numbers_BL.shape, start + n, dtype=np.int32)
    for first in range(n):
        hashes = hashes * HASH_FACTOR + padded[:, first : first + length]
    power_of_two = not buckets & (buckets - 1)  # then the lowest bits are the remainder, without a division
    numbers: Array = hashes & np.int32(buckets - 1) if power_of_two else np.mod(hashes, np.int32(buckets))
    return numbers


def ngrams_end(numbers_BL: Array, n: int) -> Array:
    """Whether n numbers end at each position, bool (B, L): not at padding and not at the first n - 1 positions."""
    whole_BL: Array = (numbers_BL != 0) & (np.arange(numbers_BL.shape[1]) >= n - 1)
    return whole_BL


def subword_sums(table_RD: Array, tokens: Array) -> tuple[Array, Array]:
    """For each token of (B, L, 1 + W) the sum of its subwords' rows, (B, L, D), and how many they are, (B, L, 1).

    The longest tokens come first, so that those with a subword that ends at a character are the first few, and no row is taken in vain.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2, without the word itself.
    """
    characters_TW = tokens[:, :, 1:].reshape(-1, tokens.shape[2] - 1)
    lengths_T = np.count_nonzero(characters_TW, axis=1)
    order_T = np.argsort(-lengths_T)
    characters_TW = characters_TW[order_T, : lengths_T.max(initial=0)]
    reaching_W = np.count_nonzero(characters_TW, axis=0).tolist()
    sorted_TD, sums_TD = np.zeros((2, len(order_T), table_RD.shape[1]), np.float32)
    for n in SUBWORD_LENGTHS:
        buckets_TW = ngram_buckets(characters_TW, n, len(table_RD), SUBWORD_START)
        for last, reaching in enumerate(reaching_W[n - 1 :], n - 1):
            sorted_TD[:reaching] += table_RD.take(buckets_TW[:reaching, last], axis=0)
    sums_TD[order_T] = sorted_TD
    numbers_T = sum(np.maximum(lengths_T - n + 1, 0) for n in SUBWORD_LENGTHS)
    return sums_TD.reshape(*tokens.shape[:2], -1), numbers_T.astype(np.float32).reshape(*tokens.shape[:2], 1)
