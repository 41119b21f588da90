"""Naive-Bayes scores of n-grams: a linear reading of a review, fitted in seconds.

An n-gram's score for a class is its log-count ratio, times the weight that a linear model gives it.

Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", sections 2.1 to 2.3 (NB-SVM).

Axes: N reviews, R buckets.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

SMOOTHING = 1.0
"""Added to the number of reviews that an n-gram stands in."""

INVERSE_REGULARIZATION = 30.0
"""C of the linear model."""

ROUNDS = 10
"""Passes of the solver over all reviews, at most: more sharpen digits that say nothing about other reviews."""

Floats = npt.NDArray[np.float32]


def ngram_scores(features: Any, is_class: npt.NDArray[np.bool_]) -> Floats:
    """Scores of all buckets for a class, (R,); zeros where all reviews are of it, or none.

    One at a time: in several threads the solver's numbers would depend on which is first, since all of them draw from one source of chance.

    Args:
        features: n-grams of the reviews, sparse (N, R), from ``features.ngram_features``.
        is_class: True at the reviews of the class, (N,).
    """
    from scipy.sparse import csr_matrix
    from sklearn.svm import LinearSVC

    if is_class.all() or not is_class.any():
        return np.zeros(features.shape[1], dtype=np.float32)
    ratios = log_count_ratios(features.sign(), is_class)
    scaled = csr_matrix((features.data * ratios[features.indices].astype(np.float64), features.indices, features.indptr), features.shape)
    model = LinearSVC(C=INVERSE_REGULARIZATION, dual=True, tol=1e-3, max_iter=ROUNDS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of digits that have not settled
        model.fit(scaled, is_class)
    return ratios * model.coef_[0].astype(np.float32)


def log_count_ratios(presence: Any, is_class: npt.NDArray[np.bool_]) -> Floats:
    """Of all buckets, (R,): log((p / Σp) / (q / Σq)), with p and q the smoothed numbers of reviews in and out of the class that have it."""
    p = presence.T @ is_class.astype(np.float32) + SMOOTHING
    q = presence.T @ (~is_class).astype(np.float32) + SMOOTHING
    return np.log((p / p.sum()) / (q / q.sum())).astype(np.float32)
