"""Naive-Bayes scores against plain Python counts, and the linear model against another optimizer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from mha_cli.training import naive_bayes
from mha_cli.training.naive_bayes import INVERSE_REGULARIZATION, fit_scores, log_count_ratios, ngram_presence
from mha_cli.training.preparation import one_hot
from tests.reviews import bucket, buckets_in, encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mha_cli.data.corpus import EncodedReviews

BUCKETS = 101
REVIEWS = [[7, 2, 7, 2, 7, 3], [], [5], [5, 5, 5], [2, 7], [], [3, 1, 4, 1, 5, 9, 2, 6], [7]]


def random_reviews(num_reviews: int, num_classes: int) -> tuple[list[list[int]], npt.NDArray[np.int32]]:
    """Reviews of words 10 to 29, with a word of their class, 2 to 4, somewhere among them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_reviews).astype(np.int32)
    reviews = [rng.integers(10, 30, rng.integers(1, 9)).tolist() for _ in labels]
    for review, label in zip(reviews, labels, strict=True):
        review.insert(int(rng.integers(0, len(review) + 1)), 2 + int(label))
    return reviews, labels


def presence_by_hand(reviews: Sequence[Sequence[int]], max_ngram: int, buckets: int = BUCKETS) -> npt.NDArray[np.float64]:
    presence = np.zeros((len(reviews), buckets))
    for row, review in enumerate(reviews):
        presence[row, sorted(buckets_in(review, max_ngram, buckets))] = 1
    return presence


def ratio_by_hand(presence: npt.NDArray[np.float64], target: Sequence[float]) -> npt.NDArray[np.float64]:
    p = [1 + sum(t for t, there in zip(target, column, strict=True) if there) for column in presence.T]
    q = [1 + sum(1 - t for t, there in zip(target, column, strict=True) if there) for column in presence.T]
    return np.array([math.log((x / sum(p)) / (y / sum(q))) for x, y in zip(p, q, strict=True)])


