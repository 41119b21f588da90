"""The threshold of each label's probability that gives the best F1, for texts that may have several labels.

Source: Lipton, Elkan and Naryanaswamy 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure".

Axes: N texts, C labels.
"""

import numpy as np
from scipy.special import expit, logit

from mha_cli.arrays import Floats
from mha_cli.sources.targets import Labels

COMMON_TEXTS = 5  # number of a label's texts at which its own threshold and the common one count alike (`docs/experiments.md`)
MARGIN = 1e-4  # least distance of a threshold from 0 and 1


def f1_thresholds(probabilities: Floats, labels: Labels, weights: Floats | None = None) -> Floats:
    """The threshold of each label, (C,), from out-of-sample probabilities (N, C) and labels.

    The logit of a threshold is a mean of two: of the threshold with the label's best F1, and of the threshold with the best F1 of all
    labels together. The common one counts more for a label with few texts. A threshold is one half if that selects the
    same texts as the best F1.

    Args:
        weights: weight of each text, (N,); None for equal weights.
    """
    rights = 0.5 * (labels + probabilities)  # smoothed labels, since the labels of few texts are partly chance
    weights = np.ones(len(labels), np.float32) if weights is None else weights
    gap = _best_gap(probabilities.ravel(), rights.ravel(), np.repeat(weights, labels.shape[1]))
    label_gaps = [_best_gap(*columns, weights) for columns in zip(probabilities.T, rights.T, strict=True)]
    common, *by_label = logit(np.clip(np.mean([gap, *label_gaps], axis=1), MARGIN, 1 - MARGIN))
    num_texts = weights @ labels
    mixed = expit((num_texts * by_label + COMMON_TEXTS * common) / (num_texts + COMMON_TEXTS))
    lower, upper = np.transpose(label_gaps)
    return np.where((np.minimum(mixed, 0.5) > lower) & (np.maximum(mixed, 0.5) < upper), 0.5, mixed).astype(np.float32)


def _best_gap(probabilities: Floats, rights: Floats, weights: Floats) -> tuple[float, float]:
    """The two probabilities between which a threshold gives the best F1, the lower one first."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, weights = probabilities[order], weights[order].astype(np.float64)
    num_right, num_selected = np.cumsum(weights * rights[order]), np.cumsum(weights)
    best = int((num_right / (num_selected + num_right[-1])).argmax())
    return float(ranked[best : best + 2][-1]), float(ranked[best])
