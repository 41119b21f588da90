"""Figures of sets of labels."""

from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Floats, Int64s
from mha_cli.runtime.intervals import wilson_interval
from mha_cli.runtime.label_sets import LabelSets


@dataclass(frozen=True)
class ClassSets:
    """The sets of the texts of a class."""

    name: str
    num_texts: int
    coverage: float | None  # share of these texts whose set holds the class, in [0, 1]; None without texts
    labels: float | None  # mean size of their sets


@dataclass(frozen=True)
class SetScores:
    """How often sets of labels hold the right one, and how large they are."""

    asked: float  # coverage in (0, 1)
    coverage: float  # share of texts whose set holds the right label, in [0, 1]
    coverage_interval: tuple[float, float]  # its 95 % confidence interval (Wilson)
    labels: float  # mean size of a set
    single: float  # share of sets with one label
    single_right: float | None  # share of these labels that are right; None without any
    classes: list[ClassSets]


def set_scores(sets: LabelSets, probabilities_NC: Floats, labels: Int64s, class_names: tuple[str, ...]) -> SetScores:
    """Score the sets of texts by the probabilities of all classes and their class ids."""
    members_NC = sets.members(probabilities_NC)
    sizes, is_covered = members_NC.sum(axis=1), members_NC[np.arange(len(labels)), labels]
    is_single = sizes == 1
    classes = []
    for label, name in enumerate(class_names):
        rows = labels == label
        means = (float(is_covered[rows].mean()), float(sizes[rows].mean())) if rows.any() else (None, None)
        classes.append(ClassSets(name, int(rows.sum()), *means))
    return SetScores(
        asked=sets.coverage,
        coverage=float(is_covered.mean()),
        coverage_interval=wilson_interval(int(is_covered.sum()), len(labels)),
        labels=float(sizes.mean()),
        single=float(is_single.mean()),
        single_right=float(is_covered[is_single].mean()) if is_single.any() else None,
        classes=classes,
    )
