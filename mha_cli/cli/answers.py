"""How an answer is written: a line with tabs, a JSON line, a row of CSV or Parquet, a line on a terminal, or the record itself."""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import starmap
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import plain_json, without_surrogates
from mha_cli.records.record import ALL

if TYPE_CHECKING:
    from mha_cli.records.record import Record
    from mha_cli.runtime.choice import Choice
    from mha_cli.runtime.classifier import Prediction

Answered: TypeAlias = "tuple[int, Record, Prediction]"
"""Number of a text, its record and what the classifier says."""

# What would break a line or a column, what a terminal would obey, and the backslash, so that what is escaped can be told apart.
_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
MIN_TEXT_WIDTH = 10
"""Columns that a text gets even on a narrow terminal."""
MAX_FIELD_WIDTH = 40
GROUP_ROWS, GROUP_BYTES = 8_192, 1 << 25
"""Rows of a row group in Parquet, and bytes of their records: either ends it."""
UNSURE = "unsure"
"""Stands on a terminal where no class is probable enough."""


def json_line(choice: Choice, fields: Sequence[str], number: int, record: Record, prediction: Prediction) -> bytes:
    """A JSON object with everything that is known of a text; ``fields`` are the names of the record's."""
    found = choice.as_json(number, prediction)
    if fields:
        found["fields"] = named_fields(fields, record)
    return plain_json(found).encode() + b"\n"


def tab_line(choice: Choice, _number: int, record: Record, prediction: Prediction) -> bytes:
    """Columns with tabs between them: a class and its probability, again for every further class, the flags, then the fields.

    The columns of a class that is no answer are empty.
    """
    return "\t".join([*_class_columns(choice, prediction), prediction.flags, *map(tab_cell, record.fields)]).encode() + b"\n"


def terminal_line(choice: Choice, styles: bool, encoding: str, _number: int, record: Record, prediction: Prediction) -> bytes:
    """The same columns, and then the beginning of the text and what is odd about it, in bold and dim if ``styles`` are wanted.

    The line fits the terminal; where that is too narrow, the text gets ``MIN_TEXT_WIDTH`` columns all the same.
    """
    columns = _class_columns(choice, prediction)
    if not columns[0]:
        columns[:2] = UNSURE, f"{prediction.probability:.4f}"
    columns += [printable(_as_text(value), MAX_FIELD_WIDTH) for value in record.fields]
    notes = ", ".join(_notes(prediction))
    note = f"({notes})" if notes else ""
    taken = len("\t".join([*columns, note]).expandtabs()) + 2
    text = _fitted(record.text, max(shutil.get_terminal_size().columns - taken, MIN_TEXT_WIDTH))
    if styles:
        columns[0] = f"{_BOLD}{columns[0]}{_RESET}"
        note = note and f"{_DIM}{note}{_RESET}"
    line = "\t".join([*columns, " ".join(filter(None, [text, note]))])
    return line.encode(encoding, "backslashreplace") + b"\n"


def named_fields(fields: Sequence[str], record: Record) -> dict[str, object]:
    """The fields of a record by their names, all of its columns where ``ALL`` asks for them."""
    found = dict[str, Any]()
    for name, value in zip(fields, record.fields, strict=True):
        found |= value if name == ALL and isinstance(value, dict) else {name: value}
    return found


class AllColumns:
    """Gives all records the columns that ``ALL`` finds in the first one, since a table has the same columns in every row.

    Args:
        fields: columns that are asked for, ``ALL`` among them.

    Attributes:
        names: names of the columns; before the first record only those that are asked for by name.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields, self._is_first = fields, True
        self.names = [name for name in fields if name != ALL]

    def of(self, number: int, record: Record) -> Record:
        """A record with these columns; null stands for one that it lacks."""
        found = named_fields(self._fields, record)
        if self._is_first:
            self._is_first, self.names = False, list(found)
        if further := [name for name in found if name not in self.names]:
            message = f'record {number}: the column "{printable(further[0])}" is not in the first record'
            raise MhaError(message, "name the columns with --field, or take --json")
        return record._replace(fields=tuple(map(found.get, self.names)))


def table_names(choice: Choice, class_names: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The names of a table's columns; a field that is called like another column gets ``input_`` before its name."""
    if choice.top_k == "all":
        names = ["label", "probability", *(f"probability_{name}" for name in class_names)]
    else:
        further = range(2, min(choice.top_k or 1, len(class_names)) + 1)
        names = ["label", "probability", *(f"{name}_{number}" for number in further for name in ("label", "probability"))]
    names.append("flags")
    for name in map(without_surrogates, fields):
        while name in names:
            name = f"input_{name}"
        names.append(name)
    return names


def table_row(choice: Choice, record: Record, prediction: Prediction) -> list[str | float | None]:
    """The values of the columns, probabilities rounded to six places; with ``top_k`` all, the probability of every class is there."""
    if choice.top_k == "all":
        cells = [*_class_cells(replace(choice, top_k=None), prediction), *prediction.probabilities.values()]
    else:
        cells = _class_cells(choice, prediction)
    values = [round(cell, 6) if isinstance(cell, float) else cell for cell in cells]
    fields = [None if value is None else without_surrogates(_as_text(value)) for value in record.fields]
    return [*values, prediction.flags, *fields]


