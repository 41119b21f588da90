"""Writing answers: lines with tabs, JSON lines, rows of CSV or Parquet, lines on a terminal, or the records themselves."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, starmap
from typing import IO, Any, TypeAlias

from rich.cells import cell_len, set_cell_size

from mha_cli.cli.output import AnswerFormat
from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import as_text, json_line, without_surrogates
from mha_cli.records.parquet import parquet_writer
from mha_cli.records.record import ALL, Record
from mha_cli.records.spreadsheets import sheet_writer
from mha_cli.records.tables import csv_row
from mha_cli.runtime.choice import Answer, Choice

Answered: TypeAlias = tuple[int, Record, Answer]  # number of a text, its record and its answer

# Characters that break a line or a column or that a terminal obeys, and the backslash, so that an escape is unambiguous.
_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
MIN_TEXT_WIDTH, MAX_FIELD_CHARACTERS = 10, 40
GROUP_ROWS = 8_192  # rows of a row group in Parquet


@contextmanager
def answer_writer(
    answer_format: AnswerFormat, file: IO[bytes], choice: Choice, class_names: Sequence[str], fields: Sequence[str]
) -> Iterator[Callable[[Sequence[Answered]], object]]:
    """A function that writes answers to a file in one of the forms; ``fields`` are the names of the records' fields."""
    names = table_names(choice, class_names, fields)
    if answer_format == "parquet":
        probabilities = [name for name in names[: names.index("flags")] if name.startswith("probability") and not choice.marks]
        columns = dict.fromkeys(names, "string") | dict.fromkeys(probabilities, "float64")
        with parquet_writer(file, columns, GROUP_ROWS) as write_rows:
            yield lambda answered: write_rows(
                [dict(zip(names, table_row(choice, record, answer), strict=True)) for _, record, answer in answered],
                sum(len(record.raw) for _, record, _ in answered),
            )
        return
    if answer_format == "spreadsheet":
        with sheet_writer(file, names) as write_sheet:
            yield lambda answered: write_sheet(table_row(choice, record, answer) for _, record, answer in answered)
        return
    if answer_format == "csv":
        file.write(csv_row(names))
    lines: dict[AnswerFormat, Callable[[int, Record, Answer], bytes]] = {
        "records": matching_records(),
        "terminal": partial(terminal_line, styles_wanted(), sys.stdout.encoding),
        "tsv": tab_line,
        "csv": lambda _, record, answer: csv_row(table_row(choice, record, answer)),
        "jsonl": partial(answer_as_json_line, fields),
    }
    yield lambda answered: file.write(b"".join(starmap(lines[answer_format], answered)))


def answer_as_json_line(fields: Sequence[str], number: int, record: Record, answer: Answer) -> bytes:
    """A JSON object with everything that is known of a text; ``fields`` are the names of the record's."""
    return json_line(answer.as_json(number) | ({"fields": named_fields(fields, record)} if fields else {}))


def tab_line(_number: int, record: Record, answer: Answer) -> bytes:
    """Columns separated by tabs: each class with its probability, both empty where it is no answer, the flags, the fields."""
    return "\t".join([*_class_columns(answer), answer.prediction.flags, *map(tab_cell, record.fields)]).encode() + b"\n"


def terminal_line(styles: bool, encoding: str, _number: int, record: Record, answer: Answer) -> bytes:
    """The same columns, then the beginning of the text and its flags in words, in bold and dim if ``styles`` are wanted.

    The line fits the terminal, but the text has at least ``MIN_TEXT_WIDTH`` columns.
    """
    prediction, columns = answer.prediction, _class_columns(answer)
    if not columns[0]:
        unsure = "none of these" if prediction.is_none else "unsure"  # unsure: no class is probable enough
        columns[:2] = unsure if prediction.labels is None else "none", f"{prediction.probability:.4f}"
    columns += [printable(as_text(value), MAX_FIELD_CHARACTERS) for value in record.fields]
    notes = ["no words"] * prediction.empty + ["no known word"] * prediction.all_unknown
    if prediction.truncated:
        notes.append(f"{prediction.num_read:,} of {prediction.num_tokens:,} tokens read")
    note = f"({', '.join(notes)})" if notes else ""
    taken = len("\t".join([*columns, note]).expandtabs()) + 2
    text = _fitted(record.text, max(shutil.get_terminal_size().columns - taken, MIN_TEXT_WIDTH))
    if styles:
        columns[0] = f"{_BOLD}{columns[0]}{_RESET}"
        note = note and f"{_DIM}{note}{_RESET}"
    line = "\t".join([*columns, " ".join(filter(None, [text, note]))])
    return line.encode(encoding, "backslashreplace") + b"\n"


