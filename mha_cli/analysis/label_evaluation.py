"""Scoring a checkpoint that gives several labels per text; the figures are scikit-learn's.

Axes: N texts, C labels.
"""

from dataclasses import dataclass

import numpy as np
from sklearn import metrics

from mha_cli.analysis.evaluation import ClassScore, class_scores
from mha_cli.analysis.thresholds import Measure, find_thresholds
from mha_cli.arrays import Float64s, Floats, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.data.intervals import bootstrap, interval, wilson_interval
from mha_cli.data.scored_texts import LabelledTexts
from mha_cli.runtime.metrics import answers_among, mean_loss_and_accuracy


@dataclass(frozen=True)
class LabelScore(ClassScore):
    """How well one label is recognised."""

    threshold: float  # probability from which it is an answer
    reached: bool | None  # whether the threshold reaches its target; None for one that was not chosen on these texts
    average_precision: float | None  # area below precision by recall, over all thresholds; None for a label without texts


@dataclass(frozen=True)
class LabelEvaluation:
    """The figures of a checkpoint that gives several labels per text; shares in [0, 1]."""

    data: str  # source in words
    split: str
    num_texts: int
    num_truncated: int  # texts that were cut to the model's length
    unknown_share: float  # share of the tokens read that the vocabulary lacks
    micro_f1: float  # F1 of all labels of all texts together
    micro_f1_interval: tuple[float, float]  # its 95 % confidence interval, by bootstrap over texts
    macro_f1: float  # mean F1 of the labels
    weighted_f1: float  # the same mean, weighted by the texts of each label
    exact_match: float  # share of texts with exactly the right labels
    exact_match_interval: tuple[float, float]  # its 95 % confidence interval (Wilson)
    hamming_loss: float  # share of wrong decisions, one per text and label
    ranking_average_precision: float  # mean share of right labels among those that are as probable as a right one
    loss: float  # mean binary cross-entropy, in nats
    labels_per_text: tuple[float, float]  # mean number of labels, in the data and in the answers
    labels: list[LabelScore]
    seconds: float  # time for the forward passes


def evaluate_labels(
    checkpoint: Checkpoint, labelled: LabelledTexts, answers: tuple[Floats, float], target: tuple[Measure, float] | None = None
) -> LabelEvaluation:
    """``evaluate`` for a checkpoint that gives several labels per text; without a target, its own thresholds are scored."""
    probabilities, seconds = answers
    texts, truth, names = labelled.texts, labelled.texts.labels, checkpoint.class_names
    thresholds = checkpoint.label_thresholds
    reached: list[bool | None] = [None] * len(names)
    if target:
        found = find_thresholds(probabilities, truth, names, *target)
        thresholds, reached = np.array([one.threshold for one in found], np.float32), [one.reached for one in found]
    given = answers_among(probabilities, True, thresholds)
    means = ("micro", "macro", "weighted")
    micro, macro, weighted = (float(metrics.f1_score(truth, given, average=mean, zero_division=0.0)) for mean in means)
    areas = [
        float(metrics.average_precision_score(is_label, own)) if is_label.any() else None
        for is_label, own in zip(truth.T, probabilities.T, strict=True)
    ]
    of_labels = zip(class_scores(given, truth, names), thresholds.tolist(), reached, areas, strict=True)
    loss, exact = mean_loss_and_accuracy(probabilities, truth, thresholds)
    draws = bootstrap(np.stack([(truth & given).sum(axis=1), truth.sum(axis=1) + given.sum(axis=1)], axis=1), statistic=_micro_f1)
    return LabelEvaluation(
        data=labelled.data,
        split=labelled.split,
        num_texts=len(texts),
        num_truncated=texts.num_truncated,
        unknown_share=texts.num_unknown / max(1, len(texts.tokens)),
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
        labels=[LabelScore(**vars(score), threshold=own, reached=good, average_precision=area) for score, own, good, area in of_labels],
        seconds=seconds,
    )


def _micro_f1(kinds: Float64s, drawn: Int64s) -> Float64s:
    """Micro F1 of every draw, (D,), from how often each kind of text was drawn: its right answers, and its labels and answers together."""
    num_right, num_given = (drawn @ kinds).T
    return np.asarray(2 * num_right / np.maximum(num_given, 1))