def csv_line(choice: Choice, _number: int, record: Record, prediction: Prediction) -> bytes:
    """A row of CSV."""
    return csv_row(table_row(choice, record, prediction))


def csv_row(cells: Sequence[str | float | None]) -> bytes:
    """Cells as RFC 4180 has them, in UTF-8."""
    shown = [f"{cell:.6f}" if isinstance(cell, float) else cell for cell in cells]
    row: bytes = csv.writer(SimpleNamespace(write=str.encode)).writerow(shown)
    return row


class LineAnswers:
    """Answers a line or a row each.

    Args:
        file: file to write to.
        line: function of an answer that gives its line.
        header: line before all others.
    """

    def __init__(self, file: IO[bytes], line: Callable[[int, Record, Prediction], bytes], header: bytes = b"") -> None:
        self._file, self._line = file, line
        if header:
            file.write(header)

    def write(self, answered: Iterable[Answered]) -> None:
        """Write further answers."""
        self._file.write(b"".join(starmap(self._line, answered)))

    def close(self) -> None:
        """Write nothing: lines need no end."""


class ParquetAnswers:
    """Answers in Parquet, through pyarrow: probabilities are doubles, all else is strings.

    Args:
        file: file to write to.
        choice: classes that are answers.
        names: names of the columns.
    """

    def __init__(self, file: IO[bytes], choice: Choice, names: Sequence[str]) -> None:
        from pyarrow import float64, parquet, schema, string, table

        num_probabilities = names.index("flags")
        kinds = [float64() if at < num_probabilities and name.startswith("probability") else string() for at, name in enumerate(names)]
        self._choice, self._table, self._schema = choice, table, schema(list(zip(names, kinds, strict=True)))
        self._rows: list[list[str | float | None]] = []
        self._num_bytes = 0
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, answered: Sequence[Answered]) -> None:
        """Write further answers."""
        self._rows += [table_row(self._choice, record, prediction) for _, record, prediction in answered]
        self._num_bytes += sum(len(record.raw) for _, record, _ in answered)
        if len(self._rows) >= GROUP_ROWS or self._num_bytes >= GROUP_BYTES:
            self._write_rows()

    def close(self) -> None:
        """Write the rest, and the end of the file."""
        self._write_rows()
        self._writer.close()

    def _write_rows(self) -> None:
        if self._rows:
            self._writer.write_table(self._table(list(zip(*self._rows, strict=True)), schema=self._schema))
            self._rows, self._num_bytes = [], 0


class MatchingRecords:
    """The records themselves, byte by byte; tables keep their header line."""

    def __init__(self) -> None:
        self._header = b""

    def line(self, _number: int, record: Record, _prediction: Prediction) -> bytes:
        """The record; before it the header of its table, unless it is that of the record before."""
        if record.header == self._header:
            return record.raw
        self._header = record.header
        return record.header + record.raw


def styles_wanted() -> bool:
    """Whether the environment lets a terminal show bold and dim text."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}


def tab_cell(value: object) -> str:
    r"""A value in one column of one line: backslashes and control characters are escaped, ``\t``, ``\n``, ``\x1b``."""
    text = _as_text(value)
    if not _ESCAPED.search(text):
        return text
    return _ESCAPED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _class_columns(choice: Choice, prediction: Prediction) -> list[str]:
    """The answered classes and their probabilities, as text; two empty columns for each that is missing."""
    cells = _class_cells(choice, prediction)
    return [f"{cell:.4f}" if isinstance(cell, float) else tab_cell(cell) for cell in cells]


def _class_cells(choice: Choice, prediction: Prediction) -> list[str | float | None]:
    """The classes that are answered with and their probabilities; None twice for each that is missing."""
    if choice.top_k is None:
        answer = choice.answer(prediction)
        pairs = [] if answer is None else [(answer, prediction.probabilities[answer])]
        num_pairs = 1
    else:
        pairs = choice.top(prediction)
        num_classes = len(prediction.probabilities)
        num_pairs = num_classes if choice.top_k == "all" else min(choice.top_k, num_classes)
    cells: list[str | float | None] = [cell for pair in pairs for cell in pair]
    return cells + [None] * (2 * num_pairs - len(cells))


def _notes(prediction: Prediction) -> Iterator[str]:
    """What is odd about a text, as ``Prediction.flags`` says it, in words for people."""
    if prediction.empty:
        yield "no words"
    if prediction.all_unknown:
        yield "no known word"
    if prediction.truncated:
        yield f"{prediction.num_read:,} of {prediction.num_tokens:,} tokens read"


def _as_text(value: object) -> str:
    """A field as text: a string is itself, null is empty, and anything else is JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else plain_json(value)


def _fitted(text: str, width: int) -> str:
    """The beginning of a text in one harmless line of so many columns at most."""
    shown = printable(text[: 4 * width], 4 * width)  # some characters take no column of their own
    if not shown.isascii():
        from rich.cells import cell_len, set_cell_size

        if cell_len(shown) > width:
            return set_cell_size(shown, width - 1).rstrip() + "…"
        return shown
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
