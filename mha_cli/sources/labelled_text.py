"""The protocol of data sources: labelled texts, read as a stream, split by split."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

from mha_cli.errors import shown_path

Label: TypeAlias = str | tuple[str, ...]  # name of the class, or where texts may have several labels, their names, distinct and sorted


class LabelledText(NamedTuple):
    """A text, its label and its location."""

    text: str
    label: Label
    file: str = ""  # path of its file; in a source without files, the source and its split in words
    line: int | None = None  # line where it begins, from 1, in Parquet its row, without files its number; None for a file that is the text
    group: object = None  # value of its split or group column; of a twin of the sample, its sentence plan
    weight: float = 1.0  # how much it counts in training
    stage: int = 0  # 0, or the number of the file of ``data.more`` that has the text first, from 1
    first_label: Label | None = None  # label that it had there, by which it was held out or not; None for the same label
    relabelled: int = 0  # number of the file of ``data.more`` that changed the label, from 1; 0 for none


def place_of(file: str, line: int | None) -> str:
    """The location of a text, for messages."""
    return shown_path(file) + (f":{line}" if line else "")


class TextSource(Protocol):
    """A source of labelled texts."""

    name: str  # source in words, for messages: a file name, a TFDS name, ``sample``
    splits: tuple[str, ...]  # names of the splits that ``read`` takes; the first is the training split
    class_names: tuple[str, ...] | None  # class names in the order of their ids, or None where only the texts have them
    has_labels: bool = True  # False for a source whose training texts are those of ``unlabelled``

    def unlabelled(self) -> Iterator[str] | None:
        """Texts without a class, one at a time, or None where the config names none."""
        return None

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts of a split, in a fixed order, one at a time."""
