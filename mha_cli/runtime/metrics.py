"""How wrong answers are.

Axes: N texts, C classes.
"""

import numpy as np

from mha_cli.arrays import Bools, Float64s, Floats, Int32s, Int64s
from mha_cli.sources.targets import Labels, are_several, class_sizes

CALIBRATION_BINS = 15


def mean_loss_and_accuracy(
    probabilities: Floats, labels: Labels, thresholds: float | Floats = 0.5, weights: Floats | None = None
) -> tuple[float, float]:
    """Mean cross-entropy in nats and accuracy in [0, 1] of probabilities (N, C), by class ids (N,) or the classes of each text, (N, C).

    Where texts may have several labels, the cross-entropy is the mean over the labels, and an answer is right with exactly its labels.
    ``weights``, (N,), are how much the texts count; None for all alike.
    """
    certain = probabilities.astype(np.float64)
    of_truth = np.where(labels, certain, 1.0 - certain) if are_several(labels) else certain[np.arange(len(labels)), labels]
    losses, right = -np.log(np.clip(of_truth, 1e-7, 1.0)), are_right(probabilities, labels, thresholds)
    if weights is not None:
        losses = losses if losses.ndim == 1 else losses.mean(axis=1)
        return float(np.average(losses, weights=weights)), float(np.average(right, weights=weights))
    return float(losses.mean()), float(right.mean())


def answers_among(probabilities: Floats, is_multi_label: bool, thresholds: float | Floats = 0.5) -> Labels:
    """The most probable class, (N,), or of several labels those that reach their thresholds, (N, C)."""
    return np.asarray(probabilities >= thresholds if is_multi_label else probabilities.argmax(axis=1))


def are_right(probabilities: Floats, labels: Labels, thresholds: float | Floats = 0.5) -> Bools:
    """Whether each answer is right, (N,): the most probable class, or exactly the labels that reach their thresholds, (C,)."""
    return equal(answers_among(probabilities, are_several(labels), thresholds), labels)


def equal(answers: Labels, others: Labels) -> Bools:
    """Which texts have the same class, or exactly the same labels, (N,)."""
    same = answers == others
    return np.asarray(same.all(axis=1) if are_several(answers) else same)


def class_counts(labels: Labels, predicted: Labels, num_classes: int) -> list[Int64s]:
    """Texts of every class, (C,): those that are classified rightly, all of them, and those that are classified as it."""
    right = labels & predicted if are_several(labels) else labels[labels == predicted]
    return [class_sizes(given, num_classes) for given in (right, labels, predicted)]


def shares(parts: Int64s, wholes: Int64s) -> Float64s:
    """Parts by their wholes; NaN where a whole is 0."""
    return np.asarray(np.divide(parts, wholes, out=np.full(parts.shape, np.nan), where=wholes > 0))


def f1_scores(right: Int64s, of_class: Int64s, predicted: Int64s) -> Float64s:
    """F1 in [0, 1] from what ``class_counts`` gives; NaN for a class that neither occurs nor is predicted."""
    return shares(2 * right, of_class + predicted)


def confidence_bins(probabilities: Floats, labels: Int32s) -> Float64s:
    """The answers in ``CALIBRATION_BINS`` equal bins of their probability, from 0 to 1: what a reliability diagram shows.

    Returns:
        Answers, their mean probability and the share of right ones, each (bins,); 0 where there are none.
    """
    confidence = probabilities.max(axis=1).astype(np.float64)
    correct = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    counts, *sums = (np.bincount(bins, weights, CALIBRATION_BINS) for weights in (None, confidence, correct))
    return np.stack([counts, *(total / np.maximum(counts, 1) for total in sums)])


def calibration_error(probabilities: Floats, labels: Int32s) -> float:
    """Mean gap between confidence and accuracy over equal bins of confidence, weighted by their texts, in [0, 1].

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3.
    """
    counts, confidence, accuracy = confidence_bins(probabilities, labels)
    return float(counts @ np.abs(confidence - accuracy) / len(labels))
