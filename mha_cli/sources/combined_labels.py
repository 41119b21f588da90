"""Labels that look like several labels in one cell, or like one label in levels."""

from collections import Counter
from collections.abc import Iterable, Mapping

from mha_cli.errors import printable
from mha_cli.sources.labels import is_spelt_out, labels_in

SEPARATORS = ",;|/"  # characters that may separate the labels in a cell
LEVEL_SEPARATORS = ">", "::", "/", ":"
LEAST_COMBINED = 3  # least texts whose parts are all classes, or different cells whose parts occur in others, that are reported
MOST_CHARACTERS = 1000  # characters of a label above which it is not taken apart


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


def find_levels(classes: Iterable[str]) -> str:
    """What separates the levels of labels such as ``hardware > printer``; empty where they have none.

    Half of the labels have levels, and more than one first level has several labels below it. The parts have letters, as those of dates
    and the parts of addresses (``http://…``) do not.
    """
    names = {*classes}
    for separator in LEVEL_SEPARATORS:
        paths = [path for name in names if len(path := [part.strip() for part in name.split(separator)]) > 1]
        paths = [path for path in paths if all(any(map(str.isalpha, part)) for part in path)]
        families = Counter(path[0] for path in paths)
        if len(paths) >= max(LEAST_COMBINED, len(names) / 2) and sum(number > 1 for number in families.values()) > 1:
            return separator
    return ""


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
