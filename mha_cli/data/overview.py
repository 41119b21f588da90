"""The training and test data of a config, as a training would find them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mha_cli.config.settings import Config
from mha_cli.data.decisions import decide, facts_of
from mha_cli.data.files import FileTexts
from mha_cli.data.preparation import default_split
from mha_cli.data.profile import Tally, TextFigures
from mha_cli.data.sources import open_source, with_columns
from mha_cli.records.warnings import StreamWarnings
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.text.vocabulary import SPECIAL_TOKENS, most_frequent


@dataclass(frozen=True)
class SplitOverview:
    """A split of the data.

    Args:
        split: name of it.
        texts: its texts in figures.
        histogram: texts by the tokens that they have no more of, and more than of the bound before: 1, 2, 3, 4, 6, 8, 12, 16 and so on.
        num_cut: texts that are longer than the model reads.
        unknown_share: share of the tokens that the vocabulary lacks; in the training data, of each text's by that of all others.
        num_in_training: texts of the test data that stand in the training data, to the letter; None for these.
        num_new_classes: texts of the test data of a class that the training data lack; None for these.
    """

    split: str
    texts: TextFigures
    histogram: dict[int, int]
    num_cut: int
    unknown_share: float
    num_in_training: int | None = None
    num_new_classes: int | None = None


@dataclass(frozen=True)
class DataOverview:
    """Training and test data, by the vocabulary and the length that a training takes.

    Args:
        data: source in words.
        vocabulary_size: ids of the vocabulary, which is made of all training texts.
        sequence_length: tokens of a text that the model reads.
        train: training data, of which a part is to validate with.
        test: test data; None where there are none.
    """

    data: str
    vocabulary_size: int
    sequence_length: int
    train: SplitOverview
    test: SplitOverview | None


def look_over(config: Config, by_options: bool = False, callbacks: Callbacks = SILENT) -> DataOverview:
    """Read training and test data once each, as a stream.

    Args:
        config: settings that name the data, and by which they are read; what they leave open is decided as in a training.
        by_options: True if options of the command can name the columns of a file.
    """
    source = open_source(with_columns(config.data, callbacks.note), callbacks.log, by_options)

    def read(split: str) -> tuple[Tally, TextFigures]:
        warnings = source.warnings if isinstance(source, FileTexts) else StreamWarnings()
        num_blank, num_quoted_rows = warnings.num_blank, warnings.num_quoted_rows
        tally = Tally(source.read(split), config.text, f"{source.name}, split {split}", callbacks, with_words=True)
        return tally, tally.figures(warnings.num_blank - num_blank, warnings.num_quoted_rows - num_quoted_rows)

    train, figures = read(source.splits[0])
    train.refuse_unlearnable()
    text = decide(config, facts_of(train.lengths, train.words, len(train.classes))).text if config.auto else config.text
    numbers = np.fromiter(train.words.values(), np.int64, len(train.words))
    vocabulary = most_frequent([*train.words], numbers, text.vocabulary_size)
    tokens = vocabulary.tokens[len(SPECIAL_TOKENS) :]
    known = sum(train.words[token] for token in tokens if train.num_texts_with[token] > 1)

    def overview(split: str, tally: Tally, figures: TextFigures, num_known: int, **more: int) -> SplitOverview:
        num_tokens, num_cut = int(tally.lengths.sum()), int((tally.lengths > text.sequence_length).sum())
        return SplitOverview(split, figures, _histogram(tally), num_cut, 1 - num_known / num_tokens if num_tokens else 0.0, **more)

    test = None
    if (split := default_split(config.data)) in source.splits[1:]:
        tally, of_test = read(split)
        known_there = sum(tally.words[token] for token in tokens)
        num_in_training = int(np.isin(tally.text_hashes, train.text_hashes).sum())
        num_new = sum(number for label, number in tally.classes.items() if label not in train.classes)
        test = overview(split, tally, of_test, known_there, num_in_training=num_in_training, num_new_classes=num_new)
    first = overview(source.splits[0], train, figures, known)
    for warning in source.warnings.lines if isinstance(source, FileTexts) else ():
        callbacks.note(warning)
    return DataOverview(source.name, len(vocabulary), text.sequence_length, first, test)


def _histogram(tally: Tally) -> dict[int, int]:
    """Texts by the bound that their tokens do not exceed; none is left out between the smallest and the largest."""
    bounds = np.array(sorted({(2 + half) << power >> 1 for power in range(62) for half in (0, 1)}))  # 1, 2, 3, 4, 6, 8, 12, 16, …
    at = np.searchsorted(bounds, tally.lengths)
    return {int(bounds[first]): int(number) for first, number in enumerate(np.bincount(at - at.min()), at.min())}
