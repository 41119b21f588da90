"""The n-grams and subwords of reviews as sparse features: what a linear model reads.

Axes: N reviews, P tokens of all reviews, E distinct n-grams of each review, all reviews one after another, W characters of a token,
R buckets, V n-grams that have a vector, F some buckets, D width of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, vstack

from mha_cli.config.settings import SUBWORD_LENGTHS, ModelConfig
from mha_cli.data.corpus import EncodedTexts
from mha_cli.text.encoding import ids_of
from mha_cli.text.ngrams import SUBWORD_START, ngram_buckets, ngrams_end

CHUNK_REVIEWS = 2_000


@dataclass(frozen=True)
class Ngrams:
    """The distinct n-grams of reviews.

    Args:
        buckets: numbers of the n-grams by hash, int32 (E,).
        tokens: last tokens of the n-grams where they occur last in their review, counted over all reviews, int64 (E,).
        offsets: starts of the reviews, int64 (N + 1,); review i has the n-grams from ``offsets[i]`` up to ``offsets[i + 1]``.
    """

    buckets: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


class NgramVectors(NamedTuple):
    """N-grams that have a vector.

    Args:
        buckets: their numbers by hash, rising, int64 (V,).
        vectors: their vectors, of unit length, (V, D).
    """

    buckets: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]

    def of(self, buckets_F: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The vectors of some buckets, (F, D), zeros for those that have none."""
        rows_F = np.minimum(np.searchsorted(self.buckets, buckets_F), len(self.buckets) - 1)
        found: npt.NDArray[np.float32] = self.vectors[rows_F] * (self.buckets[rows_F] == buckets_F)[:, None]
        return found


def ngrams_of(reviews: EncodedTexts, model: ModelConfig) -> Ngrams:
    """The n-grams of reviews up to length ``score_ngrams``, by hash."""
    buckets, longest = model.score_buckets, max(1, int(reviews.lengths.max(initial=0)))
    parts, tokens, counts = [], [], []
    for start in range(0, len(reviews), CHUNK_REVIEWS):
        lengths = reviews.lengths[start : start + CHUNK_REVIEWS]
        first_token = reviews.offsets[start]
        token_ids = ids_of(reviews.tokens[first_token : reviews.offsets[start + len(lengths)]])
        starts = np.cumsum(lengths) - lengths
        rows = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.arange(len(token_ids)) - starts[rows]
        found = []
        for n in range(1, model.score_ngrams + 1):
            numbers = ngram_buckets(token_ids[None], n, buckets)[0]
            whole = positions >= n - 1  # the others reach back into the review before
            found.append((rows[whole] * buckets + numbers[whole]) * longest + positions[whole])
        cells, last_positions = np.divmod(np.sort(np.concatenate(found)), longest)
        distinct = np.diff(cells, append=-1) != 0  # of an n-gram that comes again the last position
        rows, numbers = np.divmod(cells[distinct], buckets)
        parts.append(numbers.astype(np.int32))
        tokens.append(first_token + starts[rows] + last_positions[distinct])
        counts.append(np.bincount(rows, minlength=len(lengths)))
    return Ngrams(np.concatenate(parts), np.concatenate(tokens), np.concatenate([[0], np.cumsum(np.concatenate(counts))]))


def text_features(reviews: EncodedTexts, ngrams: Ngrams, model: ModelConfig) -> Any:
    """All that counts in the score of a review: sparse (N, R). Times a table it is the layer ``NgramScores`` without windows."""
    features = ngram_features(reviews, ngrams, model)
    return features + subword_features(reviews, model) if model.score_subwords else features


def ngram_features(reviews: EncodedTexts, ngrams: Ngrams, model: ModelConfig) -> Any:
    """What each n-gram counts by its position, over the length of all that a review's count: sparse (N, R).

    Times a table it is ``layers.scores.review_scores`` without windows.
    """
    counts = np.diff(ngrams.offsets)
    tokens_after = np.repeat(reviews.offsets[1:], counts) - 1 - ngrams.tokens
    weights = 1.0 + np.exp(-tokens_after / model.score_ending) if model.score_ending else np.ones(len(tokens_after))
    norms = np.sqrt(np.bincount(np.repeat(np.arange(len(counts)), counts), np.square(weights), len(counts)))
    unit_weights = (weights / np.repeat(norms, counts)).astype(np.float32)
    return csr_matrix((unit_weights, ngrams.buckets, ngrams.offsets), shape=(len(counts), model.score_buckets))


def subword_features(reviews: EncodedTexts, model: ModelConfig) -> Any:
    """How often each subword stands in a review, over the square root of how many all are: sparse (N, R).

    Times a table it is ``layers.scores.text_subword_scores``.
    """
    parts = []
    for start in range(0, len(reviews), CHUNK_REVIEWS):
        lengths = reviews.lengths[start : start + CHUNK_REVIEWS]
        tokens = reviews.tokens[reviews.offsets[start] : reviews.offsets[start + len(lengths)]]
        of_token = np.repeat(np.arange(len(lengths)), lengths)
        rows, buckets = [], []
        for n in SUBWORD_LENGTHS:
            buckets_PW, whole_PW = ngram_buckets(tokens[:, 1:], n, model.score_buckets, SUBWORD_START), ngrams_end(tokens[:, 1:], n)
            rows.append(np.repeat(of_token, whole_PW.sum(axis=1)))
            buckets.append(buckets_PW[whole_PW])
        row_E = np.concatenate(rows)
        norms = np.sqrt(np.bincount(row_E, minlength=len(lengths)))
        counts = (1.0 / norms[row_E]).astype(np.float32)
        parts.append(csr_matrix((counts, (row_E, np.concatenate(buckets))), shape=(len(lengths), model.score_buckets)))
    return vstack(parts, format="csr")