def named_fields(fields: Sequence[str], record: Record) -> dict[str, object]:
    """The fields of a record by their names, all of its columns where ``ALL`` asks for them."""
    by_name = dict[str, Any]()
    for name, value in zip(fields, record.fields, strict=True):
        by_name |= value if name == ALL and isinstance(value, dict) else {name: value}
    return by_name


def with_columns_of_the_first(fields: Sequence[str], records: Iterator[Record]) -> tuple[list[str], Iterator[Record]]:
    """The columns that ``ALL`` finds in the first record, and all records with these columns; one that a record lacks is null."""
    first = list(islice(records, 1))
    names = list(named_fields(fields, first[0])) if first else [name for name in fields if name != ALL]

    def with_columns(number: int, record: Record) -> Record:
        by_name = named_fields(fields, record)
        if (new := next((name for name in by_name if name not in names), None)) is not None:
            message = f'record {number}: the column "{printable(new)}" is not in the first record'
            raise MhaError(message, "name the columns with --field, or take --json")
        return record._replace(fields=tuple(map(by_name.get, names)))

    return names, starmap(with_columns, enumerate(chain(first, records), 1))


def table_names(choice: Choice, class_names: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The names of a table's columns; a field that is called like another column gets ``input_`` before its name."""
    if choice.marks:
        names = [*class_names]
    elif choice.top_k == "all":
        names = ["label", "probability", *(f"probability_{name}" for name in class_names)]
    else:
        further = range(2, min(choice.top_k or 1, len(class_names)) + 1)
        names = ["label", "probability", *(f"{name}_{number}" for number in further for name in ("label", "probability"))]
    for name in ("flags", *map(without_surrogates, fields)):
        while name in names:
            name = f"input_{name}"
        names.append(name)
    return names


def table_row(choice: Choice, record: Record, answer: Answer) -> list[str | float | None]:
    """The values of the columns, probabilities rounded to six places; with ``top_k`` all, the probability of every class is there."""
    cells: list[Any]
    if choice.marks:
        labels = [answer.label] if answer.labels is None else answer.labels
        levels = answer.prediction.levels
        cells = [str(int(name in labels)) for name in (dict.fromkeys(levels.names) if levels else answer.prediction.probabilities)]
    elif choice.top_k == "all":
        cells = [*_class_cells(answer._replace(num_top=0)), *answer.prediction.probabilities.values()]
    else:
        cells = _class_cells(answer)
    values = [round(cell, 6) if isinstance(cell, float) else cell for cell in cells]
    fields = [None if value is None else without_surrogates(as_text(value)) for value in record.fields]
    return [*values, answer.prediction.flags, *fields]


def matching_records() -> Callable[[int, Record, Answer], bytes]:
    """A function that gives the records themselves, byte by byte; the header of a table comes before the first of its records."""
    header = b""

    def line(_number: int, record: Record, _answer: Answer) -> bytes:
        nonlocal header
        before, header = header, record.header
        return record.raw if header == before else header + record.raw

    return line


def styles_wanted() -> bool:
    """Whether the environment lets a terminal show bold and dim text."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}


def tab_cell(value: object) -> str:
    r"""A value in one column of one line: backslashes and control characters are escaped, ``\t``, ``\n``, ``\x1b``."""
    return _ESCAPED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), as_text(value))


def _class_columns(answer: Answer) -> list[str]:
    return [f"{cell:.4f}" if isinstance(cell, float) else tab_cell(cell) for cell in _class_cells(answer)]


def _class_cells(answer: Answer) -> list[str | float | None]:
    """The answered classes and their probabilities; None twice for each that is missing."""
    if not answer.num_top:
        return [None, None] if answer.label is None else [answer.label, answer.probability]
    cells: list[str | float | None] = [cell for pair in answer.top for cell in pair]
    return cells + [None] * (2 * answer.num_top - len(cells))


def _fitted(text: str, width: int) -> str:
    """The beginning of a text in one harmless line of ``width`` columns at most."""
    shown = printable(text[: 4 * width], 4 * width)  # some characters take no column of their own
    return shown if cell_len(shown) <= width else f"{set_cell_size(shown, width - 1)}…"
