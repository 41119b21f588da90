"""The linear model of a checkpoint answers alone where it is so sure that the encoder could not change the answer.

Axes: N texts, C classes, U units of the logits.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha_cli.arrays import Bools, Floats

NEAREST = 1e-6  # of a threshold to 0 and 1


@dataclass(frozen=True)
class LinearAlone:
    """How sure it has to be, measured on texts that neither of the two has learnt from.

    The shift is what the encoder adds to logits on average. No answer of these texts, given by linear logits plus shift, is changed by the
    encoder if it is further than the margin from any other answer.
    """

    margin: float  # in logits
    scale: float  # of that distance, so that probabilities are as with the encoder
    shift: tuple[float, ...]  # (U,)

    @property
    def is_valid(self) -> bool:
        """Whether all numbers are such as a training gives; a file may hold any."""
        numbers = [self.margin, self.scale, *self.shift]
        return all(type(number) in {int, float} and math.isfinite(number) for number in numbers) and self.margin >= 0 < self.scale

    def shifted(self, by_U: Floats) -> "LinearAlone":
        """The same for linear logits that lack a bias."""
        return replace(self, shift=tuple((np.array(self.shift) + by_U).tolist()))

    def is_sure(self, linear_NU: Floats, thresholds_C: Floats | None) -> Bools:
        """Whether it answers alone, (N,), by the logits of the linear model; ``thresholds_C`` as of ``distances``."""
        return distances(linear_NU + np.array(self.shift, np.float32), thresholds_C) > self.margin

    def logits(self, linear_NU: Floats, thresholds_C: Floats | None) -> Floats:
        """The logits of answers that it gives alone, (N, U)."""
        border, shifted_NU = borders(thresholds_C), linear_NU + np.array(self.shift, np.float32)
        scaled_NU: Floats = border + np.float32(self.scale) * (shifted_NU - border)
        return scaled_NU


def borders(thresholds_C: Floats | None) -> Any:
    """The logits at which the answer to a label changes, (C,); 0 without thresholds."""
    if thresholds_C is None:
        return np.float32(0.0)
    kept = np.clip(thresholds_C, NEAREST, 1.0 - NEAREST)
    return np.log(kept / (1.0 - kept)).astype(np.float32)


def distances(logits_NU: Floats, thresholds_C: Floats | None) -> Floats:
    """How far each answer is from the next other one, (N,); ``thresholds_C`` are those of labels where a text may have several."""
    if thresholds_C is None and logits_NU.shape[1] > 1:
        return np.asarray(np.ptp(np.partition(logits_NU, -2, axis=1)[:, -2:], axis=1))
    return np.asarray(np.abs(logits_NU - borders(thresholds_C)).min(axis=1))
