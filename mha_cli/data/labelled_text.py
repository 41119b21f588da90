"""The protocol of data sources: labelled texts, read as a stream, split by split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from mha_cli.errors import shown_path


class LabelledText(NamedTuple):
    """A text and the name of its class.

    Args:
        text: text.
        label: name of its class.
        spelling: label as the source spells it; empty where that is the name.
    """

    text: str
    label: str
    spelling: str = ""


class LocatedText(NamedTuple):
    """A text and its location.

    Args:
        labelled: text and class.
        file: path of its file.
        line: line that it begins on, from 1, in Parquet its row; None for a file that is the text.
        part: value of a further column that was asked for.
    """

    labelled: LabelledText
    file: str
    line: int | None = None
    part: object = None

    @property
    def place(self) -> str:
        """The location, for messages."""
        return shown_path(self.file) + (f":{self.line}" if self.line else "")


class TextSource(Protocol):
    """A source of labelled texts."""

    @property
    def name(self) -> str:
        """The source in words, for messages: a file name, a TFDS name, ``sample``."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that ``read`` takes; the first is the training split."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Class names in the order of their ids, or None where only the texts have them."""

    def unlabelled(self) -> Iterator[str] | None:
        """Texts without a class, one at a time, or None where the config names none."""

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts of a split, in a fixed order, one at a time."""
