"""What a file of labelled texts looks like, guessed from its beginning: format, separator, header, and which column is which."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from mha_cli.errors import JOINT, MhaError, listed, plural, shown_path
from mha_cli.records.annotation_exports import text_and_label
from mha_cli.records.headers import LABEL_NAMES, LEAST_TEXTS, USUAL_NAMES, are_numbers, has_header, plain_name
from mha_cli.records.line_formats import json_object, without_array
from mha_cli.records.objects import dotted_keys, value_at
from mha_cli.records.parquet import parquet_rows, whole_file
from mha_cli.records.queries import SQLITE
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.records.readers import Format, format_of, text_lines
from mha_cli.records.record import SEPARATORS, TEXT_COLUMN, Columns, is_number, shown_columns
from mha_cli.records.rows import Row
from mha_cli.records.spreadsheets import file_and_sheet, sheet_names, sheet_rows
from mha_cli.records.tables import no_texts_below, other_width, table_rows
from mha_cli.sources.combined_labels import find_combined, find_levels
from mha_cli.sources.labels import labels_in, mark_of, name_of
from mha_cli.sources.raw_files import file_pieces, file_reading, is_folder, labelled_format, unpacked_file

SAMPLE_ROWS = 1000
TABLES = ("csv", "tsv", "spreadsheet")
SAMPLE_CHARACTERS = 1 << 22
MOST_LABEL_CHARACTERS = 60
LIKELY_TEXT = 0.1  # letters that another column of texts has at least, as a share of what the one that is taken has
MOST_OTHERS = 3
SPLIT_NAMES, GROUP_NAMES = {"split", "subset", "partition", "fold"}, {"group", "group_id", "groupid"}
"""Columns that mark texts for testing, and columns whose equal values keep texts together."""
TITLE_NAMES, LEAST_TITLE = {"title", "subject", "headline", "heading", "summary", "question"}, 2  # and words of a title on average
PARTS = {"train", "training", "test", "testing", "dev", "valid", "validation", "val", "eval", ""}
MOST_FRACTIONS = 0.1  # share of a column of labels that may be fractions; reading such a label is an error that names its line

Values: TypeAlias = dict[str, list[object]]  # values of each column
_CODE = re.compile(r"(?=[!-~]*[\d:/@_])[!-~]*")
"""A number, a date, a link, an address, an id: one word of ASCII with a digit or a mark that words do not have."""
_DATE = re.compile(r"\s*\d{1,4}([-./])\d{1,2}\1\d{1,4}\b")
_WORDS = re.compile(r"[^\W\d_]+")
_RANKS = {name: rank for rank, name in enumerate(LABEL_NAMES)}


@dataclass(frozen=True)
class Layout:
    """Format of a file, in words, and the columns of its text and class. Other formats than tables have neither separator nor header."""

    format: str
    separator: str | None = None  # separator of columns in words
    header: bool | None = None
    columns: tuple[str, ...] = ()  # names of the columns, or their numbers if there is no header line; empty in formats without columns
    text_column: str = "text"
    label_column: str = "label"
    text_reason: str = ""  # why this is the text column, with other candidates; empty in formats without columns
    label_reason: str = ""
    part_column: str = ""  # column such as ``split`` that marks texts as ``test``, else column ``group``; empty for neither
    label_separator: str | None = None  # separator of several labels in a cell, whose parts come again in others; None if a text has one
    label_example: str = ""  # such a cell
    label_levels: str | None = None  # separator of the levels of a label, from coarse to fine; None if it has none
    label_columns: tuple[str, ...] = ()  # columns that are a label each; the label column is then the first of them

    @property
    def has_split(self) -> bool:
        """Whether a column marks texts for testing."""
        return plain_name(self.part_column) in SPLIT_NAMES


def find_layout(path: str, text_column: str | None = None, label_column: str | None = None, dialect: Dialect = USUAL) -> Layout:
    """The layout of a file or folder of labelled texts.

    The text column is by default ``text``, else the one with the longest texts that differ; the label column one with a usual name, else
    one with few values.
    """
    if is_folder(path):
        return Layout("folder, one sub-folder per class")
    form = labelled_format(path, dialect)
    if form == "fasttext":
        return Layout("fastText")
    if form == "spreadsheet" and not file_and_sheet(path)[1]:
        return _layout_of_sheets(path, text_column, label_column)
    if form in TABLES:
        layout, values = _table(path, form, text_column, label_column, dialect)
    else:
        found = _objects(path, form, dialect)
        if form == "jsonl" and text_column in (None, TEXT_COLUMN) and label_column in (None, "label"):
            found = _without_tools(found, shown_path(path))
        values = _by_key(found)
        layout = Layout("Parquet" if form == "parquet" else "query" if path.startswith(SQLITE) else "JSON lines", columns=tuple(values))
    if not any(values.values()):
        return replace(layout, columns=())  # reading the file gives the error
    if len(values) == 1:
        hint = "put the class of every text beside it, in a table or in JSON, or before it as __label__CLASS"
        raise MhaError(f"{shown_path(path)}: a single column, so there are no labels", hint)
    given = _given(label_column, layout)
    text, text_reason = _given(text_column, layout) or _guessed_texts(values, given[0] if given else None, path)
    marks = () if given else _mark_columns(values, text)
    label, label_reason = given or _guessed_label(values, text, path, marks)
    part = _part_column({name: of_column for name, of_column in values.items() if name not in (*text.split(JOINT), label)})
    separator, example = _label_separator(values.get(label, []))
    label_columns = marks if label in marks else ()
    if label_columns:
        label_reason = "with marks: each is a label"
        objects = {column.rpartition(".")[0] for column in marks}
        if layout.header is None and len(objects) == 1 and (key := objects.pop()):  # an object of labels, such as spaCy's ``cats``
            label, label_columns = key, ()
    levels = None if separator else find_levels({value for value in values.get(label, []) if isinstance(value, str)}) or None
    head = layout.format, layout.separator, layout.header, layout.columns
    return Layout(*head, text, label, text_reason, label_reason, part, separator, example, levels, label_columns)


def _layout_of_sheets(path: str, text_column: str | None, label_column: str | None) -> Layout:
    """The layout of the first sheet that has columns of texts and labels, or the fault of the last one."""
    with whole_file(unpacked_file(path)) as file:
        *others, last = sheet_names(file, file_reading(path, Columns(), USUAL))
    for sheet in others:
        with suppress(MhaError):
            if (layout := find_layout(f"{path}#{sheet}", text_column, label_column)).columns:
                return layout
    return find_layout(f"{path}#{last}", text_column, label_column)


def find_text_column(path: str, text_column: str | None = None, dialect: Dialect = USUAL) -> str:
    """The column of a file of texts without labels, which may be its only one: the one given, or ``text``, else the longest texts."""
    form = format_of(path)
    if text_column or form in ("lines", "fasttext"):
        return text_column or TEXT_COLUMN
    values = _table(path, form, None, "1", dialect)[1] if form in TABLES else _by_key(_objects(path, form, dialect))
    return TEXT_COLUMN if TEXT_COLUMN in values or not any(values.values()) else _guessed_text(values, None, path)[0]


def _objects(path: str, form: Format, dialect: Dialect) -> Iterator[Mapping[str, object]]:
    if form == "parquet":
        with whole_file(unpacked_file(path)) as file:
            yield from parquet_rows(file, shown_path(path))
        return
    reading = replace(file_reading(path, Columns(), dialect), strict=False)
    for number, line in enumerate(without_array(text_lines(file_pieces(path), reading), reading.name), 1):
        if isinstance(line, MhaError):
            raise line
        if not line.isspace():
            yield json_object(reading.decoded(line, number), f"{reading.name}:{number}")


def _without_tools(objects: Iterable[Mapping[str, object]], name: str) -> Iterator[Mapping[str, object]]:
    """Objects, and of those of annotation tools text and label alone."""
    for values in objects:
        found = text_and_label(given := dict(values), name)
        if found is not None:
            yield given if found is given else {key: found[key] for key in ("text", "label")}


def _by_key(objects: Iterable[Mapping[str, object]]) -> Values:
    values, size = Values(), 0
    for json_value in islice(objects, SAMPLE_ROWS):
        for key in dotted_keys(json_value):
            value = value_at(json_value, key)
            values.setdefault(key, []).append(value)
            size += len(value) if isinstance(value, str) else 1
        if size > SAMPLE_CHARACTERS:
            break
    return values


def _table(
    path: str, form: Format, text_column: str | None, label_column: str | None, dialect: Dialect, skip: int = 0
) -> tuple[Layout, Values]:
    """The layout of a table below so many lines, and the values of its columns."""
    columns = Columns(text_column or "1", (label_column or "1",), "--text-column", "--label-column", required=True)
    reading = replace(file_reading(path, columns, dialect), strict=False)
    if form == "spreadsheet":
        separator, table = "", sheet_rows(unpacked_file(path), reading)
    else:
        lines = islice(text_lines(file_pieces(path), reading), skip, None)
        separator, table = table_rows("\t" if form == "tsv" else ",", lines, reading)
    rows, size, top = list[list[str]](), 0, 0
    broken: Row | None = None
    for row in table:
        if row.fault or (rows and row.values and len(row.values) != len(rows[0])):
            broken = broken or row
        elif row.values:
            rows.append(row.values)
            top = top or row.line
        size += sum(map(len, row.lines))
        if len(rows) == SAMPLE_ROWS or size > SAMPLE_CHARACTERS:
            break
    title = rows[0][0].strip() if rows and separator and not skip else ""
    if title and title == "".join(rows[0]).strip() and plain_name(title) not in USUAL_NAMES:
        try:
            below, values = _table(path, form, text_column, label_column, dialect, top)
        except MhaError:
            pass  # the table is what it seems
        else:
            plain = {plain_name(name) for name in below.columns if below.header}
            if len(plain) > 1 and "" not in plain and (plain & USUAL_NAMES or max(map(len, values.values())) >= LEAST_TEXTS):
                return below, values
    header = bool(rows) and (columns.has_header or has_header(rows[0], rows[1:]))
    if header and len(rows) == 1:
        if broken:
            raise broken.fault or other_width(broken, len(rows[0]), separator, reading.name, header)
        raise no_texts_below(reading.name)
    first = rows[0] if rows else []
    names = [cell.strip() for cell in first] if header and not are_numbers(first) else [str(number) for number in range(1, len(first) + 1)]
    values, num_of = Values(), Counter(names)
    for name, cells in zip(names, zip(*rows[header:], strict=True), strict=False):
        values.setdefault(name, list(cells))
    single = {name: values[name] for name in values if num_of[name] == 1}  # others could not be asked for
    return Layout("table" if separator else form, SEPARATORS.get(separator), header, tuple(names)), single if len(single) > 1 else values


def _given(column: str | None, layout: Layout) -> tuple[str, str] | None:
    """A requested column, and why it is taken; the number of a column becomes its name in a table with a header."""
    if column is None:
        return None
    parts = column.split(JOINT)
    for at, part in enumerate(parts):
        if layout.header and part not in layout.columns and is_number(part) and 0 < int(part) <= len(layout.columns):
            parts[at] = layout.columns[int(part) - 1]
    return JOINT.join(parts), "given"


def _guessed_text(values: Values, label_column: str | None, path: str) -> tuple[str, str]:
    weights = {
        column: _num_letters(cells) * len(set(map(str, cells))) / max(1, len(cells))
        for column, cells in values.items()
        if column != label_column
    }
    longest = max(weights, key=weights.__getitem__, default=None)
    if longest is None or not weights[longest]:
        raise MhaError(f"{shown_path(path)}: no column of texts among {shown_columns(list(values))}", "set --text-column")
    likely = [other for other in weights if weights[other] >= LIKELY_TEXT * weights[longest] and not _num_classes(other, values[other])]
    if weights.get("text"):
        return "text", f"by its name{_others(likely, 'text')}"
    reason = f"longest texts, {plural(round(_num_letters(values[longest]) / len(values[longest])), 'letter')} on average"
    return longest, reason + _others(likely, longest)


def _guessed_texts(values: Values, label_column: str | None, path: str) -> tuple[str, str]:
    """The text column, and one that looks like the title of its texts."""
    text, reason = _guessed_text(values, label_column, path)
    titles = [column for column in values if column not in (text, label_column) and _is_title(column, values[column])]
    if len(titles) != 1:
        return text, reason
    both = [column for column in values if column in (text, *titles)]
    return JOINT.join(both), f"{reason.partition(';')[0]}, and {titles[0]}, which looks like a title"


def _is_title(column: str, cells: Sequence[object]) -> bool:
    """Whether a column has a usual name of titles, and texts of a few words that seldom come again."""
    is_named = plain_name(column.rpartition(".")[2]) in TITLE_NAMES
    num_words = sum(len(_WORDS.findall(value)) for value in cells if isinstance(value, str))
    return is_named and num_words >= LEAST_TITLE * len(cells) and len({*map(str, cells)}) >= len(cells) / 2


def _part_column(values: Values) -> str:
    for column in filter(lambda column: plain_name(column) in SPLIT_NAMES, values):
        if any(map(is_for_testing, values[column])) and {str(value).strip().casefold() for value in values[column]} <= PARTS:
            return column
    return next((column for column in values if plain_name(column) in GROUP_NAMES), "")


def is_for_testing(part: object) -> bool:
    """Whether a value of a split column marks a text for testing."""
    return str(part).strip().casefold() in ("test", "testing")


def _num_letters(cells: Sequence[object]) -> int:
    texts = [value for value in cells if isinstance(value, str) and not _CODE.fullmatch(value.strip())]
    return sum(len(word) for text in texts for word in _WORDS.findall(text))


def _guessed_label(values: Values, text_column: str, path: str, marks: Sequence[str] = ()) -> tuple[str, str]:
    least = max(map(len, values.values())) / 2  # an object may lack a key
    numbers = {
        column: _num_classes(column, cells)
        for column, cells in values.items()
        if column not in text_column.split(JOINT) and len(cells) > least
    }
    likely = [column for column, number in numbers.items() if number or column in marks]
    if not likely:
        raise MhaError(f"{shown_path(path)}: no column of few classes among {shown_columns(list(values))}", "set --label-column")
    column = min(likely, key=lambda column: (_rank(column), column in marks, numbers[column]))
    reason = "by its name" if _rank(column) < len(LABEL_NAMES) else f"few different values, {numbers[column]}"
    return column, reason + _others(likely, column)


def _mark_columns(values: Values, text_column: str) -> tuple[str, ...]:
    """The columns that are a label each, if they are several: those of 0 and 1, or of other marks, whose names rank first among them."""
    marks = [column for column in values if column not in text_column.split(JOINT) and {*map(mark_of, values[column])} == {True, False}]
    marks = [column for column in marks if _rank(column) == min(map(_rank, marks))]
    return tuple(marks) if len(marks) > 1 else ()


def _label_separator(cells: Sequence[object]) -> tuple[str | None, str]:
    """The separator of several labels in one cell, and an example of such a cell; None if a text has one label."""
    _, example, separator = find_combined(Counter(value for value in cells if isinstance(value, str) and value.strip()))
    return separator or None, example


def _others(likely: Sequence[str], column: str) -> str:
    """A note on the other columns that fit."""
    others = [other for other in likely if other != column]
    return f"; other candidates: {listed(others, MOST_OTHERS)}" if others else ""


def _num_classes(column: str, cells: Sequence[object]) -> int:
    """How many classes a column would have; 0 if it does not look like labels. Lists, and cells with separators, hold several labels."""
    separator = _label_separator(cells)[0]
    cells = [labels_in(cell, separator) if separator and isinstance(cell, str) else cell for cell in cells]
    values = [label for cell in cells for label in (cell if isinstance(cell, list) else (cell,))]
    fractions = sum(isinstance(value, float) and math.isfinite(value) and not value.is_integer() for value in values)
    if fractions > MOST_FRACTIONS * len(values):
        return 0
    labels = [*filter(None, (name_of(str(value)) for value in values if isinstance(value, str | int | float)))]
    number = len(set(labels))
    usual = sorted(labels, key=len)[len(labels) // 2] if labels else ""
    least = 1 if _rank(column) < len(LABEL_NAMES) else 2
    may_be = least <= number <= max(2, len(labels) / 2) and len(usual) <= MOST_LABEL_CHARACTERS and not _DATE.match(usual)
    return number if may_be else 0


def _rank(column: str) -> float:
    """Rank of a column among the usual names of labels, smallest first; a name with such a part, as in ``my_label``, ranks half lower."""
    name = plain_name(column.rpartition(".")[2])
    parts = [_RANKS[part] + 0.5 for part in re.split(r"[\W_]+", name) if part in _RANKS]
    return _RANKS[name] if name in _RANKS else min(parts, default=len(LABEL_NAMES))
