"""What is in a file of labelled texts: how many, of which classes, how long, in which scripts, and what is odd about them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mha_cli.config.settings import TextConfig
from mha_cli.data.corpus import counted
from mha_cli.data.files import labelled_columns, read_labelled
from mha_cli.data.layout import Layout, find_layout
from mha_cli.data.paths import matching_paths, shown_path
from mha_cli.data.repeats import count_repeats
from mha_cli.data.scripts import script_shares
from mha_cli.errors import MhaError, listed, printable
from mha_cli.system.watcher import SILENT, Watcher
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


@dataclass(frozen=True)
class DataProfile:
    """Labelled texts in figures.

    Args:
        data: files and folders, as they were given.
        num_files: files and folders that these stand for.
        layout: where text and class stand in the first of them.
        num_texts: texts in all.
        classes: texts of each class, the most frequent first.
        lengths: tokens of the texts.
        scripts: share of letters in each script, the largest first.
        num_wordless: texts without a word, which the next two numbers leave out.
        num_repeated: texts that stand before them already, to the letter.
        num_two_labels: different texts that stand there with more than one label.
        num_blank: blank lines, which are left out.
    """

    data: tuple[str, ...]
    num_files: int
    layout: Layout
    num_texts: int
    classes: dict[str, int]
    lengths: Lengths
    scripts: dict[str, float]
    num_wordless: int
    num_repeated: int
    num_two_labels: int
    num_blank: int


def profile_data(
    given: Sequence[str], text_column: str | None = None, label_column: str | None = None, watcher: Watcher = SILENT
) -> DataProfile:
    """Look at labelled texts: guess from the beginning of the first file what is where, then read all of them once, as a stream.

    Args:
        given: files or folders, or patterns of them.
        text_column: column of the text; None guesses it.
        label_column: column of the class; None guesses it.
        watcher: reporter of what goes on.

    Raises:
        MhaError: there is no such file, or the first fault in it; or there is nothing that a classifier could learn.
    """
    paths = [path for pattern in given for path in matching_paths(pattern)]
    name = listed([*map(shown_path, paths)], 1)
    layout = find_layout(paths[0], text_column, label_column)
    blank_lines = Counter[str]()
    columns = labelled_columns(layout.text_column, layout.label_column, by_options=True)
    reviews = read_labelled(paths, columns, lambda: blank_lines.update(("",)))

    tokenize = make_tokenizer(TextConfig())
    class_ids, characters = dict[str, int](), Counter[str]()
    labels, lengths, hashes = array("i"), array("q"), array("q")
    for review in counted(reviews, lambda number: watcher.log(f"reading {name}: {number:,} texts")):
        labels.append(class_ids.setdefault(review.label, len(class_ids)))
        lengths.append(len(tokenize(review.text)))
        hashes.append(hash(review.text))
        characters.update(review.text)
        if len(class_ids) > MOST_CLASSES:
            raise MhaError(f"{name}: more than {MOST_CLASSES:,} classes", "is the label column the right one? See --label-column")
    if len(class_ids) < 2:
        raise MhaError(
            f"{name}: every text has the class '{printable(next(iter(class_ids)))}'", "a classifier needs texts of at least two classes"
        )

    tokens, ids = np.frombuffer(lengths, np.int64), np.frombuffer(labels, np.int32)
    median, ninety_percent = np.quantile(tokens, (0.5, 0.9), method="inverted_cdf")
    has_words = tokens > 0
    repeats = count_repeats(np.frombuffer(hashes, np.int64)[has_words], ids[has_words])
    numbers = Counter(dict(zip(class_ids, np.bincount(ids).tolist(), strict=True)))
    return DataProfile(
        data=tuple(given),
        num_files=len(paths),
        layout=layout,
        num_texts=len(tokens),
        classes=dict(numbers.most_common()),
        lengths=Lengths(int(median), int(ninety_percent), int(tokens.max())),
        scripts=script_shares(characters),
        num_wordless=int((~has_words).sum()),
        num_repeated=repeats.num_repeated,
        num_two_labels=repeats.num_two_labels,
        num_blank=blank_lines.total(),
    )
