"""Labelled texts in figures: what `mha init` finds in files, and what `mha data` shows of the training and test data of a config."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Int64s
from mha_cli.config.decisions import decide
from mha_cli.config.settings import Config, TextConfig
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.corpus.data_issues import DataIssues
from mha_cli.errors import listed, shown_path
from mha_cli.preparation.scored_texts import default_split
from mha_cli.records.reader import USUAL, Dialect, StreamWarnings
from mha_cli.sources.files import FileTexts, labelled_columns, read_labelled
from mha_cli.sources.labels import in_levels
from mha_cli.sources.layout import Layout, find_layout
from mha_cli.sources.opening import open_source
from mha_cli.sources.raw_files import matching_paths
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import SILENT, Callbacks

MOST_PAIRS = 5  # of labels that come together


@dataclass(frozen=True)
class Lengths:
    """Quantiles of the lengths of texts, in tokens: words and punctuation marks."""

    median: int
    ninety_percent: int
    longest: int


@dataclass(frozen=True, kw_only=True)
class TextFigures(DataIssues):
    """Labelled texts in figures, with their likely mistakes."""

    num_texts: int
    classes: dict[str, int]  # texts of each class, the most frequent first
    lengths: Lengths
    scripts: dict[str, float]  # share of letters in each script, the largest first
    labels_per_text: float | None = None  # mean number of labels; None if a text has one
    together: dict[str, int] | None = None  # texts that have both of two labels, the most frequent pairs first; None if a text has one


@dataclass(frozen=True)
class DataProfile:
    """What `mha init` finds: files, folders and patterns as given, the layout of the first file, and all texts in figures."""

    data: tuple[str, ...]
    num_files: int
    layout: Layout
    texts: TextFigures
    dialect: Dialect = USUAL


@dataclass(frozen=True)
class SplitOverview:
    """A split of the data."""

    split: str
    texts: TextFigures
    histogram: dict[int, int]  # texts by upper bound of their tokens; the bounds are 1, 2, 3, 4, 6, 8, 12, 16 and so on
    num_cut: int  # texts that are longer than the model reads
    unknown_share: float  # share of tokens that the vocabulary lacks; in training data each text is read with the vocabulary of all others
    num_in_training: int | None = None  # test texts that are equal to a training text; None for training data
    num_new_classes: int | None = None  # test texts of a class that the training data lack; None for training data


@dataclass(frozen=True)
class DataOverview:
    """Training and test data, and the vocabulary and length that a training would use; the validation part belongs to the training data."""

    data: str
    vocabulary_size: int
    sequence_length: int
    train: SplitOverview
    test: SplitOverview | None


def profile_data(
    given: Sequence[str],
    text_column: str | None = None,
    label_column: str | None = None,
    callbacks: Callbacks = SILENT,
    dialect: Dialect = USUAL,
) -> DataProfile:
    """Guess the layout from the beginning of the first file, then read all files, folders and patterns once, as a stream."""
    paths = [path for pattern in given for path in matching_paths(pattern)]
    layout, warnings = find_layout(paths[0], text_column, label_column, dialect), StreamWarnings()
    columns = labelled_columns(layout.text_column, layout.label_column, True, layout.label_columns)
    name = listed([*map(shown_path, paths)], 1)
    texts = read_labelled(paths, columns, dialect, warnings, layout.label_separator)
    texts = in_levels(texts, layout.label_levels, {}) if layout.label_levels else texts
    figures = _figures_of(Corpus(counted(texts, name, callbacks), TextConfig(), None, name), warnings, callbacks)
    return DataProfile(tuple(given), len(paths), layout, figures, dialect)


def data_overview(config: Config, by_options: bool = False, callbacks: Callbacks = SILENT) -> DataOverview:
    """Read training and test data once each, as a stream; open settings are decided as in a training.

    Messages name options of the command rather than settings with ``by_options``.
    """
    source = open_source(config.data, callbacks, by_options)

    def read(split: str, class_names: tuple[str, ...] | None = None, learnable: bool = False) -> tuple[Corpus, TextFigures]:
        where = f"{source.name}, split {split}"
        texts = counted(source.read(split), where, callbacks)
        corpus = Corpus(texts, config.text, class_names, where, learnable=learnable)
        return corpus, _figures_of(corpus, source.warnings if isinstance(source, FileTexts) else StreamWarnings(), callbacks)

    train, figures = read(source.splits[0], source.class_names, learnable=True)
    text = decide(config, train.facts()).text if config.auto else config.text
    vocabulary = train.vocabulary(np.arange(len(train)), text.vocabulary_size)

    def overview(split: str, corpus: Corpus, figures: TextFigures, **more: int) -> SplitOverview:
        num_cut = int((corpus.lengths > text.sequence_length).sum())
        unknown_share = corpus.unknown_share(vocabulary, of_others=corpus is train)
        return SplitOverview(split, figures, _histogram(corpus.lengths), num_cut, unknown_share, **more)

    of_train, of_test = overview(source.splits[0], train, figures), None
    if (split := default_split(config.data)) in source.splits[1:]:
        test, figures = read(split)
        num_new = sum(number for label, number in test.sizes.items() if label not in train.sizes)
        of_test = overview(split, test, figures, num_in_training=train.count_known(test.hashes), num_new_classes=num_new)
    return DataOverview(source.name, len(vocabulary), text.sequence_length, of_train, of_test)


def _figures_of(corpus: Corpus, warnings: StreamWarnings, callbacks: Callbacks) -> TextFigures:
    for warning in warnings.lines:
        callbacks.note(warning)
    median, ninety_percent = np.quantile(corpus.lengths, (0.5, 0.9), method="inverted_cdf")
    return TextFigures(
        num_texts=len(corpus),
        classes=dict(Counter(corpus.sizes).most_common()),
        lengths=Lengths(int(median), int(ninety_percent), int(corpus.lengths.max())),
        scripts=_script_shares(corpus.characters()),
        labels_per_text=float(corpus.labels.sum() / len(corpus)) if are_several(corpus.labels) else None,
        together=_most_together(corpus) if are_several(corpus.labels) else None,
        **vars(corpus.data_issues(warnings)),
    )


def _most_together(corpus: Corpus) -> dict[str, int]:
    """The most frequent pairs of labels."""
    texts_CC = np.triu(corpus.labels.T.astype(np.int32) @ corpus.labels.astype(np.int32), 1)
    pairs = np.argsort(-texts_CC, axis=None, kind="stable")[:MOST_PAIRS]
    names, indices = corpus.class_names, zip(*np.unravel_index(pairs, texts_CC.shape), strict=True)
    return {f"{names[i]} + {names[j]}": int(texts_CC[i, j]) for i, j in indices if texts_CC[i, j]}


def _histogram(lengths: Int64s) -> dict[int, int]:
    """Texts by upper bound of their tokens; between the smallest and the largest, no bound is left out."""
    bounds = np.array(sorted({(2 + half) << power >> 1 for power in range(62) for half in (0, 1)}))  # 1, 2, 3, 4, 6, 8, 12, 16, …
    at = np.searchsorted(bounds, lengths)
    return {int(bounds[first]): int(number) for first, number in enumerate(np.bincount(at - at.min()), at.min())}


def _script_shares(characters: Mapping[str, int]) -> dict[str, float]:
    """The share of letters in each script, the largest first; a letter's name in Unicode begins with its script."""
    counts = Counter[str]()
    for letter, number in characters.items():
        if letter.isalpha():
            script = unicodedata.name(letter, "other").removeprefix("HALFWIDTH ").partition(" ")[0]
            counts["Han" if script == "CJK" else script.title()] += number
    return {script: number / counts.total() for script, number in counts.most_common()}
