"""Which of several models is better on the same labelled texts, and whether that may be chance.

Axes: N reviews, K distinct rows of them, D draws, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.stats import binomtest

from mha_cli.analysis.thresholds import wilson_interval
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.data.preparation import LabelledReviews
from mha_cli.data.resampling import bootstrap, interval
from mha_cli.errors import MhaError
from mha_cli.model.scoring import mean_loss_and_accuracy, scorer_of
from mha_cli.system.watcher import SILENT, Watcher

LEVEL = 0.05
"""Probability of so large a difference by chance alone, below which it is hardly put down to chance."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ModelScore:
    """What a model scores.

    Args:
        name: name of the model.
        accuracy: share of right answers, in [0, 1].
        accuracy_interval: 95 % confidence interval of the accuracy (Wilson).
        macro_f1: mean F1 of the classes, in [0, 1]; a class that neither occurs nor is answered is left out.
        loss: mean cross-entropy, in nats.
    """

    name: str
    accuracy: float
    accuracy_interval: tuple[float, float]
    macro_f1: float
    loss: float


@dataclass(frozen=True)
class Difference:
    """A model against the first one.

    Args:
        name: name of the model.
        accuracy: its accuracy less that of the first, in [-1, 1].
        accuracy_interval: 95 % interval of that (paired bootstrap).
        macro_f1: its macro F1 less that of the first, in [-1, 1].
        macro_f1_interval: 95 % interval of that, from the same draws.
        only_this_right: texts that it answers rightly and the first does not.
        only_first_right: texts likewise the other way round.
        same_answers: share of the texts to which both give the same class, in [0, 1].
        p_value: probability of so uneven a split of these texts, or a more uneven one, if both were equally good (McNemar, exact).
        p_corrected: the same, corrected for the number of comparisons (Holm).
        verdict: what that means, in words.
    """

    name: str
    accuracy: float
    accuracy_interval: tuple[float, float]
    macro_f1: float
    macro_f1_interval: tuple[float, float]
    only_this_right: int
    only_first_right: int
    same_answers: float
    p_value: float
    p_corrected: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """Several models on the same reviews.

    Args:
        data: source in words.
        split: split of the source.
        num_reviews: labelled reviews scored.
        models: scores, the first model's first.
        differences: every other model against the first.
    """

    data: str
    split: str
    num_reviews: int
    models: list[ModelScore]
    differences: list[Difference]


def compare_models(models: Sequence[tuple[str, Checkpoint, LabelledReviews]], seed: int = 0, watcher: Watcher = SILENT) -> Comparison:
    """Score models on the same reviews, and compare each with the first.

    Args:
        models: name, checkpoint and labelled reviews of each, two or more; the order of their classes may differ.
        seed: seed of the bootstrap.
        watcher: reporter of what goes on.

    Raises:
        MhaError: they have not read the same reviews.
    """
    first_name, first, labelled = models[0]
    labels, scores, answers = labelled.reviews.labels.astype(np.int64), [], []
    for name, checkpoint, given in models:
        ids = np.array([first.class_names.index(class_name) for class_name in checkpoint.class_names])  # in the order of the first
        if not np.array_equal(ids[given.reviews.labels], labels):
            raise MhaError(f"{name}: has read other texts than {first_name}", "compare on texts that nothing changes meanwhile")
        watcher.log(f"scoring {name}")
        probabilities = scorer_of(checkpoint)(given.reviews, lambda done: watcher.on_reviews(done, len(labels)))
        loss, accuracy = mean_loss_and_accuracy(probabilities, given.reviews.labels)
        answers.append(ids[probabilities.argmax(axis=1)])
        macro_f1 = float(macro_f1_of(labels, answers[-1], once(labels))[0])
        right = wilson_interval(int(np.sum(answers[-1] == labels)), len(labels))
        scores.append(ModelScore(name, accuracy, right, macro_f1, loss))
    watcher.log("drawing texts anew")
    named = zip(scores[1:], answers[1:], strict=True)
    differences = [difference(score.name, labels, answers[0], other, seed) for score, other in named]
    corrected = holm([one.p_value for one in differences])
    judged = [replace(one, p_corrected=p, verdict=verdict(one, first_name, p)) for one, p in zip(differences, corrected, strict=True)]
    return Comparison(labelled.data, labelled.split, len(labels), scores, judged)


def difference(name: str, labels: Ids, first: Ids, other: Ids, seed: int = 0) -> Difference:
    """A model's answers against those of the first, without a verdict: class ids, (N,) each.

    Source: McNemar 1947, "Note on the sampling error of the difference between correlated proportions or percentages", in its exact,
    binomial form; the intervals are those of ``bootstrap``.
    """
    rows = np.stack([labels, first, other], axis=1)
    measured = differences_of(rows, once(labels))[0]
    drawn = bootstrap(rows, seed, differences_of)
    gained, lost = (int(np.sum((one == labels) & (two != labels))) for one, two in ((other, first), (first, other)))
    p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return Difference(
        name=name,
        accuracy=float(measured[0]),
        accuracy_interval=interval(drawn[:, 0]),
        macro_f1=float(measured[1]),
        macro_f1_interval=interval(drawn[:, 1]),
        only_this_right=gained,
        only_first_right=lost,
        same_answers=float(np.mean(first == other)),
        p_value=p_value,
        p_corrected=p_value,
        verdict="",
    )


def differences_of(rows: Ids, drawn: Ids) -> npt.NDArray[np.float64]:
    """Differences of accuracy and of macro F1 in every draw, (D, 2).

    Args:
        rows: label, answer of the first and answer of the other, (K, 3).
        drawn: how often each row was drawn, (D, K).
    """
    labels, first, other = rows.T
    ahead = drawn @ ((other == labels).astype(np.float64) - (first == labels)) / drawn.sum(axis=1)
    return np.stack([ahead, macro_f1_of(labels, other, drawn) - macro_f1_of(labels, first, drawn)], axis=1)


def once(labels: Ids) -> Ids:
    """The draw in which every text comes once, (1, N)."""
    return np.ones((1, len(labels)), np.int64)


def macro_f1_of(labels: Ids, answers: Ids, drawn: Ids) -> npt.NDArray[np.float64]:
    """The mean F1 of the classes in every draw, (D,): 2 × right / (occurring + answered) of each class, if either is more than none."""

    def by_class(ids: Ids, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shape = max(labels.max(), answers.max()) + 1, len(ids)
        return np.asarray(csr_array((counts.astype(np.float64), (ids, np.arange(len(ids)))), shape=shape) @ drawn.T)

    all_rows = np.ones(len(labels))
    right, there = by_class(labels, labels == answers), by_class(labels, all_rows) + by_class(answers, all_rows)
    return np.asarray((2 * right / np.maximum(there, 1)).sum(axis=0) / (there > 0).sum(axis=0))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values, corrected so that all comparisons together are wrong as seldom as one alone would be.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = np.argsort(p_values)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(np.sort(p_values) * np.arange(len(order), 0, -1)), 1)
    return [float(p) for p in corrected]


def verdict(one: Difference, first: str, p_value: float) -> str:
    """What the figures mean, in words."""
    if not one.only_this_right + one.only_first_right:
        return f"right on the very same texts as {first}"
    if p_value >= LEVEL:
        return f"these texts do not tell it from {first}: the difference may be chance"
    return f"{'more' if one.accuracy > 0 else 'less'} accurate than {first}, and hardly by chance"
