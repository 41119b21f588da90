"""A checkpoint put to use: texts in, class probabilities out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mha_cli.arrays import Floats, Int32s
from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.parameters import input_names
from mha_cli.config.settings import LABEL_SEPARATOR
from mha_cli.errors import MhaError
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.forward import class_probabilities
from mha_cli.runtime.levels import Levels, Node, levels_of
from mha_cli.runtime.none_of_these import none_of_these
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.in_memory import texts_in
from mha_cli.text.encoding import EncodedText

if TYPE_CHECKING:
    from mha_cli.runtime.shares import ClassShare


@dataclass(frozen=True)
class Prediction:
    """The classifier's answer to one text."""

    text: str  # text as it came in
    label: str  # most probable class, other than that of ``data.none_label``
    probability: float  # probability of that class, in [0, 1]
    probabilities: dict[str, float]  # probability of every class, in [0, 1]; they sum to 1, unless a text may have several labels
    num_tokens: int  # tokens of the whole text
    num_read: int  # tokens that the model reads of them
    num_unknown: int  # tokens among those read that the vocabulary does not have
    num_marks: int  # punctuation marks among those read that the vocabulary has
    threshold: float = 0.0  # probability that the checkpoint asks of that class, in [0, 1]
    labels: tuple[str, ...] | None = None  # classes that reach their thresholds, the most probable first; None if a text has one label
    label_separator: str = LABEL_SEPARATOR  # separator of the labels in one cell
    levels: Levels | None = None  # the tree of labels in levels
    level_threshold: float = 0.0  # probability that an answer in levels needs
    none_label: str | None = None  # label of texts of no class, in ``data.none_label``, which is no answer
    is_none: bool = False  # whether the text belongs to no class

    @property
    def answer(self) -> str | None:
        """The most probable class; None below its threshold or for none of these. Of several labels, all in one cell. In levels, a node."""
        if self.levels:
            return self.node(self.level_threshold).name
        if self.labels is not None:
            return self.label_separator.join(self.labels) or None
        return None if self.is_none or self.is_withheld else self.label

    def node(self, threshold: float = 0.0, level: int | None = None, within: Sequence[tuple[str, ...]] = ()) -> Node:
        """The answer in levels: the finest node that reaches a threshold, or the most probable one of a level.

        Nodes at and below those of ``within`` come first; a node outside says that none of them is the answer.
        """
        assert self.levels
        of_nodes_1M = self.levels.probabilities(np.array([[*self.probabilities.values()]], np.float32))
        likely_1M = np.where(self.levels.within(within), of_nodes_1M, -1.0) if within else of_nodes_1M
        (number,) = self.levels.finest(likely_1M, threshold) if level is None else self.levels.at_level(likely_1M, level)
        return Node(int(number), self.levels.names[number], self.levels.paths[number], float(of_nodes_1M[0, number]))

    @property
    def is_withheld(self) -> bool:
        """Whether the one label of the text is below its threshold in the checkpoint."""
        return self.labels is None and self.levels is None and self.probability < self.threshold

    @property
    def num_words(self) -> int:
        """Tokens that the model reads, without the punctuation marks that it knows."""
        return self.num_read - self.num_marks

    @property
    def truncated(self) -> bool:
        """Whether the text was cut to the model's length."""
        return self.num_tokens > self.num_read

    @property
    def empty(self) -> bool:
        """Whether the text has no token: the answer is the same for all such texts."""
        return not self.num_tokens

    @property
    def all_unknown(self) -> bool:
        """Whether the text has words, but the vocabulary has none of those that are read."""
        return self.num_unknown == self.num_words > 0

    @property
    def flags(self) -> str:
        """Reasons to doubt the answer, for programs; ``-`` for none, so that a line has as many words as columns."""
        flags = {"empty": self.empty, "unknown": self.all_unknown, "cut": self.truncated, "none": self.is_none}
        return ",".join(flag for flag, applies in flags.items() if applies) or "-"


