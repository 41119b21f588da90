"""Naive-Bayes scores of n-grams: a linear reading of a review, fitted in seconds.

An n-gram's score for a class is its log-count ratio, times the weight that a linear model gives it.

Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", eq. 1 and 2 (NB-SVM).

Axes: N reviews, R buckets, U units of a score, C classes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.data.corpus import EncodedReviews
from mha_cli.layers.positions import ngram_buckets_of

SMOOTHING = 1.0
"""Added to the number of reviews that an n-gram stands in."""

INVERSE_REGULARIZATION = 0.3
"""C of the linear model."""

MOST_REVIEWS = 100_000
"""Scores are fitted on at most so many reviews, drawn at random: the n-grams of all of them are in memory at once."""

CHUNK_REVIEWS = 2_000

Floats = npt.NDArray[np.float32]


def fit_scores(reviews: EncodedReviews, targets: Floats, max_ngram: int, buckets: int, seed: int) -> Floats:
    """A score a bucket, (R, U); a unit stands for a class, or for the second of two classes.

    Args:
        reviews: what to learn from, N.
        targets: (N, C), probability of each class.
        max_ngram: longest n-gram.
        buckets: rows of the table, which n-grams share by hash.
        seed: of the draw, where there are more reviews than are fitted on.
    """
    if len(reviews) > MOST_REVIEWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(reviews), MOST_REVIEWS, replace=False))
        reviews, targets = reviews.subset(rows), targets[rows]
    presence = ngram_presence(reviews, max_ngram, buckets)
    units = targets[:, 1:] if targets.shape[1] == 2 else targets
    return np.stack([_fit_unit(presence, units[:, unit]) for unit in range(units.shape[1])], axis=1)


def log_count_ratios(presence: Any, target: Floats) -> Floats:
    """Of all buckets, (R,): log((p / Σp) / (q / Σq)), with p and q the smoothed numbers of reviews in and out of the class that have it."""
    p = presence.T @ target + SMOOTHING
    q = presence.T @ (1.0 - target) + SMOOTHING
    ratios: Floats = np.log((p / p.sum()) / (q / q.sum())).astype(np.float32)
    return ratios


def ngram_presence(reviews: EncodedReviews, max_ngram: int, buckets: int) -> Any:
    """Which n-grams a review holds: a sparse (N, R) of zeros and ones."""
    from scipy.sparse import csr_matrix, vstack

    parts = []
    for start in range(0, len(reviews), CHUNK_REVIEWS):
        lengths = reviews.lengths[start : start + CHUNK_REVIEWS]
        token_ids = reviews.token_ids[reviews.offsets[start] : reviews.offsets[start + len(lengths)]]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(token_ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        cells = []
        for n in range(1, max_ngram + 1):
            found = np.asarray(ngram_buckets_of(token_ids[None], n, buckets)[0])[0]
            whole = places >= n - 1  # the others reach back into the review before
            cells.append(rows[whole] * buckets + found[whole])
        distinct = np.unique(np.concatenate(cells))
        ends = np.searchsorted(distinct, np.arange(len(lengths) + 1) * buckets)
        columns = (distinct % buckets).astype(np.int32)
        parts.append(csr_matrix((np.ones(len(distinct), np.float32), columns, ends), shape=(len(lengths), buckets)))
    return vstack(parts, format="csr")


def _fit_unit(presence: Any, target: Floats) -> Floats:
    from sklearn.linear_model import LogisticRegression

    is_class, sureness = target > 0.5, np.abs(2.0 * target - 1.0)
    if is_class.all() or not is_class.any():
        return np.zeros(presence.shape[1], dtype=np.float32)
    ratios = log_count_ratios(presence, target)
    scaled = presence.multiply(ratios).tocsr().astype(np.float64)
    model = LogisticRegression(C=INVERSE_REGULARIZATION, solver="liblinear", dual=True, tol=1e-3, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 rounds are enough, whether or not the last digits have settled
        model.fit(scaled, is_class, sample_weight=sureness)
    scores: Floats = ratios * model.coef_[0].astype(np.float32)
    return scores
