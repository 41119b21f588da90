"""The words of classes: as further texts to learn from, and to guess the labels of texts that have none.

Labels are guessed by the nearest class, and then by self-training.

Source: Yarowsky 1995, "Unsupervised Word Sense Disambiguation Rivaling Supervised Methods" (learn from the surest guesses, guess again).

Axes: N texts, L lines of words, D features, C classes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mha_cli.arrays import Floats, Int64s
from mha_cli.config.settings import Config
from mha_cli.corpus.encoded_texts import EncodedTexts, encode_labelled
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.runtime.encoder_features import EncoderFeatures
from mha_cli.sources.labelled_text import LabelledText, TextSource
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline

WORTH = 8.0  # labelled texts that the words of a class count as, all lines together: with fifty labels or more, they matter little
ROUNDS, SUREST = 3, 0.5  # rounds of self-training, and the share of each class that a round learns from
STRENGTH = 10.0  # scikit-learn's C


def class_texts(config: Config, pipeline: TextPipeline, class_names: tuple[str, ...]) -> EncodedTexts:
    """A text for each line of ``config.class_lines``, labelled with its class."""
    lines = config.class_lines
    if unknown := [printable(name) for name, _ in lines if name not in class_names]:
        raise MhaError(f"classes: {unknown[0]} is no class of the texts", f"their classes are {listed([*map(printable, class_names)])}")
    texts = (LabelledText(line, (name,) if config.is_multi_label else name) for name, line in lines)
    return replace(encode_labelled(texts, pipeline, class_names, "classes"), weights=line_weights([name for name, _ in lines]))


def line_weights(names: Sequence[str]) -> Floats:
    """How many texts each line counts as, from the names of the lines' classes."""
    num_lines = Counter(names)
    return np.array([WORTH / num_lines[name] for name in names], np.float32)


class GuessedTexts(TextSource):
    """The training texts of a source that has no labels."""

    def __init__(self, source: TextSource, config: Config, callbacks: Callbacks) -> None:
        self.name, self.splits, self._source, texts = source.name, source.splits, source, list(source.unlabelled() or ())
        if not texts:
            raise MhaError(f"{self.name}: no texts", "give texts to learn from")
        if wordless := [printable(name) for name in config.classes if name not in dict(config.class_lines)]:
            raise MhaError(f"classes: no words for {listed(wordless)}", "without labels, every class needs a line of words")
        if len(config.classes) < 2:
            raise MhaError("classes: texts without labels need two classes in words, or more", "name them with --classes FILE")
        if not config.model.pretrained:
            raise MhaError("texts without labels need a pretrained encoder", "take --config pretrained, and name its folder")
        self.class_names = tuple(config.classes)
        names, lines = zip(*config.class_lines, strict=True)

        def count(done: int) -> None:
            callbacks.count(f"{self.name}: compared {done:,} of {plural(len(texts), 'text')} with the words of the classes")

        features_ND = EncoderFeatures(Path(config.model.pretrained), config.text.prompt)(chain(texts, lines), count)
        line_classes = np.array([self.class_names.index(name) for name in names])
        self._labels = guessed_labels(features_ND[: len(texts)], features_ND[len(texts) :], line_classes, WORTH)
        self._texts = texts

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts with their guessed labels; other splits as they are."""
        if split != "train":
            yield from self._source.read(split)
            return
        for number, (text, label) in enumerate(zip(self._texts, self._labels.tolist(), strict=True), start=1):
            yield LabelledText(text, self.class_names[label], file=self.name, line=number)


def nearest_classes(features_ND: Floats, lines_LD: Floats, line_classes: Int64s) -> Floats:
    """The cosine of every text and the mean of each class's lines, (N, C); features have norm 1."""
    means_CD = np.stack([lines_LD[line_classes == class_id].mean(axis=0) for class_id in range(line_classes.max() + 1)])
    cosines: Floats = features_ND @ (means_CD / np.linalg.norm(means_CD, axis=1, keepdims=True)).T
    return cosines


def guessed_labels(features_ND: Floats, lines_LD: Floats, line_classes: Int64s, worth: float) -> Int64s:
    """The class of each text, (N,).

    At first it is the class of the nearest words. Then a logistic regression learns from the surest half of each class and from the words
    themselves, which count as ``worth`` texts of their class, and guesses again. All classes weigh the same: they would otherwise grow
    and shrink by their own errors.
    """
    from sklearn.linear_model import LogisticRegression

    scores_NC = nearest_classes(features_ND, lines_LD, line_classes)
    word_weights = worth / np.bincount(line_classes)[line_classes]
    for _ in range(ROUNDS):
        rows, labels = surest(scores_NC), scores_NC.argmax(axis=1)
        sizes = np.bincount(labels[rows], minlength=scores_NC.shape[1])
        weights = (len(rows) / len(sizes) / np.maximum(sizes, 1))[labels[rows]]
        model = LogisticRegression(C=STRENGTH, max_iter=300, tol=1e-3)
        model.fit(np.concatenate([features_ND[rows], lines_LD]), [*labels[rows], *line_classes], [*weights, *word_weights])
        scores_NC = model.predict_proba(features_ND)
    guesses: Int64s = scores_NC.argmax(axis=1)
    return guesses


def surest(scores_NC: Any) -> Int64s:
    """Rows of the surest half of each guessed class, by the distance of its score to the second one."""
    labels, ordered_NC = scores_NC.argmax(axis=1), np.sort(scores_NC, axis=1)
    margins = ordered_NC[:, -1] - ordered_NC[:, -2]
    of_classes = (np.flatnonzero(labels == class_id) for class_id in range(scores_NC.shape[1]))
    return np.concatenate([rows[np.argsort(-margins[rows], kind="stable")[: int(np.ceil(SUREST * len(rows)))]] for rows in of_classes])
