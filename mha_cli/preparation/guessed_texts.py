"""Texts without labels as a source whose labels are guessed from the words of the classes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from mha_cli.config.settings import Config
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.preparation.class_texts import WORTH
from mha_cli.preparation.self_training import guessed_labels
from mha_cli.runtime.encoder_features import EncoderFeatures
from mha_cli.sources.labelled_text import LabelledText, TextSource
from mha_cli.system.callbacks import Callbacks


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

        features_ND = EncoderFeatures(Path(config.model.pretrained))(chain(texts, lines), count)
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
