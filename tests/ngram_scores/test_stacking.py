"""Stacked readers against scikit-learn and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from mha_cli.ngram_scores.stacking import RIDGE, fit_stack, logits_of, probabilities_of

Floats = npt.NDArray[np.float32]


def two_readers(num_classes: int, num_reviews: int = 500) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """Logits and scores that both tell a little of the class, in different sizes and with an offset a unit, and the classes."""
    rng = np.random.default_rng(num_classes)
    labels = rng.integers(0, num_classes, num_reviews)
    of_unit = np.eye(num_classes)[labels][:, -1:] if num_classes == 2 else np.eye(num_classes)[labels]
    encoder = 2 * rng.normal(size=of_unit.shape) + 2 * of_unit + rng.normal(size=of_unit.shape[1])
    scores = 20 * (rng.normal(size=of_unit.shape) + of_unit)
    return encoder.astype(np.float32), scores.astype(np.float32), labels.astype(np.int32)


def loss_of(x: npt.NDArray[Any], encoder: Floats, scores: Floats, labels: npt.NDArray[np.int32]) -> float:
    logits = x[0] * encoder.astype(np.float64) + x[1] * scores.astype(np.float64) + x[2:]
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    of_truth = logits[np.arange(len(labels)), labels]
    return float((np.log(np.exp(logits).sum(axis=1)) - of_truth).mean() + RIDGE * (x**2).sum())


def test_one_unit_is_scikit_learns_logistic_regression() -> None:
    encoder, scores, labels = two_readers(2)
    stack = fit_stack(encoder, scores, labels)
    model = LogisticRegression(C=np.inf, tol=1e-8).fit(np.concatenate([encoder, scores], axis=1).astype(np.float64), labels)
    expected = [*model.coef_[0], *model.intercept_]
    assert abs(expected[2]) > 0.5
    np.testing.assert_allclose([stack.encoder_weight, stack.score_weight, *stack.bias], expected, rtol=0.01)  # the ridge is slight


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_the_weights_are_those_of_another_optimizer(num_classes: int) -> None:
    readers = two_readers(num_classes)
    stack = fit_stack(*readers)
    units = readers[0].shape[1]
    found = minimize(loss_of, np.zeros(2 + units), args=readers, method="Powell", options={"xtol": 1e-6, "ftol": 1e-12, "maxiter": 5000}).x
    assert stack.encoder_weight == pytest.approx(found[0], abs=1e-3)
    assert stack.score_weight == pytest.approx(found[1], abs=1e-3)
    np.testing.assert_allclose(stack.bias, found[2:], atol=5e-3)
    assert np.abs(stack.bias).max() > 0.1


def test_a_reader_that_tells_nothing_is_not_listened_to() -> None:
    encoder, scores, labels = two_readers(2)
    noise = np.random.default_rng(0).normal(size=encoder.shape).astype(np.float32)
    assert abs(fit_stack(encoder, noise, labels).score_weight) < 0.3 < fit_stack(encoder, scores / 20, labels).score_weight
    assert abs(fit_stack(noise, scores, labels).encoder_weight) < 0.3 < fit_stack(encoder, scores, labels).encoder_weight


def test_readers_without_a_mistake_get_finite_weights() -> None:
    labels = np.array([0, 1] * 50, np.int32)
    certain = np.where(labels == 1, 16.0, -16.0).astype(np.float32)[:, None]
    stack = fit_stack(certain, 100 * certain, labels)
    assert np.isfinite([stack.encoder_weight, stack.score_weight, *stack.bias]).all()
    assert (stack.logits(certain, 100 * certain)[:, 0] > 0).tolist() == (labels == 1).tolist()


# Logits and probabilities


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_logits_and_probabilities_are_inverse(num_classes: int) -> None:
    probabilities = np.random.default_rng(0).dirichlet(np.ones(num_classes), 50).astype(np.float32)
    logits = logits_of(probabilities)
    assert logits.shape == (50, 1 if num_classes == 2 else num_classes)
    np.testing.assert_allclose(probabilities_of(logits), probabilities, atol=1e-6)


def test_known_logits() -> None:
    np.testing.assert_allclose(logits_of(np.array([[0.5, 0.5], [0.2, 0.8]], np.float32)), [[0.0], [np.log(4)]], atol=1e-6)
    np.testing.assert_allclose(probabilities_of(np.array([[0.0, np.log(2), 0.0]], np.float32)), [[0.25, 0.5, 0.25]], atol=1e-6)


def test_certain_probabilities_have_finite_logits() -> None:
    logits = logits_of(np.array([[0, 1], [1, 0]], np.float32))
    np.testing.assert_allclose(logits, [[np.log(1e7)], [-np.log(1e7)]], rtol=1e-5)
