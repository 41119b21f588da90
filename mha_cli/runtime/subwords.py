"""Subwords, which are n-grams of characters by hash, in NumPy.

A token is its id, so that tokens are (B, L), or its id and then the code points of W characters of it, so that they are (B, L, 1 + W).

Axes: B batch, L length, T tokens of all texts, W characters of a token, R rows of a table, D their width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import SUBWORD_LENGTHS
from mha_cli.text.ngrams import hashed_subwords

Array = npt.NDArray[Any]


def ids_of(tokens: Array) -> Array:
    """The ids (B, L) of tokens (B, L) or (B, L, 1 + W)."""
    return tokens if tokens.ndim == 2 else tokens[:, :, 0]


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
    for n, (buckets_TW, _) in zip(SUBWORD_LENGTHS, hashed_subwords(characters_TW, len(table_RD)), strict=True):
        for last, reaching in enumerate(reaching_W[n - 1 :], n - 1):
            sorted_TD[:reaching] += table_RD.take(buckets_TW[:reaching, last], axis=0)
    sums_TD[order_T] = sorted_TD
    numbers_T = sum(np.maximum(lengths_T - n + 1, 0) for n in SUBWORD_LENGTHS)
    return sums_TD.reshape(*tokens.shape[:2], -1), numbers_T.astype(np.float32).reshape(*tokens.shape[:2], 1)