class Classifier:
    """Classifies texts with a checkpoint's weights.

    Args:
        engine: engine of the encoder; None is NumPy.
        threads: batches of one call that are computed at once; None takes one for each core. A copy by pickle takes one.
    """

    def __init__(self, checkpoint: Checkpoint, engine: Engine | None = None, threads: int | None = 1) -> None:
        self.checkpoint = checkpoint
        self.engine = engine or Engine(checkpoint)
        self.text_pipeline = checkpoint.text_pipeline
        self._scorer, self._levels = Scorer(checkpoint, self.engine, threads), levels_of(checkpoint)
        self._none = none_of_these(checkpoint)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their ids."""
        return self.checkpoint.class_names

    def __reduce__(self) -> tuple[type[Classifier], tuple[Checkpoint]]:
        """A pickle holds the checkpoint."""
        return Classifier, (self.checkpoint,)

    def __repr__(self) -> str:
        """The checkpoint's line."""
        return repr(self.checkpoint).replace("<Checkpoint", "<Classifier", 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the checkpoint, a small one in the small form; an earlier file of that name is replaced only by a whole one."""
        write_checkpoint(Path(path), self.checkpoint, small=not self.checkpoint.keras_config)

    def predict(self, texts: Iterable[str]) -> list[Prediction]:
        """One prediction per text, in order. Texts of similar length are computed together."""
        given = texts_in(texts, self.checkpoint.text_columns)
        encoded = self.text_pipeline.encode_all(given)
        return self.predictions(given, encoded, self.probabilities(encoded))

    def shares(self, texts: Iterable[str]) -> list[ClassShare]:
        """The share of each class among texts, with its 95 % interval, the largest first; of several labels per text, each by itself."""
        from mha_cli.runtime.shares import ShareEstimator  # here, since a prediction need not wait for it

        estimator = ShareEstimator(self.checkpoint)
        encoded = self.text_pipeline.encode_all(texts_in(texts, self.checkpoint.text_columns))
        if not encoded:
            raise MhaError("no text", "give some")
        estimator.add(self.probabilities(encoded))
        return estimator.groups()[0].classes

    def label_sets(self, texts: Iterable[str], coverage: float) -> list[list[str]]:
        """For each text the labels that hold the right one for a share ``coverage`` of texts, in (0, 1), the most probable first."""
        from mha_cli.runtime.label_sets import fit_label_sets

        sets = fit_label_sets(self.checkpoint, coverage)
        return [sets.labels(prediction.probabilities) for prediction in self.predict(texts)]

    def probabilities(self, encoded: Sequence[EncodedText]) -> Floats:
        """Probabilities of all classes, (N, C), for texts from ``text_pipeline``."""
        return self._scorer.score_each(encoded)

    def predictions(self, texts: Iterable[str], encoded: Iterable[EncodedText], probabilities: Floats) -> list[Prediction]:
        """The predictions for texts from their probabilities (N, C)."""
        names, thresholds, config = self.checkpoint.class_names, self.checkpoint.thresholds, self.checkpoint.config
        label_thresholds, separator = self.checkpoint.label_thresholds.tolist() if config.is_multi_label else [], config.cell_separator
        predictions, rows, none = [], probabilities.tolist(), self._none
        none_label = none.label if none else None
        of_classes = np.where(none.is_class, probabilities, -1.0).tolist() if none else rows
        are_none = none.are_none(probabilities).tolist() if none else [False] * len(rows)
        for text, code, row, possible, is_none in zip(texts, encoded, rows, of_classes, are_none, strict=True):
            probability = max(possible)
            label, labels = names[possible.index(probability)], None
            if config.is_multi_label:
                ranked = sorted(zip(row, names, label_thresholds, strict=True), key=lambda item: -item[0])
                labels = tuple([name for likely, name, threshold in ranked if likely >= threshold])
            by_class, counts = dict(zip(names, row, strict=True)), (code.num_tokens, len(code.tokens), code.num_unknown, code.num_marks)
            least, in_levels = thresholds.get(label, 0.0), (self._levels, self.checkpoint.level_threshold)
            fields = text, label, probability, by_class, *counts, least, labels, separator, *in_levels
            predictions.append(Prediction(*fields, none_label=none_label, is_none=is_none))
        return predictions


def forward_of(checkpoint: Checkpoint) -> Callable[[dict[str, Int32s]], Floats]:
    """The forward pass of a checkpoint, as a function from padded inputs by their names to probabilities of all classes (B, C)."""
    names = input_names(checkpoint.config)
    return lambda inputs: class_probabilities(inputs[names[-1]], checkpoint.weights, checkpoint.config, pieces_BP=inputs.get("pieces"))
