"""What is in a file of labelled texts: how many, of which classes, how long, in which scripts, and what is odd about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mha_cli.config.settings import TextConfig
from mha_cli.data.corpus import Corpus, counted
from mha_cli.data.data_issues import DataIssues
from mha_cli.data.files import labelled_columns, read_labelled
from mha_cli.data.layout import Layout, find_layout
from mha_cli.data.paths import matching_paths
from mha_cli.data.scripts import script_shares
from mha_cli.errors import listed, plural, shown_path
from mha_cli.records.reader import USUAL, Dialect, StreamWarnings
from mha_cli.system.callbacks import SILENT, Callbacks


@dataclass(frozen=True)
class Lengths:
    """How long texts are, in tokens: words and punctuation marks.

    Args:
        median: at least half of the texts have no more.
        ninety_percent: nine tenths of them have no more.
        longest: no text has more.
    """

    median: int
    ninety_percent: int
    longest: int


@dataclass(frozen=True, kw_only=True)
class TextFigures(DataIssues):
    """Labelled texts in figures, and what is odd about them.

    Args:
        num_texts: texts in all.
        classes: texts of each class, the most frequent first.
        lengths: tokens of the texts.
        scripts: share of letters in each script, the largest first.
    """

    num_texts: int
    classes: dict[str, int]
    lengths: Lengths
    scripts: dict[str, float]


@dataclass(frozen=True)
class DataProfile:
    """What `mha init` finds.

    Args:
        data: files and folders, as they were given.
        num_files: files and folders that these stand for.
        layout: where text and class stand in the first of them.
        texts: their texts in figures.
        dialect: encoding and quoting of the files.
    """

    data: tuple[str, ...]
    num_files: int
    layout: Layout
    texts: TextFigures
    dialect: Dialect = USUAL


def profile_data(
    given: Sequence[str],
    text_column: str | None = None,
    label_column: str | None = None,
    callbacks: Callbacks = SILENT,
    dialect: Dialect = USUAL,
) -> DataProfile:
    """Look at labelled texts: guess from the beginning of the first file what is where, then read all of them once, as a stream.

    Args:
        given: files or folders, or patterns of them.
        text_column: column of the text; None guesses it.
        label_column: column of the class; None guesses it.
        dialect: encoding and quoting of the files.
    """
    paths = [path for pattern in given for path in matching_paths(pattern)]
    layout, warnings = find_layout(paths[0], text_column, label_column, dialect), StreamWarnings(strict=True)
    columns = labelled_columns(layout.text_column, layout.label_column, by_options=True)
    name = listed([*map(shown_path, paths)], 1)
    texts = (located.labelled for located in read_labelled(paths, columns, dialect, warnings))
    corpus = Corpus(counted(texts, lambda number: callbacks.log(f"reading {name}: {plural(number, 'text')}")), TextConfig(), None, name)
    for warning in warnings.lines:
        callbacks.note(warning)
    figures = figures_of(corpus, warnings.num_blank, warnings.num_quoted_rows)
    return DataProfile(tuple(given), len(paths), layout, figures, dialect)


def figures_of(corpus: Corpus, num_blank: int, num_quoted_rows: int) -> TextFigures:
    """Labelled texts in figures; the numbers are those that the reader counted, see ``StreamWarnings``."""
    median, ninety_percent = np.quantile(corpus.lengths, (0.5, 0.9), method="inverted_cdf")
    return TextFigures(
        num_texts=len(corpus),
        classes=dict(Counter(corpus.sizes).most_common()),
        lengths=Lengths(int(median), int(ninety_percent), int(corpus.lengths.max())),
        scripts=script_shares(corpus.characters()),
        **vars(corpus.data_issues(num_blank, num_quoted_rows)),
    )
