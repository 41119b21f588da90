"""Two readers of a review, one answer: how much encoder and n-gram scores each count, found on reviews that neither has learnt from.

On reviews that they have learnt from, both look better than they are, the encoder more so: the loss there cannot tell how far to
trust them.

Source: Wolpert 1992, "Stacked Generalization"; Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2.1 (a scale
and a shift need few reviews).

Axes: N reviews, U units of the classifier, which are also the units of a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RIDGE = 1e-4
"""Pull of the weights towards zero, so that they stay finite where a reader makes no mistake."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Stack:
    """logits = encoder_weight · encoder's logits + score_weight · scores + bias.

    Args:
        encoder_weight: factor of the encoder's logits, one for all units.
        score_weight: factor of the scores, one for all units.
        bias: shift of each unit, (U,).
    """

    encoder_weight: float
    score_weight: float
    bias: Floats

    def logits(self, encoder_logits: Any, scores: Any) -> Any:
        """Logits of both together, (N, U)."""
        return self.encoder_weight * encoder_logits + self.score_weight * scores + self.bias


def fit_stack(encoder_logits: Floats, scores: Floats, labels: npt.NDArray[np.int32]) -> Stack:
    """The weights of least cross-entropy.

    Args:
        encoder_logits: logits of the encoder alone, (N, U).
        scores: n-gram scores, (N, U).
        labels: class ids, (N,).
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    def loss(x: npt.NDArray[np.float64]) -> float:
        log_probabilities = log_softmax(_of_classes(x[0] * encoder_logits + x[1] * scores + x[2:]), axis=1)
        return RIDGE * float(np.square(x).sum()) - float(log_probabilities[np.arange(len(labels)), labels].mean())

    found = minimize(loss, np.concatenate([[1.0, 1.0], np.zeros(encoder_logits.shape[1])]), method="BFGS").x
    return Stack(float(found[0]), float(found[1]), found[2:].astype(np.float32))


def logits_of(probabilities: Floats) -> Floats:
    """Logits (N, U) that have these probabilities, (N, C)."""
    logarithms = np.log(np.maximum(probabilities, np.float32(1e-7)))
    return logarithms[:, 1:] - logarithms[:, :1] if probabilities.shape[1] == 2 else logarithms


def probabilities_of(logits: Floats) -> Floats:
    """Probabilities of all classes, (N, C), from logits (N, U)."""
    from scipy.special import softmax

    return softmax(_of_classes(logits), axis=1)


def _of_classes(logits: Any) -> Any:
    return np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits
