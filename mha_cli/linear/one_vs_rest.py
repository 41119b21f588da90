"""The linear model that n-gram scores come from: one against the rest, by support vectors, on features weighed by what they tell.

On request it reads the sum of a text's n-gram vectors beside them. A score of that sum is the sum of the scores of the vectors, so that
one table holds both.

A feature's weight is its inverse document frequency times the square root of how far its log-odds ratio lies from zero, as the root
mean square over the classes, weighted by their reviews. One matrix serves all classes, so that many of them cost no more than the solver
takes.

Source: Spärck Jones 1972, "A Statistical Interpretation of Term Specificity and Its Application in Retrieval"; Monroe, Colaresi and Quinn
2008, "Fightin' Words: Lexical Feature Selection and Evaluation for Identifying the Content of Political Conflict", eq. 15 (the ratio, with
a prior); weighing features by such ratios is NB-SVM's idea (Wang and Manning 2012, "Baselines and Bigrams", section 2.3).

Axes: N reviews, R buckets, F buckets that occur, C classes, U units of a score, D width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, hstack
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from mha_cli.config.parameters import num_outputs
from mha_cli.linear.features import NgramVectors
from mha_cli.system.processor import available_cores

TOLERANCE = 1e-2
"""Where the solver stops: more sharpen digits that say nothing about other reviews."""

FOLDS = 5
"""Parts of the reviews, each to be scored by what the other parts taught."""

Floats = npt.NDArray[np.float32]


class LinearModel(NamedTuple):
    """What is added up for a review.

    Args:
        table: scores of the buckets, (R, U); a unit stands for a class, or for the second of two classes.
        bias: what a review without a feature scores, (U,).
    """

    table: Floats
    bias: Floats


class Strength(NamedTuple):
    """How a linear model is fitted and read; ``strength.choose_strength`` finds it.

    Args:
        c: how much a review's error counts beside small scores, for reviews whose root mean square length is 1.
        nats: what the solver's margin of 1 is worth as a logit.
    """

    c: float
    nats: float


def fit_linear_model(
    features: Any,
    labels: npt.NDArray[np.int32],
    num_classes: int,
    strength: Strength,
    weights: Floats | None = None,
    vectors: NgramVectors | None = None,
) -> LinearModel:
    """A linear model of every class; the margin alone for a class that no review is of, or all, and zeros where no review has a feature.

    Each class is fitted by itself, as many at a time as there are cores, by a solver that leaves nothing to chance.

    Args:
        features: sparse (N, R), from ``features.text_features``.
        labels: class ids, (N,).
        num_classes: number of classes, C.
        strength: of the regularization, and of what comes out.
        weights: how much each review's loss counts, (N,); None for all alike.
        vectors: vectors of n-grams whose sum over a review is read, too.
    """
    occurring, columns = np.unique(features.indices, return_inverse=True)
    compact = csr_matrix((features.data, columns, features.indptr), (len(labels), len(occurring)))
    scale_F = feature_weights(compact, labels, num_classes)
    weighed = csr_matrix((compact.data * scale_F[columns], columns, features.indptr), compact.shape)
    rms = float(np.sqrt(np.square(weighed.data).sum() / len(labels))) or 1.0
    weighed.data /= rms
    sums_ND = np.zeros((len(labels), 0)) if vectors is None else compact @ vectors.of(occurring)
    mean_D = sums_ND.mean(axis=0)
    spread = float(np.sqrt(np.square(sums_ND - mean_D).sum() / len(labels))) or 1.0
    read = weighed if vectors is None else hstack([weighed, csr_matrix((sums_ND - mean_D) / spread)], format="csr")

    def fit(class_id: int) -> tuple[Any, Any, float]:
        is_class = labels == class_id
        if not len(occurring):
            return 0.0, 0.0 * mean_D, 0.0
        if is_class.all() or not is_class.any():
            return 0.0, 0.0 * mean_D, 1.0 if is_class.all() else -1.0
        model = LinearSVC(C=strength.c, dual=False, tol=TOLERANCE).fit(read, is_class, weights)
        scores_F, direction_D = np.split(model.coef_[0], [len(occurring)])
        return scores_F * scale_F / rms, direction_D / spread, float(model.intercept_[0])

    units = num_outputs(num_classes)
    table, bias = np.zeros((features.shape[1], units), np.float32), np.zeros(units, np.float32)
    with threadpool_limits(1), ThreadPoolExecutor(available_cores()) as pool:  # the cores are taken
        for unit, (scores_F, direction_D, shift) in enumerate(pool.map(fit, [1] if units == 1 else range(units))):
            table[occurring, unit], bias[unit] = strength.nats * scores_F, strength.nats * (shift - mean_D @ direction_D)
            if vectors is not None:
                table[vectors.buckets, unit] += strength.nats * (vectors.vectors @ direction_D)
    return LinearModel(table, bias)


def cross_fitted(
    features: Any,
    labels: npt.NDArray[np.int32],
    num_classes: int,
    strength: Strength,
    weights: Floats,
    folds: npt.NDArray[np.int64],
    log: Callable[[str], None],
    vectors: NgramVectors | None = None,
) -> Iterator[tuple[npt.NDArray[np.bool_], LinearModel]]:
    """Which reviews are in a fold, (N,), and the linear model of all others; fold by fold.

    Args:
        features: sparse (N, R), from ``features.text_features``.
        labels: class ids, (N,).
        num_classes: number of classes.
        strength: see ``fit_linear_model``.
        weights: how much each review's loss counts, (N,).
        folds: fold of each review, below ``FOLDS``, (N,).
        vectors: see ``fit_linear_model``.
    """
    for fold in range(FOLDS):
        log(f"fitting n-gram scores without fold {fold + 1} of {FOLDS}")
        own, others = folds == fold, folds != fold
        yield own, fit_linear_model(features[others], labels[others], num_classes, strength, weights[others], vectors)


def feature_weights(features: Any, labels: npt.NDArray[np.int32], num_classes: int) -> npt.NDArray[np.float64]:
    """How much each feature is made to count, (F,), for features (N, F) of which each occurs."""
    presence = features.sign().T.tocsr()
    found_F = np.asarray(presence.sum(axis=1)).ravel()
    squares_F = np.zeros(len(found_F))
    for class_id in np.unique(labels):
        is_class = labels == class_id
        within_F = presence @ is_class.astype(np.float64)
        squares_F += is_class.mean() * np.square(log_odds_ratios(within_F, found_F, is_class.mean(), num_classes))
    frequency_F = np.log((1.0 + len(labels)) / (1.0 + found_F)) + 1.0
    weights: npt.NDArray[np.float64] = frequency_F * squares_F**0.25
    return weights


def log_odds_ratios(within_F: Any, found_F: Any, share: float, prior: float) -> npt.NDArray[np.float64]:
    """Of all features the log of the odds of a class among reviews that have it over those among all reviews, (F,).

    Args:
        within_F: reviews of the class that have the feature.
        found_F: reviews that have it.
        share: part of all reviews that are of the class, above 0; zeros come back for 1.
        prior: reviews of the usual mix of classes that are added to those that have the feature.
    """
    if share == 1.0:
        return np.zeros(len(found_F))
    p_F, q_F = within_F + prior * share, found_F - within_F + prior * (1.0 - share)
    ratios: npt.NDArray[np.float64] = np.log(p_F / q_F) - np.log(share / (1.0 - share))
    return ratios
