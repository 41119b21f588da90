"""The texts of a labelling, and the file of their labels: an ordinary data file of mha, which is whole on disk after every answer."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from mha_cli.config.settings import LABEL_SEPARATOR
from mha_cli.errors import JOINT, MhaError, printable, shown_path
from mha_cli.labelling.next_texts import same_text
from mha_cli.records.objects import as_text
from mha_cli.records.reader import Reading
from mha_cli.records.readers import read_records
from mha_cli.records.record import ALL, TEXT_COLUMN, Columns, Record, is_number
from mha_cli.records.tables import csv_line
from mha_cli.sources.labels import class_name, class_names, is_list, is_missing
from mha_cli.sources.raw_files import file_pieces
from mha_cli.system.whole_files import atomic_write, held

DRAWN = "drawn"  # column that says how a text came to be labelled
RANDOM, CHOSEN, GIVEN = "random", "chosen", "given"  # at random, which alone tells how good a model is; by the model; labelled before


class Answer(NamedTuple):
    """The labels of a text, and how it came to be labelled."""

    labels: tuple[str, ...]
    drawn: str


class LabelStore:
    """Texts and their labels. Records whose texts differ in white space alone are one text, which gets one answer.

    Args:
        path: file of labels, which no other process may write until ``close``. One that is there is continued, with all its rows.
        text_column: their column, or several with ``JOINT`` between them.
        label_column: column of labels, in the texts, if they have it, and in the file.
        several: whether a text may have several labels; lists and cells with a separator that are there mean it as well.
    """

    def __init__(
        self, path: Path, records: Iterable[Record], text_column: str, label_column: str = "label", several: bool = False, mark: bytes = b""
    ) -> None:
        self.path, self.text_column = path, TEXT_COLUMN if is_number(text_column) else text_column
        self.label_column = "label" if is_number(label_column) else label_column  # the file of labels has a header
        self.text_columns = self.text_column.split(JOINT)
        self._own_columns = *self.text_columns, self.label_column, DRAWN
        if len(set(self._own_columns)) < len(self._own_columns):
            raise MhaError(f"label column {printable(label_column)}: the file of labels has its own column of that name", "name another")
        self.texts, self._rows = list[str](), list[list[dict[str, Any]]]()  # of each text, the columns of all its records
        self.answers: dict[int, Answer] = {}  # of texts by their numbers, in the order of labelling; replaced, never changed
        self._numbers = dict[int, int]()  # of texts, by ``same_text``
        given = text_column.split(JOINT)
        for record in filter(lambda record: record.text.strip(), records):
            number = self._numbers.setdefault(same_text(record.text), len(self.texts))
            if number == len(self.texts):
                self.texts.append(record.text)
                self._rows.append([])
            values: Any = record.fields[0]
            self._rows[number].append({name: value for name, value in values.items() if name not in given})
        with ExitStack() as stack:
            stack.enter_context(held(path))
            unknown_rows, continued = self._read() if path.exists() else ([], {})
            self._held = stack.pop_all()
        for number, rows in continued.items():
            pairs = zip_longest(self._rows[number], rows, fillvalue=dict[str, Any]())
            self._rows[number] = [before | after for before, after in pairs]
        labels = [row.get(column) for row in chain.from_iterable(self._rows) for column in (label_column, self.label_column)]
        self.several = several or any(is_list(label) or LABEL_SEPARATOR in str(label) for label in labels)
        from_file = chain.from_iterable(continued.values())  # in which an answer without labels means the same
        self.several |= any(row.get(DRAWN) in (RANDOM, CHOSEN) and is_empty(row.get(self.label_column)) for row in from_file)
        for number in [*(number for number in range(len(self.texts)) if number not in continued), *continued]:
            rows, column = (continued[number], self.label_column) if number in continued else (self._rows[number], label_column)
            found = {self._labels_in(row.get(column), row.get(DRAWN) if number in continued else None) for row in rows} - {None}
            if len(found) == 1:  # records of one text that contradict each other are asked about
                drawn = str(rows[0].get(DRAWN)) if number in continued else GIVEN
                self.answers[number] = Answer(found.pop() or (), drawn if drawn in (RANDOM, CHOSEN) else GIVEN)
        names = dict.fromkeys(chain.from_iterable(chain(unknown_rows, *self._rows)))
        self._names = [*self.text_columns, *(name for name in names if name not in self._own_columns), self.label_column, DRAWN]
        header = dict(zip(self._names, self._names, strict=True))
        self._head = mark + b"".join(csv_line(row, self._names) for row in [header, *unknown_rows])
        self._unanswered = continued.keys() - self.answers.keys()  # whose rows stay in the file as they are until there is an answer
        self._lines = {number: self._lines_of(number, self.answers.get(number)) for number in {**continued, **self.answers}}

    def find(self, text: str) -> int | None:
        """The number of a text."""
        return self._numbers.get(same_text(text))

    def columns(self, number: int) -> Mapping[str, str]:
        """The other columns of a text, in words."""
        return {name: as_text(value) for name, value in self._rows[number][0].items() if name not in self._own_columns}

    def write(self, number: int, answer: Answer | None) -> None:
        """Label a text, or take its labels away; it is on disk before this returns, and if that fails, nothing has changed."""
        answers, lines = dict(self.answers), dict(self._lines)
        if answer is not None:
            answers[number], lines[number] = answer, self._lines_of(number, answer)
        else:
            del answers[number], lines[number]
            if number in self._unanswered:
                lines[number] = self._lines_of(number, None)
        with atomic_write(self.path) as file:
            file.write(b"".join([self._head, *lines.values()]))
        self.answers, self._lines = answers, lines

    def close(self) -> None:
        """Let other processes write the file."""
        self._held.close()

    def _read(self) -> tuple[list[dict[str, Any]], dict[int, list[dict[str, Any]]]]:
        """The rows of the file of labels: those of unknown texts, and those of each text."""
        name, unknown, known = shown_path(self.path), list[dict[str, Any]](), dict[int, list[dict[str, Any]]]()
        try:
            reading = Reading(name, Columns(self.text_column, (ALL, self.label_column)), strict=True)
            for record in read_records("csv", file_pieces(str(self.path)), reading):
                values: Any = record.fields[0]
                number = self.find(record.text)
                (unknown if number is None else known.setdefault(number, [])).append(values)
            if unknown and not known:
                raise MhaError(f"{name}: none of these texts is in it")
        except MhaError as error:
            raise MhaError(f"{error.message}; so it has no labels of these texts", "choose another name, or remove it") from None
        return unknown, known

    def _labels_in(self, cell: Any, drawn: Any) -> tuple[str, ...] | None:
        """The labels in a cell; None for an empty one, unless ``drawn`` says that it is an answer: none of the labels."""
        if is_empty(cell):
            return () if drawn and self.several else None
        if self.several:
            return class_names(cell, shown_path(self.path), self.label_column, LABEL_SEPARATOR)
        return (class_name(cell, shown_path(self.path), self.label_column),)

    def _lines_of(self, number: int, answer: Answer | None) -> bytes:
        own = dict(zip(self.text_columns, self.texts[number].split(JOINT, len(self.text_columns) - 1), strict=True))
        if answer is not None:
            own |= {self.label_column: LABEL_SEPARATOR.join(answer.labels), DRAWN: answer.drawn}
        return b"".join(csv_line(row | own, self._names) for row in self._rows[number])


def is_empty(cell: Any) -> bool:
    """Whether a cell holds no label."""
    return is_missing(cell) or not as_text(cell).strip()
