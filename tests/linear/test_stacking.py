"""Stacked readers, and an encoder alone, against SciPy's other optimizers and finite differences."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from mha_cli.arrays import Array, Float64s, Floats, Int32s
from mha_cli.linear import stacking
from mha_cli.linear.stacking import SCALE_SPREAD, SHIFT_SPREAD, SPREADS, USUAL_WEIGHTS, Stack, fit_scale, fit_stack, probabilities_of


def readers_of(num_classes: int, with_linear: bool, num_texts: int = 500) -> tuple[Floats, Floats | None, Int32s]:
    """Logits of an encoder and a linear model that both tell a little of the class, with an offset for each unit, and the classes."""
    rng = np.random.default_rng(num_classes)
    labels = rng.integers(0, num_classes, num_texts)
    of_unit = np.eye(num_classes)[labels][:, -1:] if num_classes == 2 else np.eye(num_classes)[labels]
    encoder = 2 * rng.normal(size=of_unit.shape) + 2 * of_unit + rng.normal(size=of_unit.shape[1])
    scores = rng.normal(size=of_unit.shape) + of_unit
    return encoder.astype(np.float32), scores.astype(np.float32) if with_linear else None, labels.astype(np.int32)


def loss_of(x: Array, encoder: Floats, scores: Floats | None, labels: Int32s) -> float:
    """Minus the logarithm of how probable the weights are, over the number of texts, up to a constant."""
    logits = x[0] * encoder.astype(np.float64) + x[-encoder.shape[1] :]
    away = [(x[0] - 1) / SCALE_SPREAD, *(x[-encoder.shape[1] :] / SHIFT_SPREAD)]
    if scores is not None:
        logits += x[1] * scores.astype(np.float64)
        away[:1] = [(x[0] - USUAL_WEIGHTS[0]) / SPREADS[0], (x[1] - USUAL_WEIGHTS[1]) / SPREADS[1]]
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    cross_entropy = (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]).sum()
    return float(cross_entropy + np.square(away).sum() / 2) / len(labels)


def weights_of(stack: Stack) -> Float64s:
    return np.array([stack.encoder_weight, stack.linear_weight, *stack.bias])


@pytest.mark.parametrize("num_texts", [5, 500])  # few texts leave the weights near the usual ones, many decide them
@pytest.mark.parametrize("with_linear", [True, False])
@pytest.mark.parametrize("num_classes", [2, 7])
def test_the_weights_are_those_of_another_optimizer(num_classes: int, with_linear: bool, num_texts: int) -> None:
    readers = readers_of(num_classes, with_linear, num_texts)
    start = np.zeros(1 + with_linear + readers[0].shape[1])
    found = minimize(loss_of, start, args=readers, method="Powell", options={"xtol": 1e-6, "ftol": 1e-12, "maxiter": 5000}).x
    weights = weights_of(fit_stack(*readers))
    assert with_linear or weights[1] == 0
    np.testing.assert_allclose(weights if with_linear else np.delete(weights, 1), found, atol=5e-3)


@pytest.mark.parametrize("with_linear", [True, False])
def test_a_part_of_many_texts_decides(with_linear: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    *readers, labels = readers_of(3, with_linear, 4000)
    weights = 1.0 + (labels == 2)
    of_all = weights_of(fit_stack(*readers, labels, weights.astype(np.float32)))
    monkeypatch.setattr(stacking, "MOST_TEXTS", 2000)
    of_part = weights_of(fit_stack(*readers, labels, weights.astype(np.float32)))
    np.testing.assert_allclose(of_part, of_all, atol=0.1)
    assert (of_part != of_all).any()


@pytest.mark.parametrize("with_linear", [True, False])
def test_a_text_that_counts_twice_is_two(with_linear: bool) -> None:
    encoder, scores, labels = readers_of(3, with_linear)
    twice = 1 + (labels == 2)
    repeated = [None if array is None else np.repeat(array, twice, axis=0) for array in (encoder, scores, labels)]
    weighed = weights_of(fit_stack(encoder, scores, labels, twice.astype(np.float32)))
    assert weighed[-1] > weights_of(fit_stack(encoder, scores, labels))[-1] + 0.1
    np.testing.assert_allclose(weighed, weights_of(fit_stack(*repeated)), atol=1e-3)


def test_the_scale_of_a_text_that_counts_twice() -> None:
    encoder, _, labels = readers_of(3, False)
    twice = 1 + (labels == 2)
    repeated = fit_scale(np.repeat(encoder, twice, axis=0), np.repeat(labels, twice))
    assert fit_scale(encoder, labels, twice.astype(np.float32)) == pytest.approx(repeated, abs=1e-5)
    assert fit_scale(encoder, labels) != pytest.approx(repeated, abs=1e-3)


def test_readers_without_a_mistake_get_finite_weights() -> None:
    labels = np.array([0, 1] * 50, np.int32)
    certain = np.where(labels == 1, 16.0, -16.0).astype(np.float32)[:, None]
    stack = fit_stack(certain, 100 * certain, labels)
    assert np.isfinite([stack.encoder_weight, stack.linear_weight, *stack.bias]).all()
    assert (stack.logits(certain, 100 * certain)[:, 0] > 0).tolist() == (labels == 1).tolist()


# Logits and probabilities


def test_known_probabilities() -> None:
    np.testing.assert_allclose(probabilities_of(np.array([[0.0], [np.log(4)]], np.float32)), [[0.5, 0.5], [0.2, 0.8]], atol=1e-6)
    np.testing.assert_allclose(probabilities_of(np.array([[0.0, np.log(2), 0.0]], np.float32)), [[0.25, 0.5, 0.25]], atol=1e-6)
    np.testing.assert_array_equal(probabilities_of(np.array([[1000.0], [-1000.0]], np.float32)), [[0, 1], [1, 0]])


@pytest.mark.parametrize("with_linear", [True, False])
def test_of_several_labels_the_weights_are_those_of_another_optimizer(with_linear: bool) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random((300, 3)) < 0.3
    encoder, scores = ((rng.normal(size=labels.shape) + strength * labels).astype(np.float32) for strength in (2.0, 1.0))

    def loss(x: Float64s) -> float:
        logits = x[0] * encoder + x[-3:] + (x[1] * scores if with_linear else 0.0)
        weights = zip(x[:2], USUAL_WEIGHTS, SPREADS, strict=True) if with_linear else [(x[0], 1.0, SCALE_SPREAD)]
        away = [*((found - usual) / spread for found, usual, spread in weights), *(x[-3:] / SHIFT_SPREAD)]
        p = expit(logits.astype(np.float64))
        return float(-np.log(np.where(labels, p, 1.0 - p)).sum() + np.square(away).sum() / 2) / len(labels)

    found = minimize(loss, np.zeros(4 + with_linear), method="Powell", options={"xtol": 1e-6, "ftol": 1e-12, "maxiter": 5000}).x
    stack = fit_stack(encoder, scores if with_linear else None, labels)
    weights = [stack.encoder_weight, *([stack.linear_weight] if with_linear else []), *stack.bias]
    np.testing.assert_allclose(weights, found, atol=2e-3)
    np.testing.assert_allclose(probabilities_of(encoder, several=True), expit(encoder), atol=1e-6)