def scores_by_hand(presence: npt.NDArray[np.float64], target: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Ratios times the weights that minimize |w|² / 2 + b² / 2 + C Σ |2t - 1| log(1 + exp(-y (w·x + b)))."""
    ratios = ratio_by_hand(presence, target.tolist())
    x = np.concatenate([presence * ratios, np.ones((len(presence), 1))], axis=1)
    y, sureness = np.where(target > 0.5, 1.0, -1.0), np.abs(2.0 * target - 1.0)

    def loss(w: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        margins = y * (x @ w)
        slope = -INVERSE_REGULARIZATION * sureness * y / (1 + np.exp(margins))
        return float(w @ w / 2 + INVERSE_REGULARIZATION * (sureness * np.logaddexp(0, -margins)).sum()), w + x.T @ slope

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    weights: npt.NDArray[np.float64] = found.x[:-1] * ratios
    return weights


def totals(reviews: EncodedReviews, scores: npt.NDArray[np.float32], max_ngram: int) -> npt.NDArray[np.float32]:
    return np.asarray(ngram_presence(reviews, max_ngram, len(scores)) @ scores)


# Which n-grams a review holds


@pytest.mark.parametrize("chunk", [1, 3, 8, 2000])
@pytest.mark.parametrize("buckets", [1, 64, BUCKETS, 1_000_003])
@pytest.mark.parametrize("max_ngram", [1, 2, 4])
def test_presence_is_that_of_python_sets(max_ngram: int, buckets: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive_bayes, "CHUNK_REVIEWS", chunk)
    presence = ngram_presence(encoded(REVIEWS), max_ngram, buckets)
    assert presence.shape == (len(REVIEWS), buckets)
    assert presence.dtype == np.float32
    assert set(presence.data.tolist()) == {1.0}
    assert [set(row.indices.tolist()) for row in presence] == [buckets_in(review, max_ngram, buckets) for review in REVIEWS]


def test_no_ngram_reaches_into_the_next_review() -> None:
    buckets = 1_000_003
    presence = ngram_presence(encoded([[7], [2, 3], [4]]), 3, buckets)
    across = [bucket(ngram, buckets) for ngram in ([7, 2], [3, 4], [7, 2, 3], [2, 3, 4])]
    assert presence[:, across].nnz == 0
    assert presence.nnz == 4 + 1  # four words, one pair


# Scores


@pytest.mark.parametrize("soft", [False, True])
def test_log_count_ratios_are_those_of_the_formula(soft: bool) -> None:
    target = np.array([0.9, 0.5, 0.1, 1.0, 0.0, 0.3, 0.8, 0.6] if soft else [1, 0, 0, 1, 0, 1, 1, 0], np.float32)
    presence = presence_by_hand(REVIEWS, 2)
    np.testing.assert_allclose(
        log_count_ratios(ngram_presence(encoded(REVIEWS), 2, BUCKETS), target), ratio_by_hand(presence, target.tolist()), atol=1e-5
    )


@pytest.mark.parametrize("targets", ["hard", "soft"])
def test_scores_are_those_of_another_optimizer(targets: str) -> None:
    reviews, labels = random_reviews(60, 2)
    target = labels.astype(np.float32)
    if targets == "soft":
        target = np.abs(target - np.random.default_rng(1).uniform(0.0, 0.7, 60).astype(np.float32))
    scores = fit_scores(encoded(reviews), np.stack([1 - target, target], axis=1), 2, BUCKETS, seed=0)
    assert scores.shape == (BUCKETS, 1)
    assert scores.dtype == np.float32
    expected = scores_by_hand(presence_by_hand(reviews, 2), target)
    np.testing.assert_allclose(scores[:, 0], expected, atol=0.01 * np.abs(expected).max())


def test_two_classes_are_told_apart() -> None:
    reviews, labels = random_reviews(80, 2)
    scores = fit_scores(encoded(reviews), one_hot(labels, 2), 2, 4096, seed=0)
    unseen = encoded([[2, 31, 32], [33, 3], [31, 2], [3]])
    assert (totals(unseen, scores, 2)[:, 0] > 0).tolist() == [False, True, False, True]
    assert scores[bucket([3], 4096), 0] == scores.max() > 0.5


def test_a_unit_a_class_where_there_are_more_than_two() -> None:
    reviews, labels = random_reviews(90, 3)
    scores = fit_scores(encoded(reviews), one_hot(labels, 3), 1, BUCKETS, seed=0)
    assert scores.shape == (BUCKETS, 3)
    assert totals(encoded([[2], [3], [4]]), scores, 1).argmax(axis=1).tolist() == [0, 1, 2]
    for class_id in range(3):
        of_class = (labels == class_id).astype(np.int32)
        np.testing.assert_array_equal(scores[:, class_id], fit_scores(encoded(reviews), one_hot(of_class, 2), 1, BUCKETS, seed=0)[:, 0])


def test_a_class_that_never_occurs_scores_nothing() -> None:
    reviews, labels = random_reviews(40, 2)
    scores = fit_scores(encoded(reviews), one_hot(labels, 3), 2, BUCKETS, seed=0)
    assert np.isfinite(scores).all()
    assert (scores[:, 2] == 0).all()
    assert (scores[:, :2] != 0).any(axis=0).all()
    assert (fit_scores(encoded(reviews), one_hot(np.ones(40, np.int32), 2), 2, BUCKETS, seed=0) == 0).all()


def test_an_unsure_target_teaches_less() -> None:
    reviews, labels = random_reviews(80, 2)
    sure, unsure, none = (
        np.abs(fit_scores(encoded(reviews), one_hot(labels, 2) * (1 - doubt) + doubt / 2, 1, BUCKETS, seed=0)).max()
        for doubt in (0.0, 0.6, 1.0)
    )
    assert sure > 2 * unsure > 0
    assert none == 0


def test_of_too_many_reviews_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[EncodedReviews] = []
    counted = ngram_presence
    monkeypatch.setattr(naive_bayes, "MOST_REVIEWS", 30)
    monkeypatch.setattr(naive_bayes, "ngram_presence", lambda reviews, *rest: fitted.append(reviews) or counted(reviews, *rest))
    reviews, labels = random_reviews(90, 2)
    first, again, other = (fit_scores(encoded(reviews, labels.tolist()), one_hot(labels, 2), 1, BUCKETS, seed=seed) for seed in (1, 1, 2))
    assert [len(part) for part in fitted] == [30, 30, 30]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # The drawn reviews keep their own targets.
    assert ((totals(encoded(reviews), first, 1)[:, 0] > 0) == labels).mean() > 0.95

    fit_scores(encoded(reviews[:30]), one_hot(labels[:30], 2), 1, BUCKETS, seed=1)
    assert fitted[-1].token_ids[:].tolist() == [token_id for review in reviews[:30] for token_id in review]  # not too many: all, in order
