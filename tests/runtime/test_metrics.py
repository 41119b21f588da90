"""Loss and accuracy by hand."""

import math

import numpy as np
import pytest

from mha_cli.arrays import Array, Float64s, Floats, Int32s
from mha_cli.runtime.metrics import mean_loss_and_accuracy


def random_probabilities(num_texts: int, num_classes: int) -> tuple[Floats, Int32s]:
    """Probabilities of every class, the last text's almost certain and wrong, and true classes."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(num_classes), num_texts)
    probabilities[-1] = [1 - 1e-4 * (num_classes - 1)] + [1e-4] * (num_classes - 1)
    labels = rng.integers(0, num_classes, num_texts)
    labels[-1] = num_classes - 1
    return probabilities.astype(np.float32), labels.astype(np.int32)


def smoothed_cross_entropy(probabilities: Array, labels: Array, label_smoothing: float) -> Float64s:
    """- sum over c of q(c) log p(c), where q = (1 - s) [c is true] + s / C."""
    num_classes = probabilities.shape[1]
    targets = np.eye(num_classes)[labels] * (1 - label_smoothing) + label_smoothing / num_classes
    return -(targets * np.log(probabilities.astype(np.float64))).sum(axis=1)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_mean_loss_and_accuracy_by_hand(num_classes: int) -> None:
    probabilities, labels = random_probabilities(17, num_classes)
    loss, accuracy = mean_loss_and_accuracy(probabilities, labels)
    assert loss == pytest.approx(smoothed_cross_entropy(probabilities, labels, 0.0).mean(), abs=1e-5)
    assert accuracy == np.mean([row.tolist().index(max(row)) == label for row, label in zip(probabilities, labels, strict=True)])


@pytest.mark.parametrize("several", [False, True])
def test_mean_loss_and_accuracy_of_weighted_texts(several: bool) -> None:
    probabilities, labels = random_probabilities(17, 3)
    labels = labels[:, None] == np.arange(3) if several else labels
    times = np.random.default_rng(1).integers(1, 4, 17)
    expected = mean_loss_and_accuracy(np.repeat(probabilities, times, axis=0), np.repeat(labels, times, axis=0))
    assert mean_loss_and_accuracy(probabilities, labels, weights=times.astype(np.float32)) == pytest.approx(expected, abs=1e-6)


def test_a_certain_mistake_has_a_finite_loss() -> None:
    loss, accuracy = mean_loss_and_accuracy(np.array([[1, 0], [0, 1]], dtype=np.float32), np.array([1, 1], dtype=np.int32))
    assert (loss, accuracy) == (pytest.approx(-math.log(1e-7) / 2), 0.5)
