"""The model beside a labelling, a last layer on features that do not change, and how good it is with the labels so far and a hundred more.

Texts that were chosen for being hard tell nothing about the others: they are only learnt from. Each random text is answered by a model
that has learnt the labels outside its fold: all of them, or for the learning curve the first ones.

Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference" (the interval); Figueroa et al. 2012,
"Predicting sample size required for classification performance" (an inverse power law as learning curve).

Axes: N texts, D features, C classes, U units of the logits, R labelled texts that were drawn at random, S sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from mha_cli.arrays import Array, Bools, Floats
from mha_cli.linear.last_layer import fit_last_layer
from mha_cli.linear.stacking import probabilities_of
from mha_cli.runtime.intervals import interval, wilson_interval
from mha_cli.runtime.metrics import are_right
from mha_cli.sources.targets import Labels, are_several

FOLDS = 5
SIZES = 5  # of the learning curve: a fifth of the labels, two fifths …
LEAST_TEXTS, LEAST_TO_PREDICT = 10, 20  # random texts below which no accuracy is given, and no prediction
MORE = 100  # labels of the prediction
DRAWS = 100  # of the random texts, for the interval of the prediction


class Model(NamedTuple):
    """A fitted last layer."""

    kernel_DU: Floats
    bias_U: Floats
    several: bool  # whether a text may have several labels

    def probabilities(self, features_ND: Any) -> Floats:
        """Probabilities of all classes, (N, C)."""
        return probabilities_of(np.asarray(features_ND @ self.kernel_DU + self.bias_U), self.several)

    def is_right(self, features_ND: Any, labels: Labels) -> Bools:
        """Whether the answers to texts are their labels, (N,)."""
        return are_right(self.probabilities(features_ND), labels)


def fit_model(features_ND: Any, labels: Labels, num_classes: int, weights: Floats | None = None) -> Model | None:
    """The model of labelled texts; None where they have a single class, or no features, so that there is nothing to learn."""
    several = are_several(labels)
    if len(labels) == 0 or (not several and len(np.unique(labels)) == 1):
        return None
    if not issparse(features_ND):
        return Model(*fit_last_layer(features_ND, labels, num_classes, weights), several)
    columns = np.unique(features_ND.indices)  # the others have no weight, and would take most of the time
    if len(columns) == 0:
        return None
    small_DU, bias_U = fit_last_layer(features_ND[:, columns], labels, num_classes, weights)
    kernel_DU = np.zeros((features_ND.shape[1], len(bias_U)), np.float32)
    kernel_DU[columns] = small_DU
    return Model(kernel_DU, bias_U, several)


@dataclass(frozen=True)
class Estimate:
    """An accuracy in [0, 1] with its 95 % interval."""

    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        """It in words."""
        return f"{self.accuracy:.0%} ({self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True)
class Assessment:
    """What the random texts tell. Where a text may have several labels, an answer is right if all of them are."""

    accuracy: Estimate | None = None  # of answers to new texts; None where too few random texts are labelled
    curve: tuple[tuple[int, float], ...] = ()  # numbers of labels, and the accuracy of a model of the first so many
    next_hundred: Estimate | None = None  # accuracy with a hundred labels more; None where it is not known yet
    num_labels: int = 0  # labels that this is about; the answers are ahead of it for a moment


def assess(fit: Callable[[Array], Model | None], features_ND: Any, labels: Labels, is_random_N: Bools) -> Assessment:
    """Judge a model by cross-fitting; ``fit`` makes one of the labelled texts with these numbers, if it can."""
    num_labels, random_R = len(labels), np.flatnonzero(is_random_N)
    if len(random_R) < LEAST_TEXTS:
        return Assessment(num_labels=num_labels)
    curve = dict[int, Bools]()
    for size in num_labels * np.arange(1, SIZES + 1) // SIZES:
        is_right_R = np.zeros(len(random_R), bool)
        for fold in range(FOLDS):
            held = random_R[fold::FOLDS]
            if (model := fit(np.setdiff1d(np.arange(size), held))) is None:
                break
            is_right_R[fold::FOLDS] = model.is_right(features_ND[held], labels[held])
        else:
            curve[int(size)] = is_right_R
    if num_labels not in curve:
        return Assessment(num_labels=num_labels)
    points = tuple((size, float(is_right_R.mean())) for size, is_right_R in curve.items())
    right_SR = np.stack(list(curve.values()))
    accuracy = Estimate(points[-1][1], *wilson_interval(int(right_SR[-1].sum()), len(random_R)))
    return Assessment(accuracy, points, predicted([*curve], right_SR), num_labels)


def predicted(sizes: Sequence[int], right_SR: Bools) -> Estimate | None:
    """The accuracy with ``MORE`` labels, by curves that are fitted to the random texts, and to draws of them with replacement."""
    num_sizes, num_random = right_SR.shape
    if num_sizes < SIZES or num_random < LEAST_TO_PREDICT:
        return None
    drawn = np.random.default_rng(0).integers(num_random, size=(DRAWS, num_random))
    accuracies = np.array([at_more(sizes, right_SR[:, rows].mean(axis=1)) for rows in drawn])
    return Estimate(at_more(sizes, right_SR.mean(axis=1)), *interval(accuracies))


def at_more(sizes: Sequence[int], accuracies_S: Array) -> float:
    """The inverse power law a − b · n^(−c), fitted to a learning curve and taken at ``MORE`` labels beyond its last size n."""
    from scipy.optimize import curve_fit

    def law(n: Any, a: float, b: float, c: float) -> Any:
        return a - b * (n / sizes[-1]) ** -c

    start = (min(1.0, accuracies_S[-1] + 0.05), 0.05, 0.5)
    (a, b, c), _ = curve_fit(law, np.array(sizes, float), accuracies_S, start, sigma=1 / np.sqrt(sizes), bounds=([0, 0, 0.1], [1, 1, 2]))
    return float(law(sizes[-1] + MORE, a, b, c))
