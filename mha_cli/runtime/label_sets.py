"""Sets of labels that hold the right one for a stated share of texts: split conformal prediction on the held-out texts.

A class is in the set of a text if its probability reaches a threshold. The threshold is a quantile of the probabilities of the right
classes of held-out texts. So the promise holds for new texts of the same kind, however good or bad the model is.

Source: Papadopoulos, Proedrou, Vovk and Gammerman 2002, "Inductive Confidence Machines for Regression"; Sadinle, Lei and Wasserman 2019,
"Least Ambiguous Set-Valued Classifiers with Bounded Error Levels", section 2 (the smallest sets, and thresholds by class).

Axes: N texts, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Bools, Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import held_out_of, lowest_kept, rounded
from mha_cli.errors import MhaError, plural

FAR = 3.0  # standard deviations between the misses of a class and those that are asked for, from which it gets its own threshold
LEAST_MISSES = 5  # that are asked for among the held-out texts of such a class


@dataclass(frozen=True)
class LabelSets:
    """The rule that gives a text its set of labels."""

    coverage: float  # share of texts whose set holds the right label, in (0, 1)
    thresholds: Floats  # probability from which a class is in the set, (C,)

    def members(self, probabilities: Floats) -> Bools:
        """Which classes are in the set of each text, (N, C); the most probable class always is."""
        found = rounded(probabilities) >= self.thresholds
        found[np.arange(len(found)), probabilities.argmax(axis=1)] = True
        return np.asarray(found)

    def labels(self, by_class: dict[str, float]) -> list[str]:
        """The set of a text from the probabilities of all classes, the most probable label first."""
        (found,) = self.members(np.array([[*by_class.values()]], np.float32))
        return sorted((name for name, is_in in zip(by_class, found, strict=True) if is_in), key=lambda name: -by_class[name])


def fit_label_sets(checkpoint: Checkpoint, coverage: float) -> LabelSets:
    """The rule for a coverage; a class whose held-out texts are missed far more or less often than asked gets its own threshold."""
    if not 0 < coverage < 1:
        raise MhaError(f"a coverage of {coverage:g}: not between 0 and 1", "give the share of texts to cover, such as 0.9")
    held_out = held_out_of(checkpoint)
    if checkpoint.config.is_multi_label:
        raise MhaError("--coverage: the model gives several labels per text, and a set holds one right label", "leave --coverage out")
    probabilities, labels, missed = held_out.probabilities, held_out.labels, 1 - coverage
    right, least = probabilities[np.arange(len(labels)), labels], math.ceil(1 / missed - 1e-9) - 1
    if len(right) < least:
        problem, most = f"--coverage {coverage:g} needs {plural(least, 'held-out text')}", math.floor(1000 - 1000 / (len(right) + 1)) / 1000
        hint = f"ask for at most {most:g}, or name more labelled texts with --data FILE"
        raise MhaError(f"{problem}, and the model has {len(right):,}", hint)
    threshold, sizes = lowest_kept(right, missed), np.bincount(labels, minlength=probabilities.shape[1])
    misses = np.bincount(labels, right < threshold, len(sizes))
    is_far = np.abs(misses - missed * sizes) > FAR * np.sqrt(missed * coverage * sizes)
    own = np.flatnonzero(is_far & (missed * sizes >= LEAST_MISSES))
    rest = right[~np.isin(labels, own)]
    thresholds = np.full(len(sizes), lowest_kept(rest, missed) if len(rest) >= least else threshold)
    for label in own:
        thresholds[label] = lowest_kept(right[labels == label], missed)
    return LabelSets(coverage, thresholds)
