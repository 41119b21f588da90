"""Texts that stand in the data more than once, and classes that likely are meant as one."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Repeats(NamedTuple):
    """How often texts are repeated.

    Args:
        num_repeated: texts that stand before them already.
        num_two_labels: different texts that stand there with more than one label.
    """

    num_repeated: int
    num_two_labels: int


def count_repeats(hashes: npt.NDArray[np.int64], class_ids: npt.NDArray[np.int32]) -> Repeats:
    """The repeats among texts that are given by a hash and a class each, (N,) both."""
    order = np.lexsort((class_ids, hashes))
    hashes, class_ids = hashes[order], class_ids[order]
    repeated = np.diff(hashes) == 0
    two_labels = hashes[1:][repeated & (np.diff(class_ids) != 0)]
    return Repeats(int(repeated.sum()), len(np.unique(two_labels)))


def count_respelt(names: Collection[str]) -> int:
    """How many of these different names are others in another case."""
    return len(names) - len({name.casefold() for name in names})
