"""Likely mistakes in labelled texts: repeated texts, texts without a word, odd labels, several labels in one."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Int32s, Int64s
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.sources.combined_labels import combined_in_words, find_combined
from mha_cli.sources.labels import NAMED_CLASSES

RARE = 0.1  # share of the mean number of texts of a class below which a class is rare


@dataclass(frozen=True, kw_only=True)
class DataIssues:
    """How often each likely mistake occurs in labelled texts; ``line`` has them in words."""

    num_wordless: int = 0  # texts without a word; the next two numbers leave them out
    num_repeated: int = 0
    num_two_labels: int = 0
    num_respelt: int = 0
    missing: tuple[str, ...] = ()  # classes whose names probably mean no label
    rare: tuple[str, ...] = ()  # classes with less than ``RARE`` of the texts of the mean class; none where texts have several labels
    num_combined: int = 0
    combined: str = ""  # most frequent of the labels that look like several; empty for none
    combined_separator: str = ""
    num_blank: int = 0
    num_quoted_rows: int = 0

    def line(self) -> str:
        """The mistakes that occur, with their numbers, in one line; empty if there are none."""
        shown = {name: listed([*map(printable, getattr(self, name))], NAMED_CLASSES) for name in ("missing", "rare")}
        counts = {
            "without a word": (self.num_wordless, ""),
            "repeated to the letter": (self.num_repeated, ""),
            "texts with two labels": (self.num_two_labels, ""),
            "classes that differ from others in case alone": (self.num_respelt, "data.merge_labels merges them"),
            "classes that may mean no label": (len(self.missing), shown["missing"]),
            "rare classes": (len(self.rare), f"{shown['rare']}; training.class_weights=balanced gives them more weight"),
            "labels that look like several in one": (self.num_combined, combined_in_words(self.combined, self.combined_separator)),
            "blank lines left out": (self.num_blank, ""),
            "lines in quotes that would be rows": (self.num_quoted_rows, ""),
        }
        return ", ".join(f"{what}: {number:,}{example and f' ({example})'}" for what, (number, example) in counts.items() if number)


def refuse_unlearnable(where: str, sizes: Mapping[str, int], has_words: bool, are_files: bool, num_texts: int) -> None:
    """Refuse texts, with these ``sizes`` of classes, that no classifier could learn from.

    ``has_words`` says whether any text has a word, and ``are_files`` whether each is a whole file, in the folder of its class.
    """
    num_single, num_labels = sum(size == 1 for size in sizes.values()), sum(sizes.values())
    if not sizes:
        raise MhaError(f"{where}: no text has a label", "a classifier needs texts of at least two classes")
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] == num_labels:
        fault = "every text has" if num_labels == num_texts else f"the only label, of {num_labels:,} of {num_texts:,} texts, is"
        raise MhaError(f"{where}: {fault} the class '{printable(largest)}'", "a classifier needs texts of at least two classes")
    if num_single > num_labels / 2:
        num_combined, example, separator = find_combined(sizes)
        hint = "check the label column"
        if are_files:
            hint = "each .txt file is one text: give every text a file of its own, or write a table with columns of texts and labels"
        if num_combined:
            hint = f"labels look like several in one ({combined_in_words(example, separator)}): set data.label_separator to it"
        counted = plural(num_labels, "text" if num_labels == num_texts else "label")
        raise MhaError(f"{where}: {num_single:,} of {counted} have a class of their own", hint)
    if missing := [name for name, size in sizes.items() if not size]:
        raise MhaError(f"{where}: the class '{printable(missing[0])}' has no text", "each class needs at least one to be learnt from")
    if not has_words:
        raise MhaError(f"{where}: none of the {plural(num_texts, 'text')} has a word", "is the text column the right one?")


def count_repeats(hashes: Int64s, class_ids: Int32s) -> tuple[int, int]:
    """Count the texts equal to an earlier one, and the different texts that occur with more than one label."""
    order = np.lexsort((class_ids, hashes))
    hashes, class_ids = hashes[order], class_ids[order]
    repeated = np.diff(hashes) == 0
    two_labels = hashes[1:][repeated & (np.diff(class_ids) != 0)]
    return int(repeated.sum()), len(np.unique(two_labels))
