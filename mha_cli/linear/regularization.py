"""How strongly n-gram scores are fitted, and how many nats they are worth: what the reviews of other folds say decides both.

Source: Stone 1974, "Cross-Validatory Choice and Assessment of Statistical Predictions"; the factor: Platt 1999, "Probabilistic Outputs
for Support Vector Machines", section 2.1.

Axes: N reviews, R buckets, U units of a score.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mha_cli.linear.features import NgramVectors
from mha_cli.linear.one_vs_rest import Floats, Strength, fit_linear_model
from mha_cli.linear.stacking import fit_scale

FOLDS = 3
"""Parts of the reviews; two teach and one is scored."""

ENOUGH = 1_000
"""Reviews that decide; more folds than hold as many are not scored."""

STEP = 3.0
"""Between one C and the next."""

MOST_STEPS = 2
"""Away from the usual C."""

USUAL_NATS = 3.3
"""What a margin of 1 is worth on the mean over kinds of data, which is what few reviews are held against (`docs/experiments.md`)."""


class _Judged(NamedTuple):
    loss: float
    strength: Strength


def choose_strength(
    features: Any, labels: npt.NDArray[np.int32], num_classes: int, weights: Floats, seed: int, vectors: NgramVectors | None = None
) -> Strength:
    """The strength of least cross-entropy on reviews that a linear model has not learnt from.

    Args:
        features: sparse (N, R), from ``features.text_features``.
        labels: class ids, (N,).
        num_classes: number of classes.
        weights: how much each review's loss counts in fitting, (N,).
        seed: of the order in which the reviews of a class are dealt out over the folds.
        vectors: see ``linear.fit_linear_model``.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    folds = np.empty(len(labels), np.int64)
    folds[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % FOLDS
    scored = range(min(FOLDS, -(-ENOUGH * FOLDS // len(labels))))
    labels_of_scored = np.concatenate([labels[folds == fold] for fold in scored])

    def scores(fold: int, c: float) -> Any:
        own, others = folds == fold, folds != fold
        model = fit_linear_model(features[others], labels[others], num_classes, Strength(c, USUAL_NATS), weights[others], vectors)
        return features[own] @ model.table + model.bias

    def judge(c: float) -> _Judged:
        scale, loss = fit_scale(np.concatenate([scores(fold, c) for fold in scored]), labels_of_scored)
        return _Judged(loss, Strength(c, scale * USUAL_NATS))

    best = start = judge(usual_c(len(labels)))
    for step in (STEP, 1.0 / STEP):
        for _ in range(MOST_STEPS):
            other = judge(best.strength.c * step)
            if other.loss >= best.loss:
                break
            best = other
        if best is not start:
            break
    return best.strength


def usual_c(num_texts: int) -> float:
    """C where to begin: of few reviews, each counts for more."""
    return max(1.25, 4_500 / num_texts)
