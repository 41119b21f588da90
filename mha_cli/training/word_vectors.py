"""Word vectors counted from the training texts: where token embeddings start, instead of at random.

Source: Levy and Goldberg 2014, "Neural Word Embedding as Implicit Matrix Factorization", section 4.2; context smoothing and the weight
that falls with distance: Levy, Goldberg and Dagan 2015, "Improving Distributional Similarity with Lessons Learned from Word
Embeddings", section 3.

Axes: V ids, D width of a vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.data.corpus import EncodedReviews
from mha_cli.text.vocabulary import SPECIAL_TOKENS, UNKNOWN_ID

WINDOW = 5
"""Words to either side that count as context."""

CONTEXT_POWER = 0.75
SINGULAR_VALUE_POWER = 0.5
SPREAD = 0.3
"""Standard deviation of the vectors' units."""

CHUNK_TOKENS = 1_000_000

Floats = npt.NDArray[np.float32]


def word_vectors(reviews: list[EncodedReviews], vocabulary_size: int, width: int, seed: int) -> Floats:
    """Vectors of all ids, (V, D): words that stand in similar contexts get similar ones; padding and the unknown token get zeros.

    Args:
        reviews: whose texts to count; their labels are not looked at.
        vocabulary_size: V.
        width: D.
        seed: source of chance of the decomposition.
    """
    from sklearn.utils.extmath import randomized_svd

    vectors = np.zeros((vocabulary_size, width), dtype=np.float32)
    words = vectors[len(SPECIAL_TOKENS) :]
    if not len(words):
        return vectors
    ratios = positive_pointwise_mutual_information(cooccurrences(reviews, vocabulary_size))
    rank = min(width, vocabulary_size - 1)
    left, singular_values, _ = randomized_svd(ratios, rank, n_iter=4, random_state=seed)
    words[:, :rank] = (left * singular_values**SINGULAR_VALUE_POWER)[len(SPECIAL_TOKENS) :]
    words *= SPREAD / (words.std() + 1e-9)
    return vectors


def cooccurrences(reviews: list[EncodedReviews], vocabulary_size: int) -> Any:
    """How often two words stand near each other, sparse (V, V): a neighbour counts 1, one ``WINDOW`` words away 1 / ``WINDOW``."""
    from scipy.sparse import coo_matrix, csr_matrix

    counts = csr_matrix((vocabulary_size, vocabulary_size), dtype=np.float32)
    for part in reviews:
        for start in range(0, len(part.token_ids), CHUNK_TOKENS):
            token_ids = part.token_ids[start : start + CHUNK_TOKENS + WINDOW]  # neighbours of the last ones included
            review_of = np.searchsorted(part.offsets, np.arange(start, start + len(token_ids)), side="right")
            for distance in range(1, WINDOW + 1):
                left, right = token_ids[:-distance][:CHUNK_TOKENS], token_ids[distance:][:CHUNK_TOKENS]
                together = review_of[:-distance][:CHUNK_TOKENS] == review_of[distance:][:CHUNK_TOKENS]
                near = together & (left > UNKNOWN_ID) & (right > UNKNOWN_ID)
                weights = np.full(np.count_nonzero(near), (WINDOW + 1 - distance) / WINDOW, dtype=np.float32)
                counts += coo_matrix((weights, (left[near], right[near])), shape=counts.shape).tocsr()
    return counts + counts.T


def positive_pointwise_mutual_information(counts: Any) -> Any:
    """max(0, log(P(word, context) / (P(word) P(context)))), sparse (V, V), with the contexts' frequencies smoothed."""
    from scipy.sparse import csr_matrix

    pairs = counts.tocoo()
    of_word = np.asarray(counts.sum(axis=1)).ravel()
    of_context = of_word**CONTEXT_POWER
    expected = of_word[pairs.row] * of_context[pairs.col] / of_context.sum()
    information = np.log(pairs.data / expected)
    positive = information > 0
    return csr_matrix((information[positive].astype(np.float32), (pairs.row[positive], pairs.col[positive])), shape=counts.shape)
