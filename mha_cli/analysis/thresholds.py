"""One threshold per class, chosen for a precision or a recall: the least probability of an answer of this class.

Axes: N texts, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.runtime.intervals import wilson_interval
from mha_cli.runtime.metrics import answers_among
from mha_cli.sources.targets import Labels, are_several, has_class

Measure = Literal["precision", "recall", "f1"]  # F1 is the hierarchical one, of labels in levels, which have one threshold


@dataclass(frozen=True)
class ThresholdScore:
    """The figures of a class's threshold on some texts."""

    name: str
    threshold: float  # probability in [0, 1] that an answer needs
    reached: bool | None  # whether the target is reached; None for a threshold that was not chosen on these texts
    num_answers: int  # texts with this class as their answer
    num_right: int  # right ones of these
    num_texts: int  # texts of this class
    precision: float | None  # share of right answers, in [0, 1]; None without answers
    precision_interval: tuple[float, float] | None  # 95 % confidence interval (Wilson), as that of the recall
    recall: float | None  # share of the texts of this class that are found, in [0, 1]; None without such texts
    recall_interval: tuple[float, float] | None


def find_thresholds(
    probabilities: Floats, labels: Labels, class_names: tuple[str, ...], measure: Measure, share: float
) -> list[ThresholdScore]:
    """The smallest threshold of each class with a precision of ``share`` at least, or the largest with such a recall.

    Where no threshold reaches it, it is 1 for a precision, so that next to nothing is answered, and 0 for a recall.
    ``probabilities`` are those of all classes, (N, C); ``labels`` are class ids, (N,), or the classes that each text has, (N, C).
    """
    possible = answers_among(probabilities, are_several(labels), 0.0)
    thresholds, reached = dict[str, float](), dict[str, bool]()
    for class_id, name in enumerate(class_names):
        is_class = has_class(labels, class_id)
        answers = np.flatnonzero(has_class(possible, class_id))
        answers = answers[np.argsort(-probabilities[answers, class_id])]
        upper = probabilities[answers, class_id].astype(np.float64)
        lower = np.append(upper[1:], -1.0)  # below the last one there is none
        among = np.arange(len(answers)) + 1 if measure == "precision" else max(1, int(is_class.sum()))
        value = np.cumsum(is_class[answers]) / among
        enough = np.flatnonzero((value >= share) & (upper > lower))  # answers of equal probability stay together
        reached[name] = len(enough) > 0
        if reached[name]:
            last = enough[-1] if measure == "precision" else enough[0]
            halfway = max(0.0, float(upper[last] + lower[last]) / 2)  # so that rounding moves no text over it
            thresholds[name] = 0.5 if 0 <= lower[last] < 0.5 < upper[last] else halfway
        else:
            thresholds[name] = 1.0 if measure == "precision" else 0.0
    return score_thresholds(probabilities, labels, class_names, thresholds, reached)


def score_thresholds(
    probabilities: Floats,
    labels: Labels,
    class_names: tuple[str, ...],
    thresholds: Mapping[str, float],
    reached: Mapping[str, bool] | None = None,
) -> list[ThresholdScore]:
    """The figures of thresholds by class name; other arguments as of ``find_thresholds``."""
    possible, scores = answers_among(probabilities, are_several(labels), 0.0), []
    for class_id, name in enumerate(class_names):
        threshold, is_class = thresholds.get(name, 0.0), has_class(labels, class_id)
        answers = has_class(possible, class_id) & (probabilities[:, class_id].astype(np.float64) >= threshold)
        num_answers, num_texts = int(np.count_nonzero(answers)), int(np.count_nonzero(is_class))
        num_right = int(np.count_nonzero(answers & is_class))
        precision, recall = (
            (num_right / total, wilson_interval(num_right, total)) if total else (None, None) for total in (num_answers, num_texts)
        )
        scores.append(ThresholdScore(name, threshold, (reached or {}).get(name), num_answers, num_right, num_texts, *precision, *recall))
    return scores
