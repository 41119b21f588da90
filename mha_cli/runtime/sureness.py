"""How sure a model is of new texts, compared with held-out ones: by counts, so that memory does not grow with the texts.

Axes: C classes, B bins of the largest probability.
"""

from collections.abc import Sequence

import numpy as np

from mha_cli.arrays import Array, Int64s
from mha_cli.checkpoint.held_out import HeldOut, rounded
from mha_cli.runtime.classifier import Prediction

BINS = 100  # bins of [0, 1]
CENTRES = (np.arange(BINS) + 0.5) / BINS
FALSE_ALARMS = 0.05  # largest probability of a false alarm, by which all tests of new texts decide
LEAST_TEXTS = 1_000  # answers that a warning needs


class Sureness:
    """Counts answers by class and largest probability, and compares them with those of held-out texts.

    Source: Smirnov 1939, one-sided test of two samples. Other shares of the classes are no difference, because each answered class is
    compared by itself and weighted by its new share. The weighted held-out texts count as fewer (Kish 1965, "Survey Sampling", effective
    sample size), and new texts as no more than these, so that their number alone proves nothing.
    """

    def __init__(self, held_out: HeldOut, class_names: Sequence[str]) -> None:
        self._numbers = {name: number for number, name in enumerate(class_names)}
        self.old_CB = self._counts(held_out.probabilities.argmax(axis=1), held_out.probabilities.max(axis=1))
        self.new_CB = np.zeros_like(self.old_CB)

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Count further answers."""
        classes, largest = [self._numbers[one.label] for one in predictions], [one.probability for one in predictions]
        self.new_CB += self._counts(np.array(classes, np.int64), rounded(np.array(largest)))

    def test(self) -> tuple[float, str]:
        """The p-value of lower probabilities, and the shares below the one where they differ most, in words."""
        old_C, new_C = self.old_CB.sum(axis=1), self.new_CB.sum(axis=1)
        both = (old_C > 0) & (new_C > 0)  # a class without held-out answers is left out
        if not both.any():
            return 1.0, ""
        weights = new_C[both] / new_C[both].sum()
        old_B, new_B = (weights / of[both].sum(axis=1) @ of[both].cumsum(axis=1) for of in (self.old_CB, self.new_CB))
        most, num_old = int((new_B - old_B).argmax()), 1 / float((weights**2 / old_C[both]).sum())
        num_new = min(num_old, float(new_C[both].sum()))
        p_value = np.exp(-2 * max(0.0, new_B[most] - old_B[most]) ** 2 * num_old * num_new / (num_old + num_new))
        shares = f"{new_B[most]:.0%} of the probabilities are below {(most + 1) / BINS:.2f}, of held-out texts {old_B[most]:.0%}"
        return float(p_value), shares

    @property
    def warning(self) -> str:
        """A line about many texts of which the model is less sure than of the held-out ones; empty if it is not."""
        p_value, shares = self.test()
        if self.new_CB.sum() < LEAST_TEXTS or p_value > FALSE_ALARMS:
            return ""
        return f"the model is less sure of these texts than of the old ones: {shares}; mha data FILE -c RUN shows what differs"

    def _counts(self, classes: Int64s, largest: Array) -> Int64s:
        bins = classes * BINS + np.minimum(largest * BINS, BINS - 1).astype(np.int64)
        return np.bincount(bins, minlength=len(self._numbers) * BINS).reshape(-1, BINS)
