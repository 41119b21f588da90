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
def test_the_margin_is_how_far_the_encoder_moves_a_text_at_most(units: int) -> None:
    linear, encoder = parts(units)
    rule, moved, answer = fit_linear_alone(linear, encoder), encoder.copy(), with_two(linear + encoder.mean(axis=0))[0].argmax()
    moved[0] += 3.0 * (1 - 2 * answer if units == 1 else -np.eye(units, dtype=np.float32)[answer])
    larger = fit_linear_alone(linear, moved)
    assert rule
    assert larger
    assert larger.margin > rule.margin + 0.5


@pytest.mark.parametrize("units", KINDS)
@pytest.mark.parametrize("num_texts", [249, 400])
def test_beside_a_strong_encoder_it_is_more_than_the_largest_lead_that_was_overcome(units: int, num_texts: int) -> None:
    linear, encoder = parts(units, num_texts)
    encoder += 4.0 * np.sign(linear)  # which agrees but for two texts
    leads = distances(linear + encoder.mean(axis=0))
    answers = with_two(linear + encoder.mean(axis=0)).argmax(axis=1)
    for row, further in ((np.argsort(leads)[num_texts // 2], 1.0), (leads.argmax(), -1.0)):
        encoder[row] = encoder.mean(axis=0)
        encoder[row] += (leads[row] + further) * (1 - 2 * answers[row] if units == 1 else -np.eye(units, dtype=np.float32)[answers[row]])
    rule = fit_linear_alone(linear, encoder)
    assert rule is None if num_texts < 250 else rule and np.sort(leads)[num_texts // 2] < rule.margin < leads.max()


@pytest.mark.parametrize(("num_texts", "spread"), [(99, 4.0), (400, 0.1)])
@pytest.mark.parametrize("units", KINDS)
def test_few_texts_and_a_weak_linear_model_have_none(units: int, num_texts: int, spread: float) -> None:
    assert fit_linear_alone(*parts(units, num_texts, spread)) is None


def test_a_bias_that_comes_later() -> None:
    linear, encoder = parts(5)
    bias, rule = np.arange(5.0, dtype=np.float32), fit_linear_alone(linear, encoder)
    assert rule
    np.testing.assert_allclose(rule.shifted(bias).logits(linear - bias), rule.logits(linear), atol=1e-4)
