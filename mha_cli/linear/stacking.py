"""Stacking: weights of the encoder's and the linear model's logits, fitted on texts that neither has learnt from.

Both are overconfident on their training texts, the encoder more so. The biases are fitted too: max pooling gives larger values
without dropout, which may favour a class.

Source: Wolpert 1992, "Stacked Generalization"; Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2.1 (a scale
and a shift need few texts).

Axes: N texts, U units of the classifier and of the linear model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax

from mha_cli.arrays import Array, Float64s, Floats
from mha_cli.runtime.metrics import mean_loss_and_accuracy
from mha_cli.sources.targets import Labels, are_several

USUAL_WEIGHTS = (0.2, 0.85)  # mean weights of encoder and linear model over many data sets, the prior for few texts (`docs/experiments.md`)
SPREADS = (0.13, 0.15)  # standard deviations, over kinds of data, of both weights around these
PRETRAINED_WEIGHTS = (0.7, 0.5)  # the same where the encoder is a pretrained one
PRETRAINED_SPREADS = (0.25, 0.25)
SHIFT_SPREAD = 0.2  # the same of a unit's shift around zero
SCALE_SPREAD = 0.5  # the same of the weight of an encoder alone around 1, and of a scale's logarithm around zero
LARGEST_SCALE = 3.0  # bound of a scale's logarithm
MOST_TEXTS = 50_000  # texts that the weights are fitted on; others are left out
CHUNK_TEXTS = 10_000


@dataclass(frozen=True)
class Stack:
    """logits = encoder_weight · encoder's logits + linear_weight · linear logits + bias."""

    encoder_weight: float  # factor of the encoder's logits, one for all units
    linear_weight: float  # factor of the linear model's logits, one for all units
    bias: Floats  # shift of each unit, (U,)

    def logits(self, encoder_logits: Any, linear_logits: Any = 0.0) -> Any:
        """Logits of both together, (N, U)."""
        return self.encoder_weight * encoder_logits + self.linear_weight * linear_logits + self.bias


def fit_stack(
    encoder_logits: Floats, linear_logits: Floats | None, labels: Labels, weights: Floats | None = None, is_pretrained: bool = False
) -> Stack:
    """The most probable weights: those of least cross-entropy, pulled towards the usual weights if there are few texts.

    Args:
        encoder_logits: logits of the encoder alone, (N, U).
        linear_logits: logits of the linear model, (N, U); None for an encoder alone, which gets a scale and a shift.
        labels: class ids, (N,), or the classes that each text has, (N, C), whose cross-entropies are added up.
        weights: how much each text's loss counts, (N,); None for all alike.
        is_pretrained: whether the encoder is a pretrained one, or has learnt from a run; such encoders usually weigh more.
    """
    if len(labels) > MOST_TEXTS:
        rows = np.random.default_rng(0).choice(len(labels), MOST_TEXTS, replace=False)
        encoder_logits, labels = encoder_logits[rows], labels[rows]
        linear_logits = None if linear_logits is None else linear_logits[rows]
        weights = None if weights is None else weights[rows]
    units = encoder_logits.shape[1]
    readers = [encoder_logits] if linear_logits is None else [encoder_logits, linear_logits]
    usual_weights: tuple[float, ...]
    spreads: tuple[float, ...]
    usual_weights, spreads = (PRETRAINED_WEIGHTS, PRETRAINED_SPREADS) if is_pretrained else (USUAL_WEIGHTS, SPREADS)
    if linear_logits is None:
        usual_weights, spreads = (1.0,), (SCALE_SPREAD,)
    usual = np.array([*usual_weights, *[0.0] * units])
    shares = np.full(len(labels), 1.0 / len(labels)) if weights is None else weights.astype(np.float64) / len(labels)
    pull = 0.5 / (np.square([*spreads, *[SHIFT_SPREAD] * units]) * len(labels))  # of normal distributions, an nth for each text

    def loss_and_gradient(x: Float64s) -> tuple[float, Float64s]:
        logits = np.tensordot(x[:-units], readers, axes=1) + x[-units:]
        losses, errors = _losses_and_errors(logits, labels)
        errors *= shares[:, None]
        gradient = np.concatenate([[(errors * reader).sum() for reader in readers], errors.sum(axis=0)])
        loss = float(pull @ np.square(x - usual) + shares @ losses)
        return loss, gradient + 2.0 * pull * (x - usual)

    fitted = minimize(loss_and_gradient, usual, jac=True, method="L-BFGS-B").x
    return Stack(float(fitted[0]), 0.0 if linear_logits is None else float(fitted[1]), fitted[-units:].astype(np.float32))


def answers_alone(linear_logits: Floats, labels: Labels, weights: Floats | None = None, dtype: npt.DTypeLike = np.float32) -> Array:
    """Probabilities of all classes, (N + M, C), by the linear model alone; the first N of its logits, (N + M, U), have labels."""
    of_labelled = linear_logits[: len(labels)]
    stack = fit_stack(np.zeros_like(of_labelled), of_labelled, labels, weights)
    parts = np.array_split(linear_logits, -(-len(linear_logits) // CHUNK_TEXTS))  # so that little memory is taken at once
    return np.concatenate([probabilities_of(stack.logits(0.0, part), are_several(labels)).astype(dtype) for part in parts])


def fit_scale(logits: Floats, labels: Labels, weights: Floats | None = None) -> tuple[float, float]:
    """The most probable factor of logits (N, U), pulled towards 1 if there are few texts, and its loss; ``weights`` are those of the texts.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2 (one number for all classes).
    """
    total = len(labels) if weights is None else float(weights.sum())

    def loss(logarithm: float) -> float:
        pull = 0.5 * (logarithm / SCALE_SPREAD) ** 2 / total  # of a normal distribution, an nth for each text
        probabilities = probabilities_of(np.float32(np.exp(logarithm)) * logits, are_several(labels))
        return pull + mean_loss_and_accuracy(probabilities, labels, weights=weights)[0]

    fitted = minimize_scalar(loss, bounds=(-LARGEST_SCALE, LARGEST_SCALE), method="bounded")
    return float(np.exp(fitted.x)), float(fitted.fun)


def probabilities_of(logits: Floats, several: bool = False) -> Floats:
    """Probabilities of all classes, (N, C), from logits (N, U); with ``several``, each by itself."""
    if several:
        return np.asarray(expit(logits))
    return softmax(_of_classes(logits), axis=1)


def _losses_and_errors(logits: Any, labels: Labels) -> tuple[Any, Any]:
    """Cross-entropy of each text, (N,), and its gradient by the logits, (N, U)."""
    if are_several(labels):
        return -log_expit(np.where(labels, logits, -logits)).sum(axis=1), expit(logits) - labels
    truths, log_probabilities = (np.arange(len(labels)), labels), log_softmax(_of_classes(logits), axis=1)
    errors = np.exp(log_probabilities)
    errors[truths] -= 1.0
    return -log_probabilities[truths], errors[:, -logits.shape[1] :]


def _of_classes(logits: Any) -> Any:
    return np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits
