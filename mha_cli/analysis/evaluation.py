"""Scoring a checkpoint on labelled texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn import metrics

from mha_cli.analysis.thresholds import Measure, ThresholdScore, find_thresholds, score_thresholds
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.data.intervals import wilson_interval
from mha_cli.data.preparation import LabelledTexts
from mha_cli.runtime.metrics import Floats, calibration_error, mean_loss_and_accuracy
from mha_cli.runtime.probabilities import Scorer
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.working_memory import refuse_confusion_matrix

TOP = 3
"""Most probable classes among which the right one is looked for, where there are at least twice as many."""

MOST_CONFUSIONS = 15
"""Pairs of classes that are named."""

PROBABILITIES = (0.6, 0.7, 0.8, 0.9, 1.0)
"""Upper ends of the ranges of an answer's probability."""


@dataclass(frozen=True)
class ClassScore:
    """How well one class is recognised; precision, recall and F1 in [0, 1], None where their denominator is 0."""

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    num_texts: int


@dataclass(frozen=True)
class Confusion:
    """A class that is taken for another.

    Args:
        true: class of the texts.
        predicted: class that was answered.
        num_texts: texts of one that were taken for the other.
        share: part of the texts of the true class, in (0, 1].
    """

    true: str
    predicted: str
    num_texts: int
    share: float


@dataclass(frozen=True)
class Range:
    """How often the answers are right for texts with a number in some range.

    Args:
        above: lower end, which does not belong to the range; the first range has the texts at 0, too.
        up_to: upper end, which does.
        num_texts: texts in this range.
        accuracy: accuracy in [0, 1]; None where there is no text.
    """

    above: float
    up_to: float
    num_texts: int
    accuracy: float | None


@dataclass(frozen=True)
class Evaluation:
    """What a checkpoint scores.

    Args:
        data: source in words.
        split: split of the source.
        num_texts: labelled texts scored.
        num_truncated: texts among them that were cut to the model's length.
        unknown_share: tokens that the vocabulary does not have among those that the model reads, in [0, 1].
        accuracy: share of right answers, in [0, 1].
        accuracy_interval: 95 % confidence interval of the accuracy (Wilson).
        top_3_accuracy: share of texts whose class is among the three most probable ones, in [0, 1]; None for fewer than six classes.
        macro_f1: mean F1 of the classes, in [0, 1]; a class that neither occurs nor is answered is left out.
        weighted_f1: mean likewise, weighted by the texts of each class.
        loss: mean cross-entropy, in nats.
        roc_auc: area under the ROC curve, in [0, 1]; for more than two classes the mean over one-against-rest; None where a
            class does not occur.
        calibration_error: mean gap between confidence and accuracy over 15 equal bins, in [0, 1] (Guo et al. 2017, eq. 3).
        classes: scores, a row a class.
        confusion: counts; rows are true classes, columns predicted ones.
        confusions: pairs of classes of most texts, the most frequent first, ``MOST_CONFUSIONS`` at most.
        thresholds: what the thresholds of the classes come to, those looked for or else the checkpoint's; empty where there are none.
        by_probability: ranges of the answer's probability.
        by_length: ranges of the tokens that the model reads, in quarters of the longest that it can read.
        seconds: time for the forward passes.
    """

    data: str
    split: str
    num_texts: int
    num_truncated: int
    unknown_share: float
    accuracy: float
    accuracy_interval: tuple[float, float]
    top_3_accuracy: float | None
    macro_f1: float
    weighted_f1: float
    loss: float
    roc_auc: float | None
    calibration_error: float
    classes: list[ClassScore]
    confusion: list[list[int]]
    confusions: list[Confusion]
    thresholds: list[ThresholdScore]
    by_probability: list[Range]
    by_length: list[Range]
    seconds: float


def evaluate(
    checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT, target: tuple[Measure, float] | None = None
) -> Evaluation:
    """Score a checkpoint.

    Args:
        checkpoint: model to score.
        labelled: texts to score it on.
        target: measure that the thresholds of the classes are to reach on these texts, and its value; None looks for none.
    """
    refuse_confusion_matrix(len(checkpoint.class_names))
    return evaluation_of(checkpoint, labelled, *answers_of(checkpoint, labelled, callbacks), target)


def answers_of(checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT) -> tuple[Floats, float]:
    """The probabilities of all classes that a checkpoint gives to labelled texts, (N, C), and the seconds of the forward passes."""
    texts, score = labelled.texts, Scorer(checkpoint)
    started = time.perf_counter()
    probabilities = score(texts, lambda done: callbacks.on_reviews(done, len(texts)))
    return probabilities, time.perf_counter() - started


