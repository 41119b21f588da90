"""The training and test data of a config, as a training would find them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.corpus import Corpus, counted
from mha_cli.data.decisions import decide
from mha_cli.data.files import FileTexts
from mha_cli.data.preparation import default_split
from mha_cli.data.profile import TextFigures, figures_of
from mha_cli.data.sources import open_source, with_columns
from mha_cli.errors import plural
from mha_cli.records.reader import StreamWarnings
from mha_cli.system.callbacks import SILENT, Callbacks


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

    warnings = source.warnings if isinstance(source, FileTexts) else StreamWarnings()
    train_split, test_split = source.splits[0], default_split(config.data)

    def read(split: str, class_names: tuple[str, ...] | None = None, learnable: bool = False) -> Corpus:
        where = f"{source.name}, split {split}"
        texts = counted(source.read(split), lambda number: callbacks.log(f"reading {where}: {plural(number, 'text')}"))
        return Corpus(texts, config.text, class_names, where, learnable=learnable)

    train = read(train_split, source.class_names, learnable=True)
    num_blank, num_quoted_rows = warnings.num_blank, warnings.num_quoted_rows
    text = decide(config, train.facts()).text if config.auto else config.text
    vocabulary = train.vocabulary(np.arange(len(train)), text.vocabulary_size)

    def overview(split: str, corpus: Corpus, figures: TextFigures, **more: int) -> SplitOverview:
        num_cut = int((corpus.lengths > text.sequence_length).sum())
        unknown_share = corpus.unknown_share(vocabulary, of_others=corpus is train)
        return SplitOverview(split, figures, _histogram(corpus.lengths), num_cut, unknown_share, **more)

    of_train, of_test = overview(train_split, train, figures_of(train, num_blank, num_quoted_rows)), None
    if test_split in source.splits[1:]:
        test = read(test_split)
        figures = figures_of(test, warnings.num_blank - num_blank, warnings.num_quoted_rows - num_quoted_rows)
        num_in_training = int(np.isin(test.hashes_of_words, train.hashes_of_words).sum())
        num_new = sum(number for label, number in test.sizes.items() if label not in train.sizes)
        of_test = overview(test_split, test, figures, num_in_training=num_in_training, num_new_classes=num_new)
    for warning in warnings.lines:
        callbacks.note(warning)
    return DataOverview(source.name, len(vocabulary), text.sequence_length, of_train, of_test)


def _histogram(lengths: npt.NDArray[np.int64]) -> dict[int, int]:
    """Texts by the bound that their tokens do not exceed; none is left out between the smallest and the largest."""
    bounds = np.array(sorted({(2 + half) << power >> 1 for power in range(62) for half in (0, 1)}))  # 1, 2, 3, 4, 6, 8, 12, 16, …
    at = np.searchsorted(bounds, lengths)
    return {int(bounds[first]): int(number) for first, number in enumerate(np.bincount(at - at.min()), at.min())}
