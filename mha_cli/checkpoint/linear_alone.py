"""The linear model of a checkpoint answers alone where it is so sure that the encoder could not change the answer.

Axes: N texts, U units of the logits.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from mha_cli.arrays import Bools, Floats


@dataclass(frozen=True)
class LinearAlone:
    """How sure it has to be, measured on texts that neither of the two has learnt from.

    The shift is what the encoder adds to the logits on average. Of the answers to these texts by linear logits plus shift, the encoder
    changes none that is further than the margin from another answer.
    """

    margin: float  # in logits
    scale: float  # of the logits, so that probabilities are as with the encoder
    shift: tuple[float, ...]  # (U,)

    @property
    def is_valid(self) -> bool:
        """Whether all numbers are such as a training gives; a file may hold any."""
        numbers = [self.margin, self.scale, *self.shift]
        return all(type(number) in {int, float} and math.isfinite(number) for number in numbers) and self.margin >= 0 < self.scale

    def shifted(self, by_U: Floats) -> "LinearAlone":
        """The same for linear logits that lack a bias."""
        return replace(self, shift=tuple((np.array(self.shift) + by_U).tolist()))

    def is_sure(self, linear_NU: Floats) -> Bools:
        """Whether it answers alone, (N,), by the logits of the linear model."""
        logits_NU = linear_NU + np.array(self.shift, np.float32)
        return np.asarray(distances(logits_NU) > self.margin)

    def logits(self, linear_NU: Floats) -> Floats:
        """The logits of answers that it gives alone, (N, U)."""
        return np.asarray(np.float32(self.scale) * (linear_NU + np.array(self.shift, np.float32)))


def distances(logits_NU: Floats) -> Floats:
    """How far each answer is from the next other one, (N,)."""
    if logits_NU.shape[1] == 1:
        return np.asarray(np.abs(logits_NU[:, 0]))
    return np.asarray(np.ptp(np.partition(logits_NU, -2, axis=1)[:, -2:], axis=1))