def evaluation_of(
    checkpoint: Checkpoint, labelled: LabelledTexts, probabilities: Floats, seconds: float, target: tuple[Measure, float] | None = None
) -> Evaluation:
    """The figures of what ``answers_of`` gives; other arguments as of ``evaluate``."""
    texts = labelled.texts
    loss, accuracy = mean_loss_and_accuracy(probabilities, texts.labels)
    predicted, longest = probabilities.argmax(axis=1), checkpoint.config.text.sequence_length
    correct = predicted == texts.labels
    macro_f1, weighted_f1 = (
        float(metrics.f1_score(texts.labels, predicted, average=mean, zero_division=0.0)) for mean in ("macro", "weighted")
    )
    confusion, given = confusion_matrix(probabilities, texts.labels), (probabilities, texts.labels, checkpoint.class_names)
    if target:
        thresholds = find_thresholds(*given, *target)
    else:
        thresholds = score_thresholds(*given, checkpoint.thresholds) if checkpoint.thresholds else []
    return Evaluation(
        data=labelled.data,
        split=labelled.split,
        num_texts=len(texts),
        num_truncated=texts.num_truncated,
        unknown_share=texts.num_unknown / max(1, len(texts.tokens)),
        accuracy=accuracy,
        accuracy_interval=wilson_interval(round(accuracy * len(texts)), len(texts)),
        top_3_accuracy=top_3_accuracy(probabilities, texts.labels),
        macro_f1=macro_f1,
        weighted_f1=weighted_f1,
        loss=loss,
        roc_auc=area_under_roc(probabilities, texts.labels),
        calibration_error=calibration_error(probabilities, texts.labels),
        classes=class_scores(probabilities, texts.labels, checkpoint.class_names),
        confusion=confusion,
        confusions=most_frequent_confusions(confusion, checkpoint.class_names),
        thresholds=thresholds,
        by_probability=accuracy_by(probabilities.max(axis=1), PROBABILITIES, correct),
        by_length=accuracy_by(texts.lengths, quarters_of(longest), correct),
        seconds=seconds,
    )


def top_3_accuracy(probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int32]) -> float | None:
    """Share of texts whose class is among the three most probable ones; None for fewer than six classes, where half of them are."""
    num_classes = probabilities.shape[1]
    if num_classes < 2 * TOP:
        return None
    return float(metrics.top_k_accuracy_score(labels, probabilities, k=TOP, labels=range(num_classes)))


def area_under_roc(probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int32]) -> float | None:
    """Area under the ROC curve; the mean over one-against-rest for more than two classes; None where a class does not occur."""
    num_classes = probabilities.shape[1]
    if len(np.unique(labels)) < num_classes:
        return None
    if num_classes == 2:
        return float(metrics.roc_auc_score(labels, probabilities[:, 1]))
    return float(metrics.roc_auc_score(np.eye(num_classes)[labels], probabilities, average="macro"))


def quarters_of(length: int) -> list[int]:
    """The ends of four ranges of lengths, each a quarter of the longest; fewer where that has less than four tokens."""
    return sorted({length * quarter // 4 for quarter in (1, 2, 3, 4)} - {0})


def accuracy_by(values: npt.ArrayLike, bounds: Sequence[float], correct: npt.NDArray[np.bool_]) -> list[Range]:
    """The accuracy of texts by ranges of a number, between 0 and the last bound."""
    ranges = np.minimum(np.searchsorted(bounds, values, side="left"), len(bounds) - 1)
    numbers, right = (np.bincount(ranges, weights, minlength=len(bounds)) for weights in (None, correct))
    return [
        Range(float(above), float(up_to), int(number), float(count / number) if number else None)
        for above, up_to, number, count in zip((0, *bounds), bounds, numbers, right, strict=False)
    ]


def class_scores(probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int32], class_names: tuple[str, ...]) -> list[ClassScore]:
    """Precision, recall and F1 of every class."""
    predicted, class_ids = probabilities.argmax(axis=1), range(len(class_names))
    *shares, sizes = metrics.precision_recall_fscore_support(labels, predicted, labels=class_ids, zero_division=np.nan)
    defined = [[None if np.isnan(share) else float(share) for share in of_classes] for of_classes in shares]
    return [ClassScore(*row) for row in zip(class_names, *defined, sizes.tolist(), strict=True)]


def confusion_matrix(probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int32]) -> list[list[int]]:
    """Counts, rows true and columns predicted."""
    return metrics.confusion_matrix(labels, probabilities.argmax(axis=1), labels=range(probabilities.shape[1])).tolist()


def most_frequent_confusions(confusion: list[list[int]], class_names: tuple[str, ...]) -> list[Confusion]:
    """The pairs of classes of most texts, the most frequent first; of equally frequent ones those of the rarer class."""
    counts = np.array(confusion)
    sizes = counts.sum(axis=1)
    np.fill_diagonal(counts, 0)
    rows, columns = np.nonzero(counts)
    order = np.lexsort((sizes[rows], -counts[rows, columns]))[:MOST_CONFUSIONS]
    return [
        Confusion(class_names[row], class_names[column], int(counts[row, column]), float(counts[row, column] / sizes[row]))
        for row, column in zip(rows[order], columns[order], strict=True)
    ]
