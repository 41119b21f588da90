"""The probability from which a label is an answer, where a text may have several: the one with the best F1.

Source: Lipton, Elkan and Naryanaswamy 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure".

Axes: N texts, C labels.
"""

from typing import Literal

import numpy as np
from scipy.special import expit, logit

from mha_cli.arrays import Floats
from mha_cli.sources.targets import Labels

Average = Literal["macro", "micro"]

COMMON_TEXTS = {"macro": 5, "micro": 50}
"""Texts of a label from which its own threshold counts as much as the common one, by the F1 wanted (`docs/experiments.md`)."""

NEAREST = 1e-4  # of a threshold to 0 and 1


def f1_thresholds(probabilities: Floats, labels: Labels, weights: Floats | None = None, average: Average = "macro") -> Floats:
    """The threshold of each label, (C,), from probabilities (N, C) of texts that the model has not learnt from, and their labels.

    ``weights``, (N,), is how much each text counts; None for all alike. ``average`` is the mean F1 to be raised.

    Its logit is a mean of two: that with the best F1 of the label, and that with the best F1 of all decisions, which counts more for a
    label with few texts, and for micro F1. Where one half gives a label the same answers, and the best F1, it is one half.
    """
    rights = 0.5 * (labels + probabilities)  # expected to be right: a label of few texts came out as it did by chance as well
    of_texts = np.ones(len(labels), np.float32) if weights is None else weights
    of_labels = zip(probabilities.T, rights.T, strict=True)
    all_together = probabilities.ravel(), rights.ravel(), np.repeat(of_texts, labels.shape[1])
    gaps = np.array([_best_gap(*all_together), *(_best_gap(*of_label, of_texts) for of_label in of_labels)])
    common, *own = logit(np.clip(gaps.mean(axis=1), NEAREST, 1 - NEAREST))
    num_texts, common_texts = of_texts @ labels, COMMON_TEXTS[average]
    mixed = expit((num_texts * own + common_texts * common) / (num_texts + common_texts))
    lower, upper = gaps[1:].T
    return np.where((np.minimum(mixed, 0.5) > lower) & (np.maximum(mixed, 0.5) < upper), 0.5, mixed).astype(np.float32)


def _best_gap(probabilities: Floats, rights: Floats, weights: Floats) -> tuple[float, float]:
    """The probabilities of the next text and of the last answer, if as many are answers as give the best F1."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, weights = probabilities[order], weights[order].astype(np.float64)
    num_right, num_answers = np.cumsum(weights * rights[order]), np.cumsum(weights)
    best = int((num_right / (num_answers + num_right[-1])).argmax())
    return float(ranked[best : best + 2][-1]), float(ranked[best])
