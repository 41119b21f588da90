"""From lines to records: a text, what else came with it, and where it stood, from plain lines, JSON lines, CSV or TSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

from mha_cli.data.records import (
    DELIMITERS,
    JSON_EXTENSIONS,
    MAX_LINE_BYTES,
    bad_row,
    bad_width,
    extension_of,
    json_object,
    json_text,
    missing_column,
    repeated_column,
)
from mha_cli.errors import MhaError, printable
from mha_cli.runtime.lines import Pause, read_lines

Format = Literal["lines", "jsonl", "csv", "tsv"]
TEXT_COLUMN = "text"
TEXT_OPTION, FIELD_OPTION = "--text-column", "--field"
STANDARD_INPUT = "-"


class Record(NamedTuple):
    """One text of a stream.

    Args:
        text: to be classified.
        raw: the bytes of the record as they came, with a line feed at the end.
        fields: the values of the columns that were asked for, in that order; strings, in JSON lines any JSON value.
        header: the header line of its table as it came; empty where there is none.
    """

    text: str
    raw: bytes
    fields: tuple[object, ...] = ()
    header: bytes = b""


def read_inputs(
    paths: Sequence[str],
    form: Format | None = None,
    text_column: str | None = None,
    fields: Sequence[str] = (),
    default_column: str = TEXT_COLUMN,
) -> Iterator[Record | Pause]:
    """The records of several files, one after the other.

    Args:
        paths: of files; ``-`` is standard input.
        form: of all of them; None takes each file's from its extension.
        text_column: see ``read_records``; None takes ``default_column``.
        fields: likewise.
        default_column: the column or key of the text where none is asked for.

    Raises:
        MhaError: at once for a file that is not there, or options that do not go together; while iterating for the first fault inside.
    """
    for path in paths:
        _refuse_missing(path)
    forms = [form or format_of(path) for path in paths]
    if text_column is not None and set(forms) == {"lines"}:
        raise MhaError(f"{TEXT_OPTION} {printable(text_column)}: plain lines have no columns", "add --format csv, tsv or jsonl")
    return _read_one_by_one(paths, forms, text_column or default_column, fields)


def given_records(texts: Iterable[str], fields: Sequence[str] = ()) -> Iterator[Record]:
    """Records of texts that are there already, each like a plain line.

    Raises:
        MhaError: a field is asked for that plain lines do not have.
    """
    _refuse_fields_of_plain_lines(fields, "arguments")
    return (Record(text, text.encode() + b"\n", (text,) * len(fields)) for text in texts)


def format_of(path: str) -> Format:
    """The format that the extension of a file name tells, ``.gz`` left aside; plain lines if it tells none."""
    extension = extension_of(path)
    if extension == ".csv":
        return "csv"
    if extension == ".tsv":
        return "tsv"
    return "jsonl" if extension in JSON_EXTENSIONS else "lines"


def read_records(
    lines: Iterator[bytes | Pause], name: str, form: Format, text_column: str = TEXT_COLUMN, fields: Sequence[str] = ()
) -> Iterator[Record | Pause]:
    """The records in the lines of a stream, each as soon as its last line is there. Bytes that are not UTF-8 become U+FFFD.

    In plain lines every line is a record, blank ones too, and has the column ``text`` alone. In the other formats blank lines
    are skipped; CSV and TSV begin with a header line, and a quoted field may hold line feeds.

    Args:
        lines: from ``read_lines``.
        name: of the stream, for messages.
        form: how the records lie in it.
        text_column: the column or JSON key that holds the text; of no meaning in plain lines.
        fields: columns or JSON keys to be kept; a JSON object that lacks one has null there.

    Raises:
        MhaError: a record is broken or has no text, or there is no such column; every record before that has come.
    """
    if form == "lines":
        return _plain(lines, name, fields)
    if form == "jsonl":
        return _json(lines, name, text_column, fields)
    return _table(lines, name, DELIMITERS[f".{form}"], text_column, fields)


def _read_one_by_one(paths: Sequence[str], forms: Sequence[Format], text_column: str, fields: Sequence[str]) -> Iterator[Record | Pause]:
    for path, form in zip(paths, forms, strict=True):
        with _opened(path) as descriptor:
            name = shown_name(path)
            yield from read_records(read_lines(descriptor, name), name, form, text_column, fields)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    if path == STANDARD_INPUT:
        yield 0
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_missing(path: str) -> None:
    try:
        os.stat(0 if path == STANDARD_INPUT else path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError | ValueError) -> MhaError:
    return MhaError(f"{shown_name(path)}: cannot be read: {getattr(error, 'strerror', error)}", "give a file of texts")


def shown_name(path: str) -> str:
    """What an input is called in messages."""
    return "standard input" if path == STANDARD_INPUT else printable(path, 200)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace")


# Plain lines


def _plain(lines: Iterator[bytes | Pause], name: str, fields: Sequence[str]) -> Iterator[Record | Pause]:
    _refuse_fields_of_plain_lines(fields, name)
    for line in lines:
        if isinstance(line, Pause):
            yield line
        else:
            text = _decoded(line.removesuffix(b"\r"))
            yield Record(text, line + b"\n", (text,) * len(fields))


def _refuse_fields_of_plain_lines(fields: Sequence[str], name: str) -> None:
    for field in fields:
        if field != TEXT_COLUMN:
            raise MhaError(
                f'{FIELD_OPTION} {printable(field)}: {name}: plain lines have only the column "{TEXT_COLUMN}"',
                "add --format csv, tsv or jsonl if they are no plain lines",
            )


# JSON lines


def _json(lines: Iterator[bytes | Pause], name: str, text_column: str, fields: Sequence[str]) -> Iterator[Record | Pause]:
    number = 0
    for line in lines:
        if isinstance(line, Pause):
            yield line
            continue
        number += 1
        if not line.strip():
            continue
        place = f"{name}:{number}"
        record = json_object(_decoded(line), place)
        if text_column not in record:
            raise missing_column(text_column, TEXT_OPTION, record, place)
        text = json_text(record[text_column], text_column, place)
        yield Record(text, line + b"\n", tuple([record.get(field) for field in fields]))


# CSV and TSV


class _Waiting(Exception):
    """The next line has to be waited for."""

    def __init__(self, pause: Pause) -> None:
        super().__init__()
        self.pause = pause


def _table(lines: Iterator[bytes | Pause], name: str, delimiter: str, text_column: str, fields: Sequence[str]) -> Iterator[Record | Pause]:
    columns: list[str] = []
    for row in _rows(lines, name, delimiter):
        if isinstance(row, Pause):
            yield row
            continue
        place, values, raw = row
        if not columns:
            header, columns = raw, [column.strip() for column in values]
            text_at = _column(columns, text_column, TEXT_OPTION, place, delimiter)
            fields_at = [_column(columns, field, FIELD_OPTION, place, delimiter) for field in fields]
            continue
        if len(values) != len(columns):
            raise bad_width(values, columns, delimiter, place)
        yield Record(values[text_at], raw, tuple([values[at] for at in fields_at]), header)


def _column(columns: Sequence[str], column: str, option: str, place: str, delimiter: str) -> int:
    if column not in columns:
        raise missing_column(column, option, columns, place, delimiter)
    if columns.count(column) > 1:
        raise repeated_column(column, columns, place)
    return columns.index(column)


def _rows(lines: Iterator[bytes | Pause], name: str, delimiter: str) -> Iterator[tuple[str, list[str], bytes] | Pause]:
    """The rows that are not blank: where each begins, its values, and its bytes."""
    csv.field_size_limit(MAX_LINE_BYTES)  # the limit is the process's: csv has no other
    taken: list[bytes] = []

    def text_lines() -> Iterator[str]:
        yield from [f"{_decoded(line)}\n" for line in taken]
        for line in lines:
            if isinstance(line, Pause):
                raise _Waiting(line)
            taken.append(line)
            yield f"{_decoded(line)}\n"

    number = 1
    rows = csv.reader(text_lines(), delimiter=delimiter, strict=True)
    while True:
        try:
            values = next(rows, None)
        except _Waiting as waiting:
            yield waiting.pause
            rows = csv.reader(text_lines(), delimiter=delimiter, strict=True)  # reads what it had taken of this row once more
            continue
        except csv.Error as error:
            raise bad_row(str(error), f"{name}:{number}", delimiter) from None
        if values is None:
            return
        if values:
            yield f"{name}:{number}", values, b"\n".join([*taken, b""])
        number += len(taken)
        taken.clear()
