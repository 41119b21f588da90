"""What a file of labelled texts looks like, guessed from its beginning: format, separator, header, and which column is which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from tempfile import TemporaryFile
from typing import NamedTuple, TypeAlias

from mha_cli.data.files import is_folder, labelled_format, no_texts_below, unpacked
from mha_cli.data.labels import name_of
from mha_cli.errors import MhaError, listed, plural, shown_path
from mha_cli.records.headers import LABEL_NAMES, USUAL_NAMES, are_names, plain_name
from mha_cli.records.json_lines import json_object
from mha_cli.records.lines import LineSplitter
from mha_cli.records.objects import dotted_keys, value_at
from mha_cli.records.parquet import NEEDS, parquet_rows
from mha_cli.records.readers import Format
from mha_cli.records.record import Columns, is_number, shown_columns
from mha_cli.records.separators import SEPARATORS
from mha_cli.records.tables import RowReader
from mha_cli.system.temporary_files import temporary_faults

SAMPLE_ROWS = 1000
SAMPLE_CHARACTERS = 1 << 22
MOST_LABEL_CHARACTERS = 60
LIKELY_TEXT = 0.1
"""Letters that another column of texts has at least, as a share of what the one that is taken has."""
MOST_OTHERS = 3

Values: TypeAlias = dict[str, list[object]]
"""By column, what stands in it."""

_CODE = re.compile(r"(?=[!-~]*[\d:/@_])[!-~]*")
"""A number, a date, a link, an address, an id: one word of ASCII with a digit or a mark that words do not have."""
_DATE = re.compile(r"\s*\d{1,4}([-./])\d{1,2}\1\d{1,4}\b")
_WORDS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Layout:
    """Where the text and the class of every record stand.

    Args:
        format: format in words.
        separator: what stands between two columns, in words; None where the format has no such thing.
        header: whether there is a header line; None where the format has none.
        columns: names of the columns, or their numbers where there is no header line; none where the format has no columns.
        text_column: column of the text.
        label_column: column of the class.
        text_reason: what the text column was known by, and which others it may be; empty where the format has no columns, as is the next.
        label_reason: what the label column was known by.
    """

    format: str
    separator: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] = ()
    text_column: str = "text"
    label_column: str = "label"
    text_reason: str = ""
    label_reason: str = ""


def find_layout(path: str, text_column: str | None = None, label_column: str | None = None) -> Layout:
    """The layout of a file or folder of labelled texts.

    Args:
        path: file or folder.
        text_column: column of the text; None guesses it: ``text``, else the longest texts that differ.
        label_column: column of the class; None guesses it: one with a usual name, else one with few values.

    Raises:
        MhaError: the beginning cannot be read, it is a header alone, or no column looks like a text or a label.
    """
    if is_folder(path):
        return Layout("folder, one sub-folder a class")
    form = labelled_format(path)
    if form == "fasttext":
        return Layout("fastText")
    sample = _table(path, form, text_column, label_column) if form in ("csv", "tsv") else _objects(path, form)
    values, header = sample.values, sample.header
    if header and not any(values.values()):
        raise no_texts_below(path)
    if not any(values.values()):
        return Layout(sample.format, sample.separator, header)  # whoever reads it says what is missing
    if len(values) == 1:
        hint = "put the class of every text beside it, in a table or in JSON, or before it as __label__CLASS"
        raise MhaError(f"{shown_path(path)}: a single column, so there are no labels", hint)
    given = _given(label_column, values, header)
    text, text_reason = _given(text_column, values, header) or _guessed_text(values, given[0] if given else None, path)
    label, label_reason = given or _guessed_label(values, text, path)
    return Layout(sample.format, sample.separator, header, tuple(values), text, label, text_reason, label_reason)


# Its beginning


class _Sample(NamedTuple):
    """The first records: what stands in every column, and how they are held; see ``Layout``."""

    format: str
    values: Values
    separator: str | None = None
    header: bool | None = None


def _objects(path: str, form: Format) -> _Sample:
    if form == "jsonl":
        return _Sample("JSON lines", _by_key(_json_objects(path)))
    with temporary_faults(NEEDS), TemporaryFile() as file:
        file.writelines(unpacked(path))
        file.flush()
        return _Sample("Parquet", _by_key(parquet_rows(file, shown_path(path))))


def _json_objects(path: str) -> Iterator[Mapping[str, object]]:
    for number, line in enumerate(_lines(path), 1):
        if not line.isspace():
            yield json_object(line.decode("utf-8", "replace"), f"{shown_path(path)}:{number}")


def _by_key(objects: Iterable[Mapping[str, object]]) -> Values:
    values, size = Values(), 0
    for found in islice(objects, SAMPLE_ROWS):
        for key in dotted_keys(found):
            value = value_at(found, key)
            values.setdefault(key, []).append(value)
            size += len(value) if isinstance(value, str) else 1
        if size > SAMPLE_CHARACTERS:
            break
    return values


def _table(path: str, form: Format, text_column: str | None, label_column: str | None) -> _Sample:
    columns = Columns(text_column or "1", (label_column or "2",), required=True)
    rows, separator = _rows(path, columns, "\t" if form == "tsv" else ",")
    header = bool(rows) and (columns.has_header or _has_header(rows))
    first = rows[0] if rows else []
    names = [cell.strip() for cell in first] if header else [str(number) for number in range(1, len(first) + 1)]
    values = Values()
    for at, name in enumerate(names):
        values.setdefault(name, [row[at] for row in rows[header:]])
    return _Sample("table", values, SEPARATORS[separator], header)


def _lines(path: str) -> Iterator[bytes]:
    splitter = LineSplitter(shown_path(path))
    for piece in unpacked(path):
        yield from splitter.feed(piece)
    yield from splitter.close()


def _rows(path: str, columns: Columns, preferred: str) -> tuple[list[list[str]], str]:
    """The first rows that have as many columns as the first of all, and the separator."""
    reader, rows, size = RowReader(shown_path(path), columns, preferred, lambda *_: None), list[list[str]](), 0
    found = reader.feed(_lines(path))
    for values, raw, _ in found:
        if values and len(values) == len(rows[0] if rows else values):
            rows.append(values)
        if len(rows) == SAMPLE_ROWS or (size := size + len(raw)) > SAMPLE_CHARACTERS:
            return rows, reader.separator
    return rows or [values for values, _, _ in reader.close() if values], reader.separator


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: short different words, none of which stands in its column again."""
    first, *others = rows
    if any(first.count(name) > 1 and plain_name(name.strip()) in USUAL_NAMES for name in first):
        return True  # two columns of one name, which whoever reads them says
    if not are_names(first):
        return False
    return not any(cell.strip() == row[at].strip() for at, cell in enumerate(first) if cell.strip() for row in others)


