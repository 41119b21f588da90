"""Labelled texts that a Python program holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mha_cli.data.reviews import Review
from mha_cli.errors import MhaError, printable


class GivenReviews:
    """Texts and the classes of them, as a source with a training split alone.

    Args:
        texts: texts, N.
        labels: class of each; what is no string counts by its spelling.

    Raises:
        MhaError: they are not as many as each other, or a text is no string.
    """

    name = "the given texts"
    splits = ("train",)
    class_names = None
    num_blank = 0

    def __init__(self, texts: Sequence[str], labels: Sequence[object]) -> None:
        self._texts, self._labels = list(texts), [str(label) for label in labels]
        if len(self._texts) != len(self._labels):
            raise MhaError(f"{len(self._texts):,} texts and {len(self._labels):,} labels", "give a label for every text")
        refuse_what_is_no_text(self._texts)

    def unlabelled(self) -> None:
        """None."""

    def read(self, _split: str = "train") -> Iterator[Review]:
        """All of them, in their order."""
        return map(Review, self._texts, self._labels)


def refuse_what_is_no_text(texts: Sequence[object]) -> None:
    """Refuse anything but strings, a single one in place of several included.

    Raises:
        MhaError: there is something else; the message names the first.
    """
    if isinstance(texts, str):
        raise MhaError("a single text where several are wanted", "give a list of texts, such as [text]")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise MhaError(f"text {number} is {printable(repr(text), 60)}", "give texts as strings")
