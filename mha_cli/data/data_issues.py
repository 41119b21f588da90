"""Likely mistakes in labelled texts: repeated texts, texts without a word, labels spelt in several ways, several labels in one."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Int32s, Int64s
from mha_cli.data.labels import NAMED_CLASSES, is_spelt_out, labels_in
from mha_cli.errors import listed, printable

SEPARATORS = ",;|/"  # characters that may separate the labels in a cell
LEAST_COMBINED = 3  # least texts whose parts are all classes, or different cells whose parts occur in others, that are reported
MOST_CHARACTERS = 1000  # characters of a label above which it is not taken apart
SHOWN_SPELLINGS = 3
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
    binary_columns: tuple[str, ...] = ()  # columns of 0 and 1, of which one is read as the labels
    num_variants: int = 0
    variants: tuple[str, ...] = ()  # spellings of the class with most labels that are spelt otherwise than most of it, most frequent first
    num_combined: int = 0
    combined: str = ""  # most frequent of the labels that look like several; empty for none
    combined_separator: str = ""
    num_blank: int = 0
    num_quoted_rows: int = 0

    def line(self) -> str:
        """The mistakes that occur, with their numbers, in one line; empty if there are none."""
        shown = {name: listed([*map(printable, getattr(self, name))], NAMED_CLASSES) for name in ("missing", "rare", "binary_columns")}
        counts = {
            "without a word": (self.num_wordless, ""),
            "repeated to the letter": (self.num_repeated, ""),
            "texts with two labels": (self.num_two_labels, ""),
            "classes that differ from others in case alone": (self.num_respelt, "data.merge_labels merges them"),
            "classes that may mean no label": (len(self.missing), shown["missing"]),
            "rare classes": (len(self.rare), f"{shown['rare']}; training.class_weights=balanced gives them more weight"),
            "columns of 0 and 1, of which one is read": (len(self.binary_columns), shown["binary_columns"]),
            "labels spelt in more than one way": (self.num_variants, listed([*map(_shown, self.variants)], SHOWN_SPELLINGS)),
            "labels that look like several in one": (self.num_combined, combined_in_words(self.combined, self.combined_separator)),
            "blank lines left out": (self.num_blank, ""),
            "lines in quotes that would be rows": (self.num_quoted_rows, ""),
        }
        return ", ".join(f"{what}: {number:,}{example and f' ({example})'}" for what, (number, example) in counts.items() if number)


def find_combined(classes: Mapping[str, int]) -> tuple[int, str, str]:
    """Find labels that look like several labels in one cell: ``a,b`` and JSON lists, whose parts occur in other cells.

    Lists in quotes count, and labels in brackets if all are. Other labels count if all their parts are classes by themselves. They also
    count if the parts of most cells occur in other cells, and a part comes first in one and later in another. The parts of paths
    (``home/garden``) and names (``arts, crafts``) do not.

    Returns:
        Number of these texts, the most frequent label and its separator; zero and empty if there are none.
    """
    in_brackets = all(name[:1] + name[-1:] in ("[]", "{}") for name in classes)
    lists = [name for name in classes if is_spelt_out(name) or (in_brackets and "," in name)]
    if (number := sum(classes[name] for name in lists)) >= LEAST_COMBINED:
        return number, max(lists, key=lambda name: (len(labels_in(name, ",")) > 1, classes[name])), ","
    for separator in filter(" ".join(classes).__contains__, SEPARATORS):
        cells = {name: _parts(name, separator) for name in classes}
        several = {name: parts for name, parts in cells.items() if len(parts) > 1}
        if not several:
            continue
        single = {parts[0] for parts in cells.values() if len(parts) == 1}
        holders = Counter(part for parts in cells.values() for part in set(parts))
        free = {parts[0] for parts in cells.values()} & {part for parts in several.values() for part in parts[1:]}
        recurring = [name for name, parts in several.items() if min(holders[part] for part in parts) > 1]
        of_classes = [name for name in recurring if single.issuperset(several[name])]
        mixed = any(not free.isdisjoint(several[name]) for name in recurring)
        if sum(classes[name] for name in of_classes) >= LEAST_COMBINED or (
            mixed and len(recurring) >= max(LEAST_COMBINED, len(several) / 2)
        ):
            return sum(classes[name] for name in recurring), max(recurring, key=classes.__getitem__), separator
    return 0, "", ""


def combined_in_words(label: str, separator: str) -> str:
    """An example of several labels in one, and their separator."""
    return f'"{printable(label, 40)}", separator "{separator}"'


def _parts(label: str, separator: str) -> list[str]:
    """The parts of a label, without the brackets and quotes of a list; the label itself where it has no such parts."""
    if len(label) > MOST_CHARACTERS:
        return [label]
    is_list = label[:1] + label[-1:] in ("[]", "{}")
    parts = [part.strip(" '\"") for part in labels_in(label, separator)]
    if separator in ",/" and not is_list and not all(any(map(str.isalpha, part)) for part in parts if part):
        return [label]  # 1,5 and 24/12 are numbers and dates
    return [*filter(None, parts)] or [label]


def count_repeats(hashes: Int64s, class_ids: Int32s) -> tuple[int, int]:
    """Count the texts equal to an earlier one, and the different texts that occur with more than one label."""
    order = np.lexsort((class_ids, hashes))
    hashes, class_ids = hashes[order], class_ids[order]
    repeated = np.diff(hashes) == 0
    two_labels = hashes[1:][repeated & (np.diff(class_ids) != 0)]
    return int(repeated.sum()), len(np.unique(two_labels))


def find_variants(spellings: Mapping[tuple[str, str], int], classes: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
    """Count the labels spelt otherwise than most of their class, and list the spellings of the class with most of these.

    ``spellings`` has the number of texts by name and spelling of their label, where these differ; ``classes`` that of each class.
    """
    by_class = dict[str, Counter[str]]()
    for (name, spelling), number in spellings.items():
        by_class.setdefault(name, Counter({name: classes[name]}))[name] -= number
        by_class[name][spelling] = number
    num_others = Counter({name: classes[name] - max(counts.values()) for name, counts in by_class.items()})
    if not num_others.total():
        return 0, ()
    most = by_class[num_others.most_common(1)[0][0]].most_common()
    return num_others.total(), tuple(spelling for spelling, number in most if number)


def _shown(spelling: str) -> str:
    """A spelling with what nobody sees: quotes around outer white space, and escapes for characters that are not composed."""
    if spelling != unicodedata.normalize("NFC", spelling):
        spelling = spelling.encode("ascii", "backslashreplace").decode()
    return printable(spelling if spelling == spelling.strip() else f'"{spelling}"', 40)
