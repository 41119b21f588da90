"""Labelled texts that a Python program holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from mha_cli.data.reviews import Review
from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import without_surrogates

MISSING = {"None", "nan", "NaT", "<NA>"}
"""Spellings of what is no string and stands for nothing, in Python, NumPy and pandas."""


class GivenReviews:
    """Texts and the classes of them, as a source with a training split alone.

    Args:
        texts: texts, N.
        labels: class of each; see ``label_name``.

    Raises:
        MhaError: they are not as many as each other or no lists at all, a text is no string, or a label is missing or could not be
            written down.
    """

    name = "the given texts"
    splits = ("train",)
    class_names = None
    num_blank = 0

    def __init__(self, texts: Sequence[str], labels: Sequence[object]) -> None:
        self._texts, self._labels = [*map(without_surrogates, texts_in(texts))], list[str]()
        for number, label in enumerate(_several(labels, "label")):
            self._labels.append(label_name(label))
            if not isinstance(label, str) and self._labels[-1] in MISSING:
                raise MhaError(f"labels[{number}] is {label}", "give every text a class, or leave it out")
            if without_surrogates(self._labels[-1]) != self._labels[-1]:
                raise MhaError(f"labels[{number}] is no text: {printable(self._labels[-1], 60)}", "read labels as UTF-8")
        if len(self._texts) != len(self._labels):
            raise MhaError(f"{len(self._texts):,} texts and {len(self._labels):,} labels", "give a label for every text")

    def unlabelled(self) -> None:
        """None."""

    def read(self, _split: str = "train") -> Iterator[Review]:
        """All of them, in their order."""
        return map(Review, self._texts, self._labels)


def label_name(label: object) -> str:
    """The name of a class: what is no string counts by its spelling, and 1.0, which pandas makes of 1 where a column has gaps, is 1."""
    return str(int(label) if isinstance(label, float | np.floating) and label.is_integer() else label)


def texts_in(texts: Iterable[object]) -> list[str]:
    """The texts as a list, be they in a generator; anything but strings is refused, a single one or a table in place of several included.

    Raises:
        MhaError: there is something else; the message names the first.
    """
    found = list[str]()
    for number, text in enumerate(_several(texts, "text")):
        if not isinstance(text, str):
            raise MhaError(f"texts[{number}] is {printable(repr(text), 60)}", "give texts as strings")
        found.append(text)
    return found


def _several(given: Iterable[object], what: str) -> Iterable[object]:
    """The same, unless it is a single string, or a table, which would be read as the names of its columns."""
    if isinstance(given, str):
        raise MhaError(f"a single {what} where several are wanted", f"give a list of {what}s, such as [{what}]")
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or hasattr(type(given), "columns"):
        raise MhaError(f"{what}s are of type {type(given).__name__}", f'give a list, or a column of a table, such as frame["{what}"]')
    return given
