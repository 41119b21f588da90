"""Naive-Bayes scores of n-grams: a linear reading of a review, fitted in seconds.

An n-gram's score for a class is its log-count ratio, times the weight that a linear model gives it; the model reads each review as
``layers/scores.py`` does, its end weighted and its length taken out.

Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", sections 2.1 to 2.3 (NB-SVM).

Axes: N reviews, R buckets, U units of a score, C classes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config import ModelConfig
from mha_cli.data.corpus import EncodedReviews
from mha_cli.layers.positions import ngram_buckets_of

SMOOTHING = 1.0
"""Added to the number of reviews that an n-gram stands in."""

INVERSE_REGULARIZATION = 30.0
"""C of the linear model."""

ROUNDS = 30
"""Over all reviews that the solver takes at most: more sharpen digits that tell nothing about other reviews."""

MOST_REVIEWS = 100_000
"""Scores are fitted on at most so many reviews, drawn at random: the n-grams of all of them are in memory at once."""

CHUNK_REVIEWS = 2_000

Floats = npt.NDArray[np.float32]


def fit_scores(reviews: EncodedReviews, num_classes: int, model: ModelConfig, seed: int) -> Floats:
    """A score a bucket, (R, U); a unit stands for a class, or for the second of two classes.

    Args:
        reviews: labelled reviews to learn from.
        num_classes: C.
        model: the settings of the scores.
        seed: of the draw, where there are more reviews than are fitted on.
    """
    if len(reviews) > MOST_REVIEWS:
        reviews = reviews.subset(np.sort(np.random.default_rng(seed).choice(len(reviews), MOST_REVIEWS, replace=False)))
    features = ngram_features(reviews, model)
    classes = [1] if num_classes == 2 else range(num_classes)
    return np.stack([_fit_unit(features, reviews.labels == class_id) for class_id in classes], axis=1)


def log_count_ratios(presence: Any, is_class: npt.NDArray[np.bool_]) -> Floats:
    """Of all buckets, (R,): log((p / Σp) / (q / Σq)), with p and q the smoothed numbers of reviews in and out of the class that have it."""
    p = presence.T @ is_class.astype(np.float32) + SMOOTHING
    q = presence.T @ (~is_class).astype(np.float32) + SMOOTHING
    ratios: Floats = np.log((p / p.sum()) / (q / q.sum())).astype(np.float32)
    return ratios


def ngram_features(reviews: EncodedReviews, model: ModelConfig) -> Any:
    """The weights of a review's n-grams, over their length: sparse (N, R); times a table it is ``layers.scores.review_scores``."""
    from scipy.sparse import csr_matrix, vstack

    buckets, parts = model.score_buckets, []
    longest = max(1, int(reviews.lengths.max(initial=0)))
    for start in range(0, len(reviews), CHUNK_REVIEWS):
        lengths = reviews.lengths[start : start + CHUNK_REVIEWS]
        token_ids = reviews.token_ids[reviews.offsets[start] : reviews.offsets[start + len(lengths)]]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(token_ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found = []
        for n in range(1, model.score_ngrams + 1):
            numbers = np.asarray(ngram_buckets_of(token_ids[None], n, buckets)[0])[0]
            whole = places >= n - 1  # the others reach back into the review before
            found.append((rows[whole] * buckets + numbers[whole]) * longest + places[whole])
        cells, last_places = np.divmod(np.sort(np.concatenate(found)), longest)
        distinct = np.diff(cells, append=-1) != 0  # of an n-gram that comes again the last place
        cells, last_places = cells[distinct], last_places[distinct]
        ends = np.searchsorted(cells, np.arange(len(lengths) + 1) * buckets)
        counts = np.diff(ends)
        weights = _ending_weights(np.repeat(lengths, counts) - 1 - last_places, model.score_ending)
        norms = np.sqrt(np.bincount(np.repeat(np.arange(len(lengths)), counts), np.square(weights), len(lengths)))
        unit_weights = (weights / np.repeat(norms, counts)).astype(np.float32)
        parts.append(csr_matrix((unit_weights, (cells % buckets).astype(np.int32), ends), shape=(len(lengths), buckets)))
    return vstack(parts, format="csr")


def _ending_weights(tokens_after: npt.NDArray[np.int64], ending: int) -> npt.NDArray[np.float64]:
    return 1.0 + np.exp(-tokens_after / ending) if ending else np.ones(len(tokens_after))


def _fit_unit(features: Any, is_class: npt.NDArray[np.bool_]) -> Floats:
    from sklearn.svm import LinearSVC

    if is_class.all() or not is_class.any():
        return np.zeros(features.shape[1], dtype=np.float32)
    ratios = log_count_ratios(features.sign(), is_class)
    scaled = features.multiply(ratios).tocsr().astype(np.float64)
    model = LinearSVC(C=INVERSE_REGULARIZATION, dual=True, tol=1e-3, max_iter=ROUNDS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of digits that have not settled
        model.fit(scaled, is_class)
    scores: Floats = ratios * model.coef_[0].astype(np.float32)
    return scores
