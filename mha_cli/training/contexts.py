"""Embedding tables that start from what stands beside words: words and n-grams that are used alike start out alike.

It needs no labels. A row is that of the singular value decomposition of the positive pointwise mutual information of a word, or n-gram,
with the words around it.

Source: Levy and Goldberg 2014, "Neural Word Embedding as Implicit Matrix Factorization", sections 3.3 and 4.2; Levy, Goldberg and Dagan
2015, "Improving Distributional Similarity with Lessons Learned from Word Embeddings", section 3 (near words count more, and frequent
contexts as if they were rarer); the singular vectors by Halko, Martinsson and Tropp 2011, "Finding Structure with Randomness",
algorithm 4.4.

Axes: P tokens of some texts, E words or n-grams in them, or cells of a sparse matrix, V words, R rows of both tables (of words, then of
n-grams), D model width, K singular vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from mha_cli.data.corpus import EncodedReviews
from mha_cli.text.encoding import ids_of
from mha_cli.text.ngrams import ngram_buckets
from mha_cli.text.vocabulary import UNKNOWN_ID

WINDOW = 5
"""Words to either side that are looked at; the next one counts 1, the fifth a fifth."""

SMOOTHING = 0.75
"""Power of the frequency of a context."""

WORD_UNIT, NGRAM_UNIT = 0.17, 0.03
"""Root mean square of the units of a row. At random both have 0.03; a word's row is to be worth more than what a few steps make of it."""

MOST_TOKENS = 5_000_000
"""Of more, some of the texts are looked at, drawn at random."""

POWER_ITERATIONS = 4
CHUNK_TOKENS = 500_000
"""Tokens that are looked at together, roughly."""

Floats = npt.NDArray[np.float32]


class _Chunk(NamedTuple):
    """The tokens of some texts, one text after another: their ids and the number of the text that each is of, (P,)."""

    ids: npt.NDArray[np.int32]
    text: npt.NDArray[np.int64]


def start_from_contexts(words_VD: Floats, ngrams_BD: Floats, texts: EncodedReviews, max_ngram: int, seed: int) -> None:
    """Overwrite the rows of words and n-grams that have known words beside them.

    Args:
        words_VD: table of words.
        ngrams_BD: table of n-grams by hash; no rows without n-grams.
        texts: all there are, with labels and without.
        max_ngram: longest n-gram.
        seed: of the texts drawn, and of the random start of the singular vectors.
    """
    from sklearn.utils.extmath import randomized_svd  # takes a second

    if len(texts.tokens) > MOST_TOKENS:
        texts = texts.random_part(len(texts) * MOST_TOKENS // len(texts.tokens), np.random.default_rng(seed))
    num_words, num_rows = len(words_VD), len(words_VD) + len(ngrams_BD)
    counts_RV = csr_array((num_rows, num_words), dtype=np.float32)
    for chunk in _chunks(texts):
        for n in range(1, max_ngram + 1):
            counts_RV += _neighbours(chunk, n, num_words, len(ngrams_BD))
    information_RV = _positive_information(counts_RV, num_words)
    width = min(words_VD.shape[1], num_words)
    _, singular_K, vectors_KV = randomized_svd(information_RV[:num_words], n_components=width, n_iter=POWER_ITERATIONS, random_state=seed)
    found_RK = information_RV @ (vectors_KV / np.sqrt(np.maximum(singular_K, 1e-9))[:, None]).T  # of words U √Σ, where U Σ Vᵀ is theirs
    length_R1 = np.linalg.norm(found_RK, axis=1, keepdims=True)
    is_found_R = length_R1[:, 0] > 1e-6
    found_RK *= np.sqrt(width) / np.maximum(length_R1, 1e-6)
    words_VD[is_found_R[:num_words], :width] = WORD_UNIT * found_RK[:num_words][is_found_R[:num_words]]
    ngrams_BD[is_found_R[num_words:], :width] = NGRAM_UNIT * found_RK[num_words:][is_found_R[num_words:]]


def _chunks(texts: EncodedReviews) -> Iterator[_Chunk]:
    num_texts = max(1, len(texts) * CHUNK_TOKENS // max(1, len(texts.tokens)))
    for start in range(0, len(texts), num_texts):
        lengths = texts.lengths[start : start + num_texts]
        tokens = texts.tokens[texts.offsets[start] : texts.offsets[start + len(lengths)]]
        yield _Chunk(ids_of(tokens), np.repeat(np.arange(len(lengths)), lengths))


def _neighbours(chunk: _Chunk, n: int, num_words: int, buckets: int) -> Any:
    """How often, and how near, each known word stands beside each word (n = 1) or n-gram: sparse (R, V)."""
    last_E = n - 1 + np.flatnonzero(chunk.text[: len(chunk.text) - n + 1] == chunk.text[n - 1 :])  # the others begin in the text before
    row_E = (chunk.ids if n == 1 else num_words + ngram_buckets(chunk.ids[None], n, buckets)[0])[last_E]
    found_rows, contexts, weights = [], [], []
    for distance in range(1, WINDOW + 1):
        for shift in (distance, 1 - n - distance):  # after the last word, before the first one
            inside = (last_E + shift >= 0) & (last_E + shift < len(chunk.ids))
            here_E, there_E = last_E[inside], last_E[inside] + shift
            beside = (chunk.text[here_E] == chunk.text[there_E]) & (chunk.ids[there_E] > UNKNOWN_ID)
            found_rows.append(row_E[inside][beside])
            contexts.append(chunk.ids[there_E][beside])
            weights.append(np.full(np.count_nonzero(beside), (WINDOW + 1 - distance) / WINDOW, np.float32))
    row, context, weight = (np.concatenate(parts) for parts in (found_rows, contexts, weights))
    known = row > UNKNOWN_ID
    return csr_array((weight[known], (row[known], context[known])), shape=(num_words + buckets, num_words))


def _positive_information(counts_RV: Any, num_words: int) -> Any:
    """max(0, log P(context | row) / P(context)), sparse (R, V); P(context) is that beside words."""
    in_all_R, of_context_V = counts_RV.sum(axis=1), counts_RV[:num_words].sum(axis=0) ** SMOOTHING
    share_V = of_context_V / max(of_context_V.sum(), 1e-9)
    row_E = np.repeat(np.arange(counts_RV.shape[0]), np.diff(counts_RV.indptr))
    expected_E = in_all_R[row_E] * share_V[counts_RV.indices]  # none for a word that stands beside unknown ones alone
    ratio_E = np.divide(counts_RV.data, expected_E, out=np.ones_like(expected_E), where=expected_E > 0)
    return csr_array((np.log(np.maximum(ratio_E, 1.0)), counts_RV.indices, counts_RV.indptr), shape=counts_RV.shape)
