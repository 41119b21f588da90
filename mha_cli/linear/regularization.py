"""Regularization and scale of the linear model, chosen by cross-validation.

Source: Stone 1974, "Cross-Validatory Choice and Assessment of Statistical Predictions"; the factor: Platt 1999, "Probabilistic Outputs
for Support Vector Machines", section 2.1.

Axes: N texts, R buckets, U units of the logits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mha_cli.linear.features import NgramEmbeddings
from mha_cli.linear.one_vs_rest import Floats, Regularization, fit_one_vs_rest
from mha_cli.linear.stacking import fit_scale

CHOICE_FOLDS = 3
"""Folds of the texts; two are fitted on, and one is held out."""

ENOUGH = 1_000
"""Held-out texts that suffice; further folds are skipped."""

STEP = 3.0
"""Between one C and the next."""

MOST_STEPS = 2
"""Away from the usual C."""

USUAL_SCALE = 3.3
"""Mean scale over many data sets, the prior for few texts (`docs/experiments.md`)."""


class _Judged(NamedTuple):
    loss: float
    regularization: Regularization


def choose_regularization(
    features: Any, labels: npt.NDArray[np.int32], num_classes: int, weights: Floats, seed: int, embeddings: NgramEmbeddings | None = None
) -> Regularization:
    """The regularization of least cross-entropy on texts that a linear model has not learnt from.

    Args:
        features: sparse (N, R), from ``features.text_features``.
        labels: class ids, (N,).
        num_classes: number of classes.
        weights: how much each text's loss counts in fitting, (N,).
        seed: of the order in which the texts of a class are dealt out over the folds.
        embeddings: see ``fit_one_vs_rest``.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    folds = np.empty(len(labels), np.int64)
    folds[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % CHOICE_FOLDS
    held_out = range(min(CHOICE_FOLDS, -(-ENOUGH * CHOICE_FOLDS // len(labels))))
    labels_of_held_out = np.concatenate([labels[folds == fold] for fold in held_out])

    def logits(fold: int, c: float) -> Any:
        own, others = folds == fold, folds != fold
        model = fit_one_vs_rest(features[others], labels[others], num_classes, Regularization(c, USUAL_SCALE), weights[others], embeddings)
        return features[own] @ model.table + model.bias

    def judge(c: float) -> _Judged:
        scale, loss = fit_scale(np.concatenate([logits(fold, c) for fold in held_out]), labels_of_held_out)
        return _Judged(loss, Regularization(c, scale * USUAL_SCALE))

    best = start = judge(usual_c(len(labels)))
    for step in (STEP, 1.0 / STEP):
        for _ in range(MOST_STEPS):
            other = judge(best.regularization.c * step)
            if other.loss >= best.loss:
                break
            best = other
        if best is not start:
            break
    return best.regularization


def usual_c(num_texts: int) -> float:
    """C to start with; with few texts it is larger."""
    return max(1.25, 4_500 / num_texts)
