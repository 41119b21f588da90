"""Naive-Bayes scores against plain Python counts, and the linear model against another optimizer."""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from mha_cli.ngram_scores import naive_bayes
from mha_cli.ngram_scores.naive_bayes import INVERSE_REGULARIZATION, log_count_ratios, ngram_scores

BUCKETS = 23


def random_features(num_reviews: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Few n-grams a review; the first two tell of the class."""
    rng = np.random.default_rng(0)
    is_class = rng.random(num_reviews) < 0.5
    features = np.where(rng.random((num_reviews, BUCKETS)) < 0.2, rng.uniform(0.1, 1, (num_reviews, BUCKETS)), 0).astype(np.float32)
    features[is_class, 0], features[~is_class, 1] = 0.5, 0.5
    return features, is_class


def ratio_by_hand(presence: npt.NDArray[np.bool_], is_class: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    p = [1 + sum(there and of_class for of_class, there in zip(is_class, column, strict=True)) for column in presence.T]
    q = [1 + sum(there and not of_class for of_class, there in zip(is_class, column, strict=True)) for column in presence.T]
    return np.array([math.log((x / sum(p)) / (y / sum(q))) for x, y in zip(p, q, strict=True)])


def scores_by_hand(features: npt.NDArray[np.float64], is_class: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Ratios times the weights that minimize |w|² / 2 + b² / 2 + C Σ max(0, 1 - y (w·x + b))²."""
    ratios = ratio_by_hand(features > 0, is_class)
    x = np.concatenate([features * ratios, np.ones((len(features), 1))], axis=1)
    y = np.where(is_class, 1.0, -1.0)

    def loss(w: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        lacking = np.maximum(0.0, 1.0 - y * (x @ w))
        return float(w @ w / 2 + INVERSE_REGULARIZATION * (lacking**2).sum()), w - 2 * INVERSE_REGULARIZATION * x.T @ (y * lacking)

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-14})
    weights: npt.NDArray[np.float64] = found.x[:-1] * ratios
    return weights


def test_log_count_ratios_are_those_of_the_formula() -> None:
    features, is_class = random_features(17)
    np.testing.assert_allclose(log_count_ratios(csr_matrix(features).sign(), is_class), ratio_by_hand(features > 0, is_class), atol=1e-5)


@pytest.mark.parametrize("wrong", [0, 8])
def test_scores_are_those_of_another_optimizer(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive_bayes, "ROUNDS", 10_000)
    features, is_class = random_features(60)
    is_class[:wrong] = ~is_class[:wrong]  # then no weights separate the classes
    scores = ngram_scores(csr_matrix(features), is_class)
    assert (scores.shape, scores.dtype) == ((BUCKETS,), np.float32)
    expected = scores_by_hand(features.astype(np.float64), is_class)
    np.testing.assert_allclose(scores, expected, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_class_that_all_reviews_or_none_are_of_scores_nothing(everywhere: bool) -> None:
    features, _ = random_features(7)
    np.testing.assert_array_equal(ngram_scores(csr_matrix(features), np.full(7, everywhere)), np.zeros(BUCKETS, np.float32))


def test_the_solver_may_be_stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive_bayes, "ROUNDS", 1)
    features, is_class = random_features(60)
    is_class[::3] = ~is_class[::3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = ngram_scores(csr_matrix(features), is_class)
    assert np.isfinite(scores).all()
    assert scores.any()
