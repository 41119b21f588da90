"""A threshold a class, so that the answers above it are as often right, or find as much of the class, as is asked for.

An answer is the most probable class of a text; its class's threshold says how probable it has to be.

Axes: N texts, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mha_cli.data.intervals import wilson_interval

Measure = Literal["precision", "recall"]
Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ThresholdScore:
    """What a threshold comes to on some texts.

    Args:
        name: name of the class.
        threshold: probability in [0, 1] that an answer needs.
        reached: whether it is as good as was asked for; None for a threshold that was not looked for on these texts.
        num_answers: texts that this class is the answer to.
        num_right: those of them that are of this class.
        num_texts: texts that are of this class.
        precision: share of the answers that are right, in [0, 1]; None where there is no answer.
        precision_interval: 95 % confidence interval of the precision (Wilson).
        recall: share of the texts of this class that are found, in [0, 1]; None where there is none.
        recall_interval: 95 % confidence interval of the recall (Wilson).
    """

    name: str
    threshold: float
    reached: bool | None
    num_answers: int
    num_right: int
    num_texts: int
    precision: float | None
    precision_interval: tuple[float, float] | None
    recall: float | None
    recall_interval: tuple[float, float] | None


def find_thresholds(
    probabilities: Floats, labels: Labels, class_names: tuple[str, ...], measure: Measure, share: float
) -> list[ThresholdScore]:
    """The smallest threshold of each class with such a precision, or the largest with such a recall; chosen on these very texts.

    Where none is good enough, it is 1 for a precision, by which next to nothing is answered, and 0 for a recall.

    Args:
        probabilities: probabilities of all classes, (N, C).
        labels: class ids, (N,).
        class_names: names in the order of their ids.
        measure: measure that is to be reached.
        share: value that it is to have at least, in (0, 1].
    """
    predicted, found, reached = probabilities.argmax(axis=1), dict[str, float](), dict[str, bool]()
    for class_id, name in enumerate(class_names):
        answers = np.flatnonzero(predicted == class_id)
        answers = answers[np.argsort(-probabilities[answers, class_id])]
        upper = probabilities[answers, class_id].astype(np.float64)
        lower = np.append(upper[1:], -upper[-1:])  # below the last one there is none: 0 is halfway
        among = np.arange(len(answers)) + 1 if measure == "precision" else max(1, np.count_nonzero(labels == class_id))
        value = np.cumsum(labels[answers] == class_id) / among
        enough = np.flatnonzero((value >= share) & (upper > lower))  # answers of equal probability stay together
        reached[name] = len(enough) > 0
        if reached[name]:
            last = enough[-1] if measure == "precision" else enough[0]
            found[name] = float(upper[last] + lower[last]) / 2  # halfway, so that rounding moves no text over it
        else:
            found[name] = 1.0 if measure == "precision" else 0.0
    return score_thresholds(probabilities, labels, class_names, found, reached)


def score_thresholds(
    probabilities: Floats,
    labels: Labels,
    class_names: tuple[str, ...],
    thresholds: Mapping[str, float],
    reached: Mapping[str, bool] | None = None,
) -> list[ThresholdScore]:
    """What the thresholds of classes, by name, come to; arguments else as of ``find_thresholds``."""
    predicted, scores = probabilities.argmax(axis=1), []
    for class_id, name in enumerate(class_names):
        threshold = thresholds.get(name, 0.0)
        answers = (predicted == class_id) & (probabilities[:, class_id].astype(np.float64) >= threshold)
        num_answers, num_texts = int(np.count_nonzero(answers)), int(np.count_nonzero(labels == class_id))
        num_right = int(np.count_nonzero(answers & (labels == class_id)))
        scores.append(
            ThresholdScore(
                name=name,
                threshold=threshold,
                reached=None if reached is None else reached[name],
                num_answers=num_answers,
                num_right=num_right,
                num_texts=num_texts,
                precision=num_right / num_answers if num_answers else None,
                precision_interval=wilson_interval(num_right, num_answers) if num_answers else None,
                recall=num_right / num_texts if num_texts else None,
                recall_interval=wilson_interval(num_right, num_texts) if num_texts else None,
            )
        )
    return scores
