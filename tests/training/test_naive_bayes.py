"""Naive-Bayes scores against plain Python counts, and the linear model against another optimizer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import keras
import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from mha_cli.config import ModelConfig
from mha_cli.layers.scores import review_scores
from mha_cli.training import naive_bayes
from mha_cli.training.naive_bayes import INVERSE_REGULARIZATION, fit_scores, log_count_ratios, ngram_features
from tests.reviews import bucket, encoded, weights_in

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


def settings(max_ngram: int, buckets: int = BUCKETS, ending: int = 0) -> ModelConfig:
    return ModelConfig(score_ngrams=max_ngram, score_buckets=buckets, score_ending=ending)


def fit(
    reviews: Sequence[Sequence[int]],
    labels: Sequence[int] | npt.NDArray[np.int32],
    model: ModelConfig,
    num_classes: int = 2,
    seed: int = 0,
) -> npt.NDArray[np.float32]:
    return fit_scores(encoded(reviews, list(labels)), num_classes, model, seed)


def features_by_hand(reviews: Sequence[Sequence[int]], model: ModelConfig) -> npt.NDArray[np.float64]:
    features = np.zeros((len(reviews), model.score_buckets))
    for row, review in enumerate(reviews):
        weights = weights_in(review, model.score_ngrams, model.score_buckets, model.score_ending)
        for number, weight in weights.items():
            features[row, number] = weight / math.sqrt(sum(w**2 for w in weights.values()))
    return features


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


def totals(reviews: Sequence[Sequence[int]], table: npt.NDArray[np.float32], model: ModelConfig) -> npt.NDArray[np.float32]:
    return np.asarray(ngram_features(encoded(reviews), model) @ table)


# Which n-grams a review holds


@pytest.mark.parametrize("chunk", [1, 3, 8, 2000])
@pytest.mark.parametrize("buckets", [1, 64, BUCKETS, 1_000_003])
@pytest.mark.parametrize(("max_ngram", "ending"), [(1, 0), (2, 3), (4, 50)])
def test_features_are_those_of_python_dictionaries(
    max_ngram: int, ending: int, buckets: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naive_bayes, "CHUNK_REVIEWS", chunk)
    model = settings(max_ngram, buckets, ending)
    features = ngram_features(encoded(REVIEWS), model)
    assert features.shape == (len(REVIEWS), buckets)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features.toarray(), features_by_hand(REVIEWS, model), rtol=1e-6)


@pytest.mark.parametrize("ending", [0, 4])
def test_features_times_a_table_are_what_the_layer_says(ending: int) -> None:
    model = settings(3, 257, ending)
    table = np.random.default_rng(0).normal(size=(257, 2)).astype(np.float32)
    reviews = encoded(REVIEWS)
    of_layer = review_scores(keras.Variable(table), reviews.padded(np.arange(len(reviews))), 3, ending)
    np.testing.assert_allclose(ngram_features(reviews, model) @ table, of_layer, atol=1e-5)


def test_no_ngram_reaches_into_the_next_review() -> None:
    buckets = 1_000_003
    presence = ngram_features(encoded([[7], [2, 3], [4]]), settings(3, buckets))
    across = [bucket(ngram, buckets) for ngram in ([7, 2], [3, 4], [7, 2, 3], [2, 3, 4])]
    assert presence[:, across].nnz == 0
    assert presence.nnz == 4 + 1  # four words, one pair


# Scores


def test_log_count_ratios_are_those_of_the_formula() -> None:
    is_class = np.array([1, 0, 0, 1, 0, 1, 1, 0], bool)
    presence = features_by_hand(REVIEWS, settings(2)) > 0
    features = ngram_features(encoded(REVIEWS), settings(2))
    np.testing.assert_allclose(log_count_ratios(features.sign(), is_class), ratio_by_hand(presence, is_class), atol=1e-5)


@pytest.mark.parametrize("wrong", [0, 8])
def test_scores_are_those_of_another_optimizer(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive_bayes, "ROUNDS", 10_000)
    reviews, labels = random_reviews(60, 2)
    labels[:wrong] = 1 - labels[:wrong]  # then no weights separate the classes
    model = settings(2, ending=5)
    table = fit(reviews, labels, model)
    assert table.shape == (BUCKETS, 1)
    assert table.dtype == np.float32
    expected = scores_by_hand(features_by_hand(reviews, model), labels == 1)
    np.testing.assert_allclose(table[:, 0], expected, atol=0.01 * np.abs(expected).max())


def test_two_classes_are_told_apart() -> None:
    reviews, labels = random_reviews(80, 2)
    model = settings(2, 4096)
    table = fit(reviews, labels, model)
    assert (totals([[2, 31, 32], [33, 3], [31, 2], [3]], table, model)[:, 0] > 0).tolist() == [False, True, False, True]
    assert table[bucket([3], 4096), 0] == table.max() > 0.5


def test_a_unit_a_class_where_there_are_more_than_two() -> None:
    reviews, labels = random_reviews(90, 3)
    model = settings(1)
    table = fit(reviews, labels, model, num_classes=3)
    assert table.shape == (BUCKETS, 3)
    assert totals([[2], [3], [4]], table, model).argmax(axis=1).tolist() == [0, 1, 2]
    for class_id in range(3):
        np.testing.assert_array_equal(table[:, class_id], fit(reviews, labels == class_id, model)[:, 0])


def test_a_class_that_never_occurs_scores_nothing() -> None:
    reviews, labels = random_reviews(40, 2)
    table = fit(reviews, labels, settings(2), num_classes=3)
    assert np.isfinite(table).all()
    assert (table[:, 2] == 0).all()
    assert (table[:, :2] != 0).any(axis=0).all()
    assert (fit(reviews, np.ones(40, np.int32), settings(2)) == 0).all()


def test_of_too_many_reviews_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[EncodedReviews] = []
    read = ngram_features
    monkeypatch.setattr(naive_bayes, "MOST_REVIEWS", 30)
    monkeypatch.setattr(naive_bayes, "ngram_features", lambda reviews, *rest: fitted.append(reviews) or read(reviews, *rest))
    reviews, labels = random_reviews(90, 2)
    model = settings(1)
    first, again, other = (fit(reviews, labels, model, seed=seed) for seed in (1, 1, 2))
    assert [len(part) for part in fitted] == [30, 30, 30]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # The drawn reviews keep their own labels.
    assert ((totals(reviews, first, model)[:, 0] > 0) == labels).mean() > 0.95

    fitted.clear()
    fit(reviews[:30], labels[:30], model, seed=1)
    assert fitted[-1].token_ids[:].tolist() == [token_id for review in reviews[:30] for token_id in review]  # not too many: all, in order
