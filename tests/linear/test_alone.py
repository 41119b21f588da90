"""The rule by which the linear model answers alone, on logits of every kind."""

import numpy as np
import pytest
from scipy.special import softmax

from mha_cli.arrays import Floats
from mha_cli.checkpoint.linear_alone import distances
from mha_cli.linear.alone import fit_linear_alone

KINDS = [1, 5]  # units of the logits: of two classes, and of five


def parts(units: int, num_texts: int = 400, spread: float = 4.0) -> tuple[Floats, Floats]:
    """What a linear model and an encoder add to logits, which agree a little."""
    rng = np.random.default_rng(0)
    linear = (spread * rng.normal(size=(num_texts, units))).astype(np.float32)
    return linear, (0.1 * linear + 0.5 * rng.normal(size=linear.shape) + np.arange(units)).astype(np.float32)


def with_two(logits: Floats) -> Floats:
    """Logits of both of two classes."""
    return np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits


@pytest.mark.parametrize("units", KINDS)
def test_no_answer_changes_and_probabilities_stay(units: int) -> None:
    linear, encoder = parts(units)
    rule = fit_linear_alone(linear, encoder)
    assert rule
    is_sure = rule.is_sure(linear)
    assert 0.2 <= is_sure.mean() < 1
    alone, together = with_two(rule.logits(linear)[is_sure]), with_two((linear + encoder)[is_sure])
    assert (alone.argmax(axis=1) == together.argmax(axis=1)).all()
    given, wanted = softmax(alone, axis=1), softmax(together, axis=1)
    np.testing.assert_allclose(given.max(axis=1).mean(), wanted.max(axis=1).mean(), atol=0.01)
    assert np.abs(given - wanted).mean() < 0.05


@pytest.mark.parametrize("units", KINDS)
@pytest.mark.parametrize("further", [-1.0, 1.0])
def test_a_lead_that_the_encoder_overcomes_is_within_the_margin(units: int, further: float) -> None:
    linear, encoder = parts(units)
    rule, shifted = fit_linear_alone(linear, encoder), linear + encoder.mean(axis=0)
    assert rule
    row = np.argsort(distances(shifted))[-40]  # one of the surest answers
    moved, lead, answer = encoder.copy(), distances(shifted)[row], with_two(shifted)[row].argmax()
    moved[row] = encoder.mean(axis=0) + (lead + further) * (1 - 2 * answer if units == 1 else -np.eye(units, dtype=np.float32)[answer])
    larger = fit_linear_alone(linear, moved)
    assert rule.margin < lead
    assert larger is None if further > 0 else larger and larger.margin < lead


@pytest.mark.parametrize(("num_texts", "spread"), [(249, 4.0), (400, 0.1)])
@pytest.mark.parametrize("units", KINDS)
def test_few_texts_and_a_weak_linear_model_have_none(units: int, num_texts: int, spread: float) -> None:
    assert fit_linear_alone(*parts(units, num_texts, spread)) is None


def test_a_bias_that_comes_later() -> None:
    linear, encoder = parts(5)
    bias, rule = np.arange(5.0, dtype=np.float32), fit_linear_alone(linear, encoder)
    assert rule
    np.testing.assert_allclose(rule.shifted(bias).logits(linear - bias), rule.logits(linear), atol=1e-4)
