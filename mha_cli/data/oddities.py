"""What seldom is meant in labelled texts: those that stand there more than once or are no texts, classes spelt in two ways."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt


def count_repeats(hashes: npt.NDArray[np.int64], class_ids: npt.NDArray[np.int32]) -> tuple[int, int]:
    """How many texts stand before them already, and how many different ones stand there with more than one label.

    Args:
        hashes: a number of each text, the same for equal ones, (N,).
        class_ids: class of each, (N,).
    """
    order = np.lexsort((class_ids, hashes))
    hashes, class_ids = hashes[order], class_ids[order]
    repeated = np.diff(hashes) == 0
    two_labels = hashes[1:][repeated & (np.diff(class_ids) != 0)]
    return int(repeated.sum()), len(np.unique(two_labels))


def count_respelt(names: Collection[str]) -> int:
    """How many of these different names are others in another case."""
    return len(names) - len({name.casefold() for name in names})


def oddities(num_wordless: int, num_repeated: int, num_two_labels: int, num_respelt: int, num_blank: int) -> str:
    """What there is of these, with its number, in a line; empty for none. The numbers are those of ``TextFigures``."""
    counts = {
        "without a word": num_wordless,
        "repeated to the letter": num_repeated,
        "texts with two labels": num_two_labels,
        "classes that differ from others in case alone": num_respelt,
        "blank lines left out": num_blank,
    }
    return ", ".join(f"{what}: {number:,}" for what, number in counts.items() if number)
