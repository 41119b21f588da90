"""How sure an encoder may be: one temperature, found on held-out reviews, divides its logits, and no answer changes.

Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 9.

Axes: N reviews, U units of the classifier, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mha_cli.ngram_scores.stacking import fit_scale, logits_of, probabilities_of

Floats = npt.NDArray[np.float32]


def fit_temperature(probabilities: Floats, labels: npt.NDArray[np.int32]) -> float:
    """The most probable temperature: of least cross-entropy, but for few reviews near 1.

    Args:
        probabilities: probabilities of the encoder, (N, C).
        labels: class ids, (N,).
    """
    return 1.0 / fit_scale(logits_of(probabilities), labels)[0]


def tempered(probabilities: Floats, temperature: float) -> Floats:
    """Probabilities (N, C) as they are with a temperature."""
    return probabilities_of(logits_of(probabilities) / np.float32(temperature))


def with_temperature(weights: Mapping[str, Floats], temperature: float) -> dict[str, Floats]:
    """The weights of a classifier, by path, whose last layer divides its logits by a temperature."""
    divided = {path: weights[path] / np.float32(temperature) for path in ("classifier/kernel", "classifier/bias")}
    return {**weights, **divided}
