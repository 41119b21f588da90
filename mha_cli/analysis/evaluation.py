"""Scoring a checkpoint on labelled texts. If it gives several labels per text, the figures are scikit-learn's.

Axes: N texts, C classes or labels.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mha_cli.analysis.level_scores import LevelScores, level_scores
from mha_cli.analysis.set_scores import SetScores, set_scores
from mha_cli.analysis.thresholds import Measure, ThresholdScore, find_thresholds, score_thresholds
from mha_cli.arrays import Bools, Float64s, Floats, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.corpus.class_weights import never_answered
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.errors import MhaError
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.intervals import bootstrap, interval, wilson_interval
from mha_cli.runtime.label_sets import LabelSets
from mha_cli.runtime.levels import best_threshold, levels_of
from mha_cli.runtime.metrics import answers_among, calibration_error, class_counts, f1_scores, mean_loss_and_accuracy, shares
from mha_cli.runtime.none_of_these import NoneOfThese, none_of_these
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.targets import Labels
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.working_memory import refuse_confusion_matrix

MOST_CONFUSIONS = 15  # pairs of classes that are named
FAR_BELOW = 0.05  # between the interval of an accuracy and that of the validation part, from which a warning tells of it
Target: TypeAlias = tuple[Measure, float] | None  # of thresholds: the precision or recall to reach, and its value
PROBABILITIES = (0.6, 0.7, 0.8, 0.9, 1.0)  # upper ends of the ranges of an answer's probability


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
    """Texts of one class that were classified as another; ``share`` is their part of the true class, in (0, 1]."""

    true: str
    predicted: str
    num_texts: int
    share: float


@dataclass(frozen=True)
class Range:
    """The accuracy, in [0, 1], of the texts with a number in (``above``, ``up_to``], the first range with 0; None without texts."""

    above: float
    up_to: float
    num_texts: int
    accuracy: float | None


@dataclass(frozen=True)
class Scores:
    """The texts that a checkpoint is scored on, and figures of every kind of labels."""

    data: str  # source in words
    split: str
    num_texts: int
    num_truncated: int  # texts that were cut to the model's length
    unknown_share: float  # share of the tokens read that the vocabulary lacks, in [0, 1]
    macro_f1: float  # mean F1 of the classes or labels, in [0, 1]; one that neither occurs nor is answered is left out
    weighted_f1: float  # the same mean, weighted by the texts of each
    loss: float  # mean cross-entropy in nats, of several labels per text the binary one
    seconds: float  # time for the forward passes
    encoded_share: float  # share of the texts that the encoder has read, in [0, 1]; the linear model was sure of the others


@dataclass(frozen=True)
class NoneScores:
    """How well texts of no class are told from those of the classes; shares in [0, 1], None without texts of no class."""

    num_texts: int  # texts of no class
    answered: float  # share of the texts of the classes that get a label, right or wrong
    caught: float | None  # share of the texts of no class that get none
    accuracy: float  # share of all texts that get the right label, or rightly none
    roc_auc: float | None  # share of the pairs of a text of a class and one of no class in which the former scores higher


@dataclass(frozen=True)
class Evaluation(Scores):
    """The figures of a checkpoint that gives one label per text."""

    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 % confidence interval of the accuracy (Wilson)
    top_3_accuracy: float | None  # share of texts whose class is among the three most probable ones; None for fewer than six classes
    roc_auc: float | None  # in [0, 1]; the mean over one-against-rest for more than two classes; None where a class does not occur
    calibration_error: float  # mean gap between confidence and accuracy over 15 equal bins, in [0, 1] (Guo et al. 2017, eq. 3)
    classes: list[ClassScore]
    confusion: list[list[int]]  # counts; rows are true classes, columns predicted ones
    confusions: list[Confusion]  # most frequent confusions, ``MOST_CONFUSIONS`` at most
    thresholds: list[ThresholdScore]  # figures of the classes' thresholds, chosen here or of the checkpoint; empty without any
    by_probability: list[Range]  # accuracy by the answer's probability
    by_length: list[Range]  # accuracy by the tokens that the model reads, in quarters of the longest that it can read
    levels: LevelScores | None = None  # of labels in levels
    sets: SetScores | None = None  # of sets of labels, for a coverage
    none: NoneScores | None = None  # of a model with ``data.none_label``; other figures leave out texts that it has no class for


@dataclass(frozen=True)
class LabelScore(ClassScore):
    """How well one label is recognised."""

    threshold: float  # probability from which it is an answer
    reached: bool | None  # whether the threshold reaches its target; None for one that was not chosen on these texts
    average_precision: float | None  # area below precision by recall, over all thresholds; None for a label without texts


@dataclass(frozen=True)
class LabelEvaluation(Scores):
    """The figures of a checkpoint that gives several labels per text; shares in [0, 1]."""

    micro_f1: float  # F1 of all labels of all texts together
    micro_f1_interval: tuple[float, float]  # its 95 % confidence interval, by bootstrap over texts
    exact_match: float  # share of texts with exactly the right labels
    exact_match_interval: tuple[float, float]  # its 95 % confidence interval (Wilson)
    hamming_loss: float  # share of wrong decisions, one per text and label
    ranking_average_precision: float  # mean share of right labels among those that are as probable as a right one
    labels_per_text: tuple[float, float]  # mean number of labels, in the data and in the answers
    labels: list[LabelScore]


class Scored(NamedTuple):
    """The probabilities of all classes for labelled texts, (N, C); ``seconds`` and ``encoded_share`` as of an ``Evaluation``."""

    probabilities: Floats
    seconds: float
    encoded_share: float


def scored(checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT) -> Scored:
    """The probabilities that a checkpoint gives."""
    refuse_confusion_matrix(len(checkpoint.class_names))
    texts, score = labelled.texts, Scorer(checkpoint)
    started = time.perf_counter()
    probabilities = score(texts, lambda done: callbacks.on_texts(done, len(texts)))
    return Scored(probabilities, time.perf_counter() - started, score.num_encoded / max(1, len(texts)))


def evaluate(
    checkpoint: Checkpoint,
    labelled: LabelledTexts,
    callbacks: Callbacks = SILENT,
    target: Target = None,
    found: Scored | None = None,
    sets: LabelSets | None = None,
) -> Evaluation | LabelEvaluation:
    """Score a checkpoint on labelled texts.

    Args:
        target: precision, recall or F1 to choose thresholds by; None for no thresholds.
        found: result of ``scored``; None to score here.
        sets: rule for sets of labels, which are scored as well.
    """
    probabilities, seconds, encoded_share = found or scored(checkpoint, labelled, callbacks)
    none, none_scores = none_of_these(checkpoint), None
    if none:
        none_scores = score_none(none, probabilities, labelled.texts.labels)
        if len(rows := np.flatnonzero(labelled.texts.labels < len(checkpoint.class_names))) < len(probabilities):
            seconds *= len(rows) / len(probabilities)
            labelled, probabilities = replace(labelled, texts=labelled.texts.subset(rows)), probabilities[rows]
    texts, config, warnings = labelled.texts, checkpoint.config, [far_below_validation(checkpoint, labelled, probabilities)]
    if not config.is_multi_label:
        weights, predicted = config.training.class_weights, probabilities.argmax(axis=1)
        warnings.append(never_answered(weights, checkpoint.class_names, texts.labels, predicted))
    for warning in filter(None, warnings):
        callbacks.note(f"{labelled.data}, split {labelled.split}: {warning}")
    of_texts = {
        "data": labelled.data,
        "split": labelled.split,
        "num_texts": len(texts),
        "num_truncated": texts.num_truncated,
        "unknown_share": texts.num_unknown / max(1, len(texts.tokens)),
        "seconds": seconds,
        "encoded_share": encoded_share,
    }
    if config.is_multi_label:
        return evaluate_labels(checkpoint, texts, probabilities, target, of_texts)
    of_sets = sets and set_scores(sets, probabilities, texts.labels, checkpoint.class_names)
    return evaluate_classes(checkpoint, texts, probabilities, target, of_texts | {"none": none_scores, "sets": of_sets})


def evaluate_classes(
    checkpoint: Checkpoint, texts: EncodedTexts, probabilities: Floats, target: Target, of_texts: dict[str, Any]
) -> Evaluation:
    """``evaluate`` for a checkpoint that gives one label per text; ``of_texts`` are the fields that both kinds have."""
    labels, names, thresholds = texts.labels, checkpoint.class_names, list[ThresholdScore]()
    loss, accuracy = mean_loss_and_accuracy(probabilities, labels)
    predicted, longest = probabilities.argmax(axis=1), checkpoint.config.text.sequence_length
    correct = predicted == labels
    classes = class_scores(predicted, labels, names)
    confusion = np.bincount(labels * np.int64(len(names)) + predicted, minlength=len(names) ** 2).reshape(len(names), -1)
    levels, level_threshold = levels_of(checkpoint), checkpoint.level_threshold
    if levels and target:
        level_threshold = best_threshold(levels, probabilities, labels)
    elif target:
        thresholds = find_thresholds(probabilities, labels, names, *target)
    elif checkpoint.thresholds:
        thresholds = score_thresholds(probabilities, labels, names, checkpoint.thresholds)
    return Evaluation(
        **of_texts,
        accuracy=accuracy,
        accuracy_interval=wilson_interval(int(correct.sum()), len(texts)),
        top_3_accuracy=top_3_accuracy(probabilities, labels),
        macro_f1=float(np.mean([score.f1 for score in classes if score.f1 is not None])),
        weighted_f1=sum((score.f1 or 0.0) * score.num_texts for score in classes) / len(texts),
        loss=loss,
        roc_auc=area_under_roc(probabilities, labels),
        calibration_error=calibration_error(probabilities, labels),
        classes=classes,
        confusion=confusion.tolist(),
        confusions=most_frequent_confusions(confusion, names),
        thresholds=thresholds,
        levels=level_scores(levels, probabilities, labels, level_threshold) if levels else None,
        by_probability=accuracy_by(probabilities.max(axis=1), PROBABILITIES, correct),
        by_length=accuracy_by(texts.lengths, sorted({longest * quarter // 4 for quarter in (1, 2, 3, 4)} - {0}), correct),
    )


def score_none(none: NoneOfThese, probabilities: Floats, labels: Labels) -> NoneScores:
    """How well texts of no class are told from those of the classes, by their labels (N,)."""
    are_of_classes, get_none = none.are_of_classes(labels), none.are_none(probabilities)
    if not are_of_classes.any():
        raise MhaError("all texts have the label of data.none_label", "give labelled texts of the classes as well")
    answers, scores = np.where(none.is_class, probabilities, -1.0).argmax(axis=1), none.scores(probabilities)
    return NoneScores(
        num_texts=int((~are_of_classes).sum()),
        answered=float((~get_none)[are_of_classes].mean()),
        caught=None if are_of_classes.all() else float(get_none[~are_of_classes].mean()),
        accuracy=float(np.where(are_of_classes, ~get_none & (answers == labels), get_none).mean()),
        roc_auc=area_under_roc(np.stack([-scores, scores], axis=1), are_of_classes.astype(np.int32)),
    )


def far_below_validation(checkpoint: Checkpoint, labelled: LabelledTexts, probabilities: Floats) -> str:
    """A warning with the likely reasons if the accuracy is below that on the validation part by far, beyond both intervals."""
    before, share = checkpoint.metrics.get("validation_accuracy", 0.0), checkpoint.config.data.validation_share
    num_before, labels = round(share * checkpoint.metrics.get("labelled_texts", 0)), labelled.texts.labels
    _, accuracy = mean_loss_and_accuracy(probabilities, labels, checkpoint.label_thresholds)
    least = wilson_interval(round(before * num_before), num_before)[0] if num_before else 0.0
    if wilson_interval(round(accuracy * len(labels)), len(labels))[1] > least - FAR_BELOW:
        return ""
    reasons = "these texts may be of another kind or time, have labels by other rules, or the validation part repeats training texts"
    return f"accuracy {accuracy:.1%}, and {before:.1%} on the validation part: {reasons}"


def evaluate_labels(
    checkpoint: Checkpoint, texts: EncodedTexts, probabilities: Floats, target: Target, of_texts: dict[str, Any]
) -> LabelEvaluation:
    """``evaluate`` for a checkpoint that gives several labels per text; without a target, its own thresholds are scored."""
    from sklearn import metrics  # slow: one label per text does without

    truth, names, thresholds = texts.labels, checkpoint.class_names, checkpoint.label_thresholds
    reached: list[bool | None] = [None] * len(names)
    if target:
        scores = find_thresholds(probabilities, truth, names, *target)
        thresholds, reached = np.array([score.threshold for score in scores], np.float32), [score.reached for score in scores]
    given = answers_among(probabilities, True, thresholds)
    f1 = [metrics.f1_score(truth, given, average=mean, zero_division=np.nan) for mean in ("micro", "macro", "weighted")]
    micro, macro, weighted = np.nan_to_num(f1).tolist()
    areas = [
        float(metrics.average_precision_score(is_label, of_label)) if is_label.any() else None
        for is_label, of_label in zip(truth.T, probabilities.T, strict=True)
    ]
    of_labels = zip(class_scores(given, truth, names), thresholds.tolist(), reached, areas, strict=True)
    loss, exact = mean_loss_and_accuracy(probabilities, truth, thresholds)
    draws = bootstrap(np.stack([(truth & given).sum(axis=1), truth.sum(axis=1) + given.sum(axis=1)], axis=1), statistic=_micro_f1)
    return LabelEvaluation(
        **of_texts,
        micro_f1=micro,
        micro_f1_interval=interval(draws),
        macro_f1=macro,
        weighted_f1=weighted,
        exact_match=exact,
        exact_match_interval=wilson_interval(round(exact * len(texts)), len(texts)),
        hamming_loss=float(metrics.hamming_loss(truth, given)),
        ranking_average_precision=float(metrics.label_ranking_average_precision_score(truth, probabilities)),
        loss=loss,
        labels_per_text=(float(truth.sum(axis=1).mean()), float(given.sum(axis=1).mean())),
        labels=[LabelScore(**vars(score), threshold=least, reached=good, average_precision=area) for score, least, good, area in of_labels],
    )


def _micro_f1(kinds: Float64s, drawn: Int64s) -> Float64s:
    """Micro F1 of every draw, (D,), from how often each kind of text was drawn: its right answers, and its labels and answers together."""
    num_right, num_given = (drawn @ kinds).T
    return np.asarray(2 * num_right / np.maximum(num_given, 1))


def top_3_accuracy(probabilities: Floats, labels: Labels) -> float | None:
    """Share of texts whose class is among the three most probable ones; None for fewer than six classes, where half of them are."""
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :3]
    return float((top == labels[:, None]).any(axis=1).mean()) if probabilities.shape[1] >= 6 else None


def area_under_roc(probabilities: Floats, labels: Labels) -> float | None:
    """Area under the ROC curve; the mean over one-against-rest for more than two classes; None where a class does not occur.

    It is the share of the pairs of a text of the class and another one in which the former scores higher; equal scores count half.

    Source: Hanley and McNeil 1982, "The Meaning and Use of the Area under a Receiver Operating Characteristic (ROC) Curve".
    """
    num_classes = probabilities.shape[1]
    if len(np.unique(labels)) < num_classes:
        return None
    areas = list[float]()
    for class_id in range(num_classes) if num_classes > 2 else [1]:
        _, ids, counts = np.unique(probabilities[:, class_id], return_inverse=True, return_counts=True)
        ranks, number = (np.cumsum(counts) - (counts - 1) / 2)[ids], int((labels == class_id).sum())
        areas.append((ranks[labels == class_id].sum() - number * (number + 1) / 2) / (number * (len(labels) - number)))
    return float(np.mean(areas))


def accuracy_by(values: npt.ArrayLike, bounds: Sequence[float], correct: Bools) -> list[Range]:
    """The accuracy of texts by a number between 0 and the last bound."""
    ranges = np.minimum(np.searchsorted(bounds, values, side="left"), len(bounds) - 1)
    numbers, right = (np.bincount(ranges, weights, minlength=len(bounds)) for weights in (None, correct))
    return [
        Range(float(above), float(up_to), int(number), float(count / number) if number else None)
        for above, up_to, number, count in zip((0, *bounds), bounds, numbers, right, strict=False)
    ]


def class_scores(predicted: Labels, labels: Labels, class_names: tuple[str, ...]) -> list[ClassScore]:
    """Precision, recall and F1 of every class."""
    right, sizes, answered = counts = class_counts(labels, predicted, len(class_names))
    figures = (shares(right, answered), shares(right, sizes), f1_scores(*counts))
    defined = [[None if np.isnan(share) else float(share) for share in of_classes] for of_classes in figures]
    return [ClassScore(*row) for row in zip(class_names, *defined, sizes.tolist(), strict=True)]


def most_frequent_confusions(confusion: Int64s, class_names: tuple[str, ...]) -> list[Confusion]:
    """The pairs of classes of most texts, the most frequent first; of equally frequent ones those of the rarer class."""
    sizes, counts = confusion.sum(axis=1), confusion * (1 - np.eye(len(confusion), dtype=int))
    rows, columns = np.nonzero(counts)
    order = np.lexsort((sizes[rows], -counts[rows, columns]))[:MOST_CONFUSIONS]
    return [
        Confusion(class_names[row], class_names[column], int(counts[row, column]), float(counts[row, column] / sizes[row]))
        for row, column in zip(rows[order], columns[order], strict=True)
    ]
