"""How an answer is written: a tab-separated line, a JSON line, a line to be read on a terminal, or the record that was answered."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mha_cli.errors import printable
from mha_cli.records.objects import plain_json

if TYPE_CHECKING:
    from mha_cli.records.record import Record
    from mha_cli.runtime.choice import Choice
    from mha_cli.runtime.classifier import Prediction

# What would break a line or a column, what a terminal would obey, and the backslash, so that what is escaped can be told apart.
_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
MIN_TEXT_WIDTH = 10
"""Columns that a text gets even on a narrow terminal."""
MAX_FIELD_WIDTH = 40
UNSURE = "unsure"
"""Stands on a terminal where no class is probable enough."""


def json_line(choice: Choice, fields: Sequence[str], number: int, record: Record, prediction: Prediction) -> bytes:
    """A JSON object with everything that is known of a text; ``fields`` are the names of the record's."""
    found = choice.as_json(number, prediction)
    if fields:
        found["fields"] = dict(zip(fields, record.fields, strict=True))
    return plain_json(found).encode() + b"\n"


def tab_line(choice: Choice, _number: int, record: Record, prediction: Prediction) -> bytes:
    """Columns with tabs between them: a class and its probability, again for every further class, a mark, then the fields.

    The columns of a class that is no answer are empty.
    """
    return "\t".join([*_class_columns(choice, prediction), prediction.mark, *map(tab_cell, record.fields)]).encode() + b"\n"


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
    """The classes that are answered with and their probabilities; two empty columns for each that is missing."""
    if choice.top_k is None:
        answer = choice.answer(prediction)
        pairs = [] if answer is None else [(answer, prediction.probabilities[answer])]
        num_pairs = 1
    else:
        pairs = choice.top(prediction)
        num_pairs = min(choice.top_k, len(prediction.probabilities))
    columns = [column for name, probability in pairs for column in (tab_cell(name), f"{probability:.4f}")]
    return columns + [""] * (2 * num_pairs - len(columns))


def _notes(prediction: Prediction) -> Iterator[str]:
    """What is odd about a text, as ``Prediction.mark`` says it, in words for people."""
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
