"""Labelled texts that a Python program holds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mha_cli.errors import MhaError, plural, printable
from mha_cli.records.objects import without_surrogates
from mha_cli.records.reader import StreamWarnings
from mha_cli.records.record import joined, shown_columns
from mha_cli.sources.labelled_text import LabelledText, TextSource
from mha_cli.sources.labels import is_missing, labelled, merged
from mha_cli.sources.text_weights import weight_of, with_weight


class MemoryTexts(TextSource):
    """N texts, their labels and perhaps their weights as a source with one split, ``train``."""

    name = "the given texts"
    splits = ("train",)
    class_names = None

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[object],
        weights: Sequence[float] | None = None,
        merge: Mapping[str, str | None] | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.warnings = StreamWarnings()
        strings, given = texts_in(texts, columns), [*_several(labels, "label")]
        if len(strings) != len(given):
            raise MhaError(f"{plural(len(strings), 'text')} and {plural(len(given), 'label')}", "give a label for every text")
        pairs = zip(map(without_surrogates, strings), given, strict=True)
        labelled_texts: Iterable[LabelledText] = (labelled(text, label, f"labels[{row}]") for row, (text, label) in enumerate(pairs))
        if weights is not None:
            numbers = [weight_of(weight, f"weights[{row}]") for row, weight in enumerate(_several(weights, "weight"))]
            if len(numbers) != len(strings):
                raise MhaError(f"{plural(len(strings), 'text')} and {plural(len(numbers), 'weight')}", "give a weight for every text")
            weighted = (text._replace(weight=weight) for text, weight in zip(labelled_texts, numbers, strict=True))
            labelled_texts = with_weight(weighted, self.name, self.warnings)
        self._texts = list(merged(labelled_texts, merge or {}, self.warnings))

    def read(self, _split: str = "train") -> Iterator[LabelledText]:
        """All texts, in their order."""
        return iter(self._texts)


class UnlabelledTexts(TextSource):
    """Texts of a Python program whose labels are to be guessed, in one split, ``train``."""

    name, splits, class_names, has_labels = MemoryTexts.name, MemoryTexts.splits, None, False

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts_in(texts)

    def unlabelled(self) -> Iterator[str]:
        """All texts, in their order."""
        return map(without_surrogates, self._texts)

    def read(self, split: str) -> Iterator[LabelledText]:
        """None has a label."""
        return iter(())


def texts_in(texts: Iterable[object], columns: Sequence[str] = ()) -> list[str]:
    """The texts of a list or generator as a list; a single string, and anything but texts, are refused.

    A text is a string, a list of the strings that it is made of, or an object with the ``columns`` of texts; a table has these columns.
    A missing one of several parts is empty.
    """
    if len(columns) > 1 and hasattr(type(texts), "columns"):
        table: Any = texts
        texts = zip(*(table[column] for column in columns), strict=True)
    return [text_of(text, columns, f"texts[{number}]") for number, text in enumerate(_several(texts, "text"))]


def text_of(given: object, columns: Sequence[str], place: str) -> str:
    """A text as one string; ``place`` is for messages."""
    if isinstance(given, str):
        return given
    parts: Any = given
    if hasattr(type(given), "keys") and {*parts.keys()} >= {*columns}:  # an object, or the row of a table
        parts = [parts[column] for column in columns]
    if isinstance(parts, list | tuple) and parts and len(columns) in (0, 1, len(parts)):
        cells = ["" if len(parts) > 1 and is_missing(part) else part for part in parts]
        if all(isinstance(cell, str) for cell in cells):
            return joined(cells)
    form = f", lists of them, or objects with {shown_columns(columns)}" if len(columns) > 1 else ""
    raise MhaError(f"{place} is {printable(repr(given), 60)}", f"give texts as strings{form}")


def _several(given: Iterable[object], what: str) -> Iterable[object]:
    """Refuse a single string, and a table: iteration would give the names of its columns. Return any other values."""
    if isinstance(given, str | bytes):
        raise MhaError(f"a single {what} where several are wanted", f"give a list of {what}s, such as [{what}]")
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or hasattr(type(given), "columns"):
        raise MhaError(f"{what}s are of type {type(given).__name__}", f'give a list, or a column of a table, such as frame["{what}"]')
    return given
