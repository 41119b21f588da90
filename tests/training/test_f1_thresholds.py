"""Thresholds of labels against a search over all of them."""

import numpy as np
import pytest
from scipy.special import expit, logit

from mha_cli.training.f1_thresholds import COMMON_TEXTS, f1_thresholds


def answers(num_texts: int, num_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random((num_texts, num_labels)) < np.linspace(0.05, 0.5, num_labels)
    return expit(rng.normal(size=labels.shape) + 2.0 * labels - 1.5).astype(np.float32), labels


@pytest.mark.parametrize("seed", [0, 1])
def test_the_thresholds_lie_between_the_best_of_the_label_and_the_best_of_all(seed: int) -> None:
    probabilities, labels = answers(150, 4, seed)

    def best(of_texts: np.ndarray, truth: np.ndarray) -> float:
        ranked = np.sort(of_texts)[::-1]
        right = (truth + of_texts) / 2  # half what is so, half what is likely
        scores = [2 * right[of_texts >= least].sum() / ((of_texts >= least).sum() + right.sum()) for least in ranked]
        number = int(np.argmax(scores))
        return float(ranked[number : number + 2].mean())

    common = best(probabilities.ravel(), labels.ravel())
    found = f1_thresholds(probabilities, labels)
    for own, (of_label, truth) in zip(found, zip(probabilities.T, labels.T, strict=True), strict=True):
        share = truth.sum() / (truth.sum() + COMMON_TEXTS)
        assert own == pytest.approx(expit(share * logit(best(of_label, truth)) + (1 - share) * logit(common)), rel=1e-5)


def test_a_threshold_is_one_half_where_that_gives_the_same_answers() -> None:
    """The common threshold of the first label draws that of the second to 0.05; every one between 0.03 and 0.9 is as good."""
    first, second = np.array([0.04] * 60 + [0.001] * 40), np.array([0.9] * 2 + [0.03] * 98)
    labels = np.stack([first > 0.01, second > 0.5], axis=1)
    found = f1_thresholds(np.stack([first, second], axis=1).astype(np.float32), labels)
    assert (found[0] < 0.05, found[1]) == (True, 0.5)


def test_labels_without_texts_and_certain_answers() -> None:
    probabilities, labels = answers(80, 3, 0)
    labels[:, 0] = False
    found = f1_thresholds(probabilities, labels)
    assert found[0] == pytest.approx(f1_thresholds(probabilities, np.where(labels.any(axis=0), labels, False))[0])
    certain = labels.astype(np.float32)
    assert ((f1_thresholds(certain, labels) > 0) & (f1_thresholds(certain, labels) < 1)).all()


def test_a_text_of_weight_two_is_the_text_twice() -> None:
    probabilities, labels = answers(80, 3, 0)
    times = np.random.default_rng(1).integers(1, 4, 80)
    weighted = f1_thresholds(probabilities, labels, times.astype(np.float32))
    np.testing.assert_allclose(
        weighted, f1_thresholds(np.repeat(probabilities, times, axis=0), np.repeat(labels, times, axis=0)), atol=0.02
    )
    assert np.abs(weighted - f1_thresholds(probabilities, labels)).max() > 0.02
