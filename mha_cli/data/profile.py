"""What is in a file of labelled texts: how many, of which classes, how long, in which scripts, and what is odd about them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import TextConfig
from mha_cli.data.corpus import counted, refuse_unlearnable
from mha_cli.data.data_issues import Oddities, find_oddities
from mha_cli.data.files import labelled_columns, read_labelled
from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.layout import Layout, find_layout
from mha_cli.data.paths import matching_paths
from mha_cli.data.scripts import script_shares
from mha_cli.errors import MhaError, listed, plural, shown_path
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.records.warnings import StreamWarnings
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.text.tokenizer import make_tokenizer

MOST_CLASSES = 10_000


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
class TextFigures(Oddities):
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
    reviews = (placed.review for placed in read_labelled(paths, columns, dialect, warnings))
    tally = Tally(reviews, TextConfig(), listed([*map(shown_path, paths)], 1), callbacks)
    tally.refuse_unlearnable()
    for warning in warnings.lines:
        callbacks.note(warning)
    return DataProfile(tuple(given), len(paths), layout, tally.figures(warnings.num_blank, warnings.num_quoted_rows), dialect)


class Tally:
    """What is counted of labelled texts, which are read once.

    Args:
        reviews: labelled texts.
        settings: rules by which a text is split.
        name: origin of the texts, for messages.
        with_words: True to count each token, too, which takes more than half as long again.

    Attributes:
        lengths: tokens of each text, int64 (N,).
        words: how often each token occurs; empty unless they are counted, as is the next.
        num_texts_with: texts in which each token occurs.
    """

    def __init__(
        self, reviews: Iterable[LabelledText], settings: TextConfig, name: str, callbacks: Callbacks = SILENT, with_words: bool = False
    ) -> None:
        self._name = name
        tokenize = make_tokenizer(settings)
        class_ids, self._characters = dict[str, int](), Counter[str]()
        self.words, self.num_texts_with = Counter[str](), Counter[str]()
        self._spellings = Counter[tuple[str, str]]()
        labels, lengths, hashes = array("i"), array("q"), array("q")
        for review in counted(reviews, lambda number: callbacks.log(f"reading {name}: {plural(number, 'text')}")):
            tokens = tokenize(review.text)
            labels.append(class_ids.setdefault(review.label, len(class_ids)))
            lengths.append(len(tokens))
            hashes.append(hash(review.text))
            if review.spelling:
                self._spellings[review.label, review.spelling] += 1
            if with_words:
                self.words.update(tokens)
                self.num_texts_with.update(set(tokens))
            self._characters.update(review.text)
            if len(class_ids) > MOST_CLASSES:
                raise MhaError(f"{name}: more than {MOST_CLASSES:,} classes", "is the label column the right one?")
        if not labels:
            raise MhaError(f"{name}: no texts", "give labelled texts of at least two classes")
        self.lengths = np.frombuffer(lengths, np.int64)
        self._labels, self._hashes = np.frombuffer(labels, np.int32), np.frombuffer(hashes, np.int64)
        self.classes = dict(Counter(dict(zip(class_ids, np.bincount(self._labels).tolist(), strict=True))).most_common())

    @property
    def text_hashes(self) -> npt.NDArray[np.int64]:
        """A number for each text that has a word, the same for equal texts."""
        return self._hashes[self.lengths > 0]

    def refuse_unlearnable(self) -> None:
        """Raise an MhaError where a training would."""
        refuse_unlearnable(self._name, self.classes, bool(self.lengths.any()))

    def figures(self, num_blank: int = 0, num_quoted_rows: int = 0) -> TextFigures:
        """All of it in figures.

        Args:
            num_blank: blank lines that were left out.
            num_quoted_rows: lines inside quoted fields that would be rows by themselves.
        """
        median, ninety_percent = np.quantile(self.lengths, (0.5, 0.9), method="inverted_cdf")
        odd = find_oddities(self._hashes, self._labels, self.lengths > 0, self.classes, self._spellings, num_blank)
        return TextFigures(
            num_texts=len(self.lengths),
            classes=self.classes,
            lengths=Lengths(int(median), int(ninety_percent), int(self.lengths.max())),
            scripts=script_shares(self._characters),
            **vars(replace(odd, num_quoted_rows=num_quoted_rows)),
        )
