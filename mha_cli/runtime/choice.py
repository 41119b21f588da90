"""Which of its probabilities a classifier answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from mha_cli.errors import MhaError, did_you_mean, printable

if TYPE_CHECKING:
    from mha_cli.runtime.classifier import Prediction
    from mha_cli.runtime.label_sets import LabelSets


class Answer(NamedTuple):
    """The answer to a text: a prediction after a ``Choice``."""

    prediction: Prediction
    label: str | None  # the class, or several labels in one cell; None for no answer
    labels: list[str] | None  # several labels or a set of labels, the most probable first; None if a text has one label
    probability: float  # of the label, of a set together, of several labels the smallest; without any, of the most probable class
    num_top: int = 0  # number of most probable classes that are asked for; 0 for the answer alone
    top: Sequence[tuple[str, float]] = ()  # so many of them, or fewer, and their probabilities
    path: tuple[str, ...] = ()  # the levels of the label, where labels have some

    def as_json(self, number: int) -> dict[str, object]:
        """All about the text with this id, as ``mha predict --json`` prints it."""
        prediction = self.prediction
        probabilities = dict(self.top) if self.num_top else prediction.probabilities
        return {
            "id": number,
            **({"label": self.label} if self.labels is None else {"labels": self.labels}),
            **({"path": [*self.path]} if prediction.levels and self.labels is None else {}),
            **({"none": prediction.is_none} if prediction.none_label else {}),
            "probability": round(self.probability, 6),
            "probabilities": {name: round(value, 6) for name, value in probabilities.items()},
            "tokens": prediction.num_tokens,
            "unknown": prediction.num_unknown,
            "truncated": prediction.truncated,
            "empty": prediction.empty,
            "all_unknown": prediction.all_unknown,
        }


@dataclass(frozen=True)
class Choice:
    """How probabilities become answers."""

    threshold: float | None = None  # probability in [0, 1] that a class needs to be an answer; None takes the checkpoint's thresholds
    only: tuple[str, ...] = ()  # classes that are looked for; empty means all
    top_k: int | Literal["all"] | None = None  # number of most probable classes to give, or all; None is the answer alone
    marks: bool = False  # whether a table has a column per class, with 1 for the labels of a text, instead of label and probability
    level: int | None = None  # level of the answers, from 1, where labels have some; None is the finest that is sure enough
    sets: LabelSets | None = None  # sets of labels for a coverage; None for single answers

    def refuse_unknown(self, class_names: Sequence[str], has_levels: bool = False) -> None:
        """Refuse to look for a class, or a level, that the model does not have; in levels, all nodes are classes."""
        if self.level is not None and not has_levels:
            raise MhaError("--level: the labels of the model have no levels", "leave it out, or train with data.label_levels")
        for name in self.only:
            if name not in class_names:
                raise MhaError(
                    f"--only {printable(name)}: no class of the model", did_you_mean(printable(name), map(printable, class_names))
                )

    def answer(self, prediction: Prediction) -> Answer:
        """The answer to a text."""
        probabilities, labels, path = prediction.probabilities, None, tuple[str, ...]()
        label: str | None
        if prediction.is_none and (self.threshold is not None or self.sets):  # which replace that rule
            prediction = replace(prediction, is_none=False)
        path_of = prediction.levels.path_of if prediction.levels else lambda name: (name,)
        wanted = [*map(path_of, self.only)]
        if self.sets is not None:
            labels = self.sets.labels(probabilities)
            is_wanted = any(_is_at_or_below(path_of(name), wanted) for name in labels)
            label = prediction.label_separator.join(labels) if is_wanted else None
            return Answer(prediction, label, labels, min(1.0, sum(map(probabilities.__getitem__, labels))))
        if prediction.levels:
            threshold = prediction.level_threshold if self.threshold is None else self.threshold
            _, label, path, probability = prediction.node(threshold, self.level, () if self.threshold is None else wanted)
            if probability < (self.threshold or 0.0) or not _is_at_or_below(path, wanted):
                label, path = None, ()
        elif prediction.labels is None:
            label = self._label(prediction)
            probability = prediction.probability if label is None else probabilities[label]
        else:
            labels = self._labels(prediction)
            label = prediction.label_separator.join(labels) or None
            probability = min(map(probabilities.__getitem__, labels), default=prediction.probability)
        if self.top_k is None:
            return Answer(prediction, label, labels, probability, path=path)
        num_top = len(probabilities) if self.top_k == "all" else min(self.top_k, len(probabilities))
        return Answer(prediction, label, labels, probability, num_top, self._top(prediction, num_top), path)

    def _label(self, prediction: Prediction) -> str | None:
        """The most probable class; None if it is not probable enough, or not looked for.

        With a threshold, it is the most probable one of the classes that are looked for. So a threshold below one half finds more texts
        of a class than those of which it is the most probable class.
        """
        if self.threshold is None:
            return prediction.answer if not self.only or prediction.answer in self.only else None
        best = max(self.only, key=prediction.probabilities.__getitem__) if self.only else prediction.label
        return best if prediction.probabilities[best] >= self.threshold else None

    def _labels(self, prediction: Prediction) -> list[str]:
        """The labels that reach the threshold and are looked for, the most probable first."""
        labels: Sequence[str] = prediction.labels or ()
        if self.threshold is not None:
            labels = [name for name, probability in _ranked(prediction) if probability >= self.threshold]
        return [name for name in labels if not self.only or name in self.only]

    def _top(self, prediction: Prediction, number: int) -> list[tuple[str, float]]:
        """The most probable classes that reach the threshold; none below the checkpoint's threshold of the first, and for none of these."""
        if self.threshold is None and (prediction.is_none or prediction.is_withheld):
            return []
        return [item for item in _ranked(prediction)[:number] if self.threshold is None or item[1] >= self.threshold]


def _is_at_or_below(path: tuple[str, ...], wanted: Sequence[tuple[str, ...]]) -> bool:
    """Whether a path begins with one that is wanted; with none, all are wanted."""
    return not wanted or any(path[: len(above)] == above for above in wanted)


def _ranked(prediction: Prediction) -> list[tuple[str, float]]:
    classes = (item for item in prediction.probabilities.items() if item[0] != prediction.none_label)
    return sorted(classes, key=lambda item: -item[1])
