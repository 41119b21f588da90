"""Which of several models is better on the same labelled texts, and whether that may be chance.

Axes: N texts, K distinct rows of them, D draws, C classes, M models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mha_cli.arrays import Array, Bools, Float64s, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.intervals import bootstrap, interval, sign_test, wilson_interval
from mha_cli.runtime.metrics import answers_among, class_counts, equal, f1_scores, mean_loss_and_accuracy
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.labels import NAMED_CLASSES
from mha_cli.sources.targets import Labels, are_several
from mha_cli.system.callbacks import SILENT, Callbacks

LEVEL = 0.05  # significance level: above it, a difference may be chance


@dataclass(frozen=True)
class ModelScore:
    """The figures of a model, as ``Evaluation`` has them."""

    name: str
    accuracy: float  # where texts may have several labels, the share of texts with exactly the right ones
    accuracy_interval: tuple[float, float]
    macro_f1: float
    loss: float


@dataclass(frozen=True)
class Difference:
    """A model against the first one."""

    name: str
    accuracy: float  # its own minus the first one's, in [-1, 1], as is the macro F1
    accuracy_interval: tuple[float, float]  # 95 % interval of the difference (paired bootstrap), likewise
    macro_f1: float
    macro_f1_interval: tuple[float, float]
    only_this_right: int  # texts that only this one of the two answers rightly
    only_first_right: int  # texts that only the first one answers rightly
    same_answers: float  # share of the texts to which both give the same class, or the same labels, in [0, 1]
    p_value: float  # probability of a split of these texts at least as uneven if both were equally good (exact McNemar; Holm's of several)
    verdict: str  # the same in words


@dataclass(frozen=True)
class Comparison:
    """Several models on the same texts, and every other model against the first."""

    data: str
    split: str
    num_texts: int
    models: list[ModelScore]
    differences: list[Difference]


def compare_models(models: Sequence[tuple[str, Checkpoint, LabelledTexts]], seed: int = 0, callbacks: Callbacks = SILENT) -> Comparison:
    """Compare models with the first one, on texts from ``same_texts`` of the classes that all models have; other answers are wrong."""
    first_name, first, labelled = models[0]
    is_multi_label, labels, num_read = first.config.is_multi_label, labelled.texts.labels, len(labelled.texts)
    answers, scores, rows = list[Labels](), [], np.arange(num_read)
    shared = [name for name in first.class_names if all(name in checkpoint.class_names for _, checkpoint, _ in models)]
    unshared = sorted({name for _, checkpoint, _ in models for name in checkpoint.class_names}.difference(shared))
    class_names, num_shared = [*shared, *unshared], len(shared)
    for name, checkpoint, read in models:
        if checkpoint.config.is_multi_label != is_multi_label:
            raise MhaError(f"{name}: one of it and {first_name} gives several labels per text", "compare models of one kind")
        missing = [unknown for unknown in unshared if unknown not in checkpoint.class_names]
        ids = np.array([class_names.index(known) for known in (*checkpoint.class_names, *missing)])
        of_model = read.texts.labels[:, ids.argsort()[:num_shared]] if is_multi_label else ids[read.texts.labels]
        if answers and not np.array_equal(of_model, labels):
            raise MhaError(f"{name}: has read other texts than {first_name}", "compare on texts that nothing changes meanwhile")
        labels, rows = of_model, rows if is_multi_label else np.flatnonzero(of_model < num_shared)
        callbacks.log(f"scoring {name}")
        probabilities = np.zeros((num_read, len(class_names)), np.float32)
        probabilities[:, ids[: len(checkpoint.class_names)]] = Scorer(checkpoint)(
            read.texts, lambda done: callbacks.on_texts(done, num_read)
        )
        probabilities = probabilities[rows, : num_shared if is_multi_label else None]
        thresholds = np.array([checkpoint.thresholds.get(known, 0.5) for known in shared], np.float32)
        loss, accuracy = mean_loss_and_accuracy(probabilities, labels[rows], thresholds)
        answers.append(answers_among(probabilities, is_multi_label, thresholds))
        macro_f1 = float(np.nanmean(f1_scores(*class_counts(labels[rows], answers[-1], len(class_names)))))
        scores.append(ModelScore(name, accuracy, wilson_interval(round(accuracy * len(rows)), len(rows)), macro_f1, loss))
    if unshared:
        names, left_out = listed([*map(printable, unshared)], NAMED_CLASSES), plural(num_read - len(rows), "text")
        callbacks.note(f"{labelled.data}: classes that not all models have do not count: {names}; {left_out} of these left out")
    callbacks.log("drawing texts anew")
    return Comparison(labelled.data, labelled.split, len(rows), scores, differences(scores, labels[rows], answers, seed))


def differences(scores: Sequence[ModelScore], labels: Labels, answers: Sequence[Labels], seed: int = 0) -> list[Difference]:
    """Every other model against the first, from the labels of all texts, (N,) or (N, C), and the answers of each of M models, likewise.

    Source: McNemar 1947, "Note on the sampling error of the difference between correlated proportions or percentages", in its exact form.
    """
    if are_several(labels):
        drawn = bootstrap(np.concatenate([labels, *answers], axis=1), seed, partial(exact_matches_and_f1, len(answers)))
    else:
        drawn = bootstrap(np.stack([labels, *answers], axis=1), seed, accuracies_and_f1)
    ahead = drawn - drawn[:, :1]
    first, first_right, *others_right = scores[0], *(equal(answer, labels) for answer in answers)
    alone = [(int(np.sum(right & ~first_right)), int(np.sum(first_right & ~right))) for right in others_right]
    p_values = holm([sign_test(*pair) for pair in alone])
    return [
        Difference(
            name=score.name,
            accuracy=score.accuracy - first.accuracy,
            accuracy_interval=interval(ahead[:, number, 0]),
            macro_f1=score.macro_f1 - first.macro_f1,
            macro_f1_interval=interval(ahead[:, number, 1]),
            only_this_right=pair[0],
            only_first_right=pair[1],
            same_answers=float(equal(answers[number], answers[0]).mean()),
            p_value=p_value,
            verdict=verdict(first.name, *pair, p_value),
        )
        for number, (score, pair, p_value) in enumerate(zip(scores[1:], alone, p_values, strict=True), start=1)
    ]


def exact_matches_and_f1(num_models: int, rows: Bools, drawn: Int64s) -> Float64s:
    """``accuracies_and_f1`` where texts may have several labels, from labels and answers, (K, (1 + M) C)."""
    labels, *answers = np.split(rows, 1 + num_models, axis=1)
    figures = []
    for answer in answers:
        right, occurring = drawn @ (labels & answer), drawn @ (labels.astype(np.int64) + answer)
        figures.append((drawn @ equal(answer, labels) / drawn.sum(axis=1), _macro_f1(right, occurring)))
    return np.array(figures).transpose(2, 0, 1)


def accuracies_and_f1(rows: Int64s, drawn: Int64s) -> Float64s:
    """Accuracy and macro F1 in every draw, (D, M, 2), from label and answers, (K, 1 + M), and how often each row is drawn, (D, K)."""
    classes, ids = np.unique(rows, return_inverse=True)  # others would take memory
    labels, *answers = ids.reshape(rows.shape).T

    def by_class(ids: Int64s, counted: Array) -> Array:
        cells = ids[:, None] * len(drawn) + np.arange(len(drawn))
        sums = np.bincount(cells.ravel(), (counted[:, None] * drawn.T).ravel(), len(classes) * len(drawn))
        return sums.reshape(len(classes), len(drawn)).T

    figures, every = [], np.ones(len(rows))
    for answer in answers:
        right, occurring = by_class(labels, labels == answer), by_class(labels, every) + by_class(answer, every)
        figures.append((right.sum(axis=1) / drawn.sum(axis=1), _macro_f1(right, occurring)))
    return np.array(figures).transpose(2, 0, 1)


def _macro_f1(right: Array, occurring: Array) -> Float64s:
    """Macro F1 of every draw, (D,), from right answers by class, (D, C), and labels and answers together, likewise."""
    return np.asarray((2 * right / np.maximum(occurring, 1)).sum(axis=1) / (occurring > 0).sum(axis=1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values, corrected so that one of several comparisons is wrong by chance as seldom as a single one would be.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = np.argsort(p_values)
    corrected = np.maximum.accumulate(np.sort(p_values) * np.arange(len(order), 0, -1))
    return [min(float(p), 1.0) for p in corrected[np.argsort(order)]]


def verdict(first: str, only_this_right: int, only_first_right: int, p_value: float) -> str:
    """What the figures mean, in words."""
    if not only_this_right + only_first_right:
        return f"right on the very same texts as {first}"
    if p_value >= LEVEL:
        return f"these texts do not tell it from {first}: the difference may be chance"
    return f"{'more' if only_this_right > only_first_right else 'less'} accurate than {first}, hardly by chance"