# Which column is which


def _given(column: str | None, values: Values, header: bool | None) -> tuple[str, str] | None:
    """The column that is asked for; one below a header that is given by its number gets its name."""
    if column is None:
        return None
    if header and column not in values and is_number(column) and 0 < int(column) <= len(values):
        column = list(values)[int(column) - 1]
    return column, "given"


def _guessed_text(values: Values, label_column: str | None, path: str) -> tuple[str, str]:
    def weight(column: str) -> float:
        found = values[column]
        return _num_letters(found) * len(set(map(str, found))) / len(found) if found else 0

    weights = {column: weight(column) for column in values if column != label_column}
    longest = max(weights, key=weights.__getitem__, default=None)
    if longest is None or not weights[longest]:
        raise MhaError(f"{shown_path(path)}: no column of texts among {shown_columns(list(values))}", "set --text-column")
    likely = [other for other in weights if weights[other] >= LIKELY_TEXT * weights[longest] and not _num_classes(other, values[other])]
    if weights.get("text"):
        return "text", f"by its name{_others(likely, 'text')}"
    reason = f"longest texts, {plural(round(_num_letters(values[longest]) / len(values[longest])), 'letter')} on average"
    return longest, reason + _others(likely, longest)


def _num_letters(found: Sequence[object]) -> int:
    texts = [value for value in found if isinstance(value, str) and not _CODE.fullmatch(value.strip())]
    return sum(len(word) for text in texts for word in _WORDS.findall(text))


def _guessed_label(values: Values, text_column: str, path: str) -> tuple[str, str]:
    least = max(map(len, values.values())) / 2  # an object may lack a key
    numbers = {column: _num_classes(column, found) for column, found in values.items() if column != text_column and len(found) > least}
    likely = [column for column, number in numbers.items() if number]
    if not likely:
        raise MhaError(f"{shown_path(path)}: no column of few classes among {shown_columns(list(values))}", "set --label-column")
    column = min(likely, key=lambda column: (_rank(column), numbers[column]))
    reason = "by its name" if _rank(column) < len(LABEL_NAMES) else f"few different values, {numbers[column]}"
    return column, reason + _others(likely, column)


def _others(likely: Sequence[str], column: str) -> str:
    """What is said of the columns that could have been taken, too."""
    others = [other for other in likely if other != column]
    return f"; other candidates: {listed(others, MOST_OTHERS)}" if others else ""


def _num_classes(column: str, found: Sequence[object]) -> int:
    """How many classes a column would have; 0 if it looks like something else."""
    if any(isinstance(value, float) and not value.is_integer() for value in found):
        return 0
    labels = [*filter(None, (name_of(str(value)) for value in found if isinstance(value, str | int | float)))]
    number = len(set(labels))
    usual = sorted(labels, key=len)[len(labels) // 2] if labels else ""
    least = 1 if _rank(column) < len(LABEL_NAMES) else 2
    may_be = least <= number <= max(2, len(labels) / 2) and len(usual) <= MOST_LABEL_CHARACTERS and not _DATE.match(usual)
    return number if may_be else 0


def _rank(column: str) -> float:
    """The place of a column among the usual names of labels, which is better than that of one with such a name as a part."""
    name = plain_name(column.rpartition(".")[2])
    parts = [place + 0.5 for place, usual in enumerate(LABEL_NAMES) if usual in re.split(r"[\W_]+", name)]
    return LABEL_NAMES.index(name) if name in LABEL_NAMES else min(parts, default=len(LABEL_NAMES))
