"""Labelled reviews from CSV, TSV and JSONL files, and from folders with one sub-folder a class. No TensorFlow."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import stat
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from mha_cli.data.records import (
    BOM,
    DELIMITERS,
    GZIP_MAGIC,
    JSON_EXTENSIONS,
    MAX_LINE_BYTES,
    UTF_16_MARKS,
    bad_row,
    bad_width,
    close_column,
    extension_of,
    json_kind,
    json_object,
    json_text,
    listed,
    missing_column,
    repeated_column,
    utf_16,
    without_surrogates,
)
from mha_cli.data.reviews import Review
from mha_cli.errors import MhaError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mha_cli.config.settings import FilesData

UNLABELLED_FOLDER = "unsup"
"""Sub-folder of the Large Movie Review Dataset whose reviews have no class."""

_KINDS = "give a .csv, .tsv, .jsonl, .ndjson or .json file, plain or with .gz, or a folder with one sub-folder a class"


class Columns(NamedTuple):
    """Where a table or a JSON object has what is wanted.

    Args:
        text: column or key of the text.
        label: column or key of the class.
        text_setting: that named the first one, for messages.
        label_setting: that named the other one.
    """

    text: str
    label: str
    text_setting: str = "data.text_column"
    label_setting: str = "data.label_column"


class FileReviews:
    """The reviews that a config's ``data.train`` and ``data.test`` name.

    Args:
        settings: the ``data`` section of a config whose source is ``files``.
        by_options: whether the columns can be named by options of the command, rather than in a config.

    Attributes:
        num_blank: blank lines that were left out so far.
    """

    def __init__(self, settings: FilesData, by_options: bool = False) -> None:
        self._settings = settings
        self._columns = Columns(settings.text_column, settings.label_column)
        if by_options:
            self._columns = self._columns._replace(text_setting="--text-column", label_setting="--label-column")
        self.num_blank = 0

    @property
    def name(self) -> str:
        """Path of the training data, as the config gives it."""
        return self._settings.train

    @property
    def splits(self) -> tuple[str, ...]:
        """``train``, and ``test`` where the config names test data."""
        return ("train",) if self._settings.test is None else ("train", "test")

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """None: only reading the reviews tells."""
        return None

    def unlabelled(self) -> Iterator[str] | None:
        """The lines of ``data.unlabelled``."""
        return None if self._settings.unlabelled is None else read_text_lines(self._settings.unlabelled)

    def read(self, split: str) -> Iterator[Review]:
        """The reviews of a split, in the order of the file, or of the sorted file names of a folder.

        Raises:
            MhaError: no such split, or a review that cannot be read; see ``read_labelled_file``.
        """
        settings = self._settings
        paths = {"train": settings.train, "test": settings.test}
        if split not in paths:
            raise MhaError(f'no split "{printable(split)}" in {_shown(settings.train)}', did_you_mean(printable(split), self.splits))
        path = paths[split]
        if path is None:
            raise MhaError("the config names no test data", "set data.test, give --data FILE, or take --split validation")
        return read_labelled_file(path, self._columns, self._count_blank)

    def _count_blank(self) -> None:
        self.num_blank += 1


def read_labelled_file(path: str, columns: Columns, on_blank: Callable[[], None] = lambda: None) -> Iterator[Review]:
    """Labelled reviews from a file or folder, one at a time; never the whole of it in memory.

    A file is CSV, TSV or JSON lines in UTF-8, by its extension, plain or gzipped. In JSON lines a label may be a string, a whole
    number, true or false, and is read as it is spelt. A folder has one sub-folder a class, named for the class, that holds a
    ``.txt`` file a review; hidden names and the sub-folder ``unsup`` are skipped. Labels lose the white space around them; texts
    are left alone, and may be empty. Blank lines are skipped.

    Args:
        path: file or folder; a leading ``~`` is the home folder.
        columns: of a file; of no meaning in a folder.
        on_blank: called for every blank line.

    Raises:
        MhaError: at once for a path that is missing, a pipe or a device, or of no known kind; while iterating for the first fault inside.
    """
    shown = _shown(path)
    if _is_folder(path):
        return _folder_reviews(os.path.expanduser(path), shown)
    extension = extension_of(path)
    if extension in DELIMITERS:
        return _table_reviews(path, DELIMITERS[extension], columns, on_blank)
    if extension in JSON_EXTENSIONS:
        return _json_reviews(path, columns, on_blank)
    raise MhaError(f"{shown}: {f'unknown extension {printable(extension)}' if extension else 'no extension that tells its format'}", _KINDS)


def read_text_lines(path: str) -> Iterator[str]:
    """The texts of a UTF-8 file, plain or with .gz, one a line; blank lines are left out.

    Raises:
        MhaError: at once for a path that is missing, or is no file; while iterating for the first fault inside, or if there is no text.
    """
    if _is_folder(path):
        raise MhaError(f"{_shown(path)}: is a folder", "give a text file, a text a line")
    return _text_lines(path)


def _text_lines(path: str) -> Iterator[str]:
    empty = True
    with _opened(path) as file:
        for line in _lines(file, _shown(path)):
            if text := line.strip():
                empty = False
                yield text
    if empty:
        raise MhaError(f"{_shown(path)}: no text in it", "write a text a line")


def _shown(path: str) -> str:
    return printable(path, 200)


def _is_folder(path: str) -> bool:
    """Whether a path is a folder rather than a file; anything else, a pipe or a device say, could block or never end, and is refused."""
    shown = _shown(path)
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except FileNotFoundError:
        raise MhaError(f"{shown}: no such file or folder", "check the path; relative paths start at the current folder") from None
    except OSError as error:
        raise MhaError(f"{shown}: {error.strerror}", "give the path of data that can be read") from None
    except ValueError:
        raise MhaError(f"{shown}: not a file name", _KINDS) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise MhaError(f"{shown}: {kind}, neither a file nor a folder", "save the texts in a file first; they are read more than once")
    return stat.S_ISDIR(mode)


# Bytes to lines


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is gzipped; faults of reading, here and in the body, become one MhaError."""
    shown = _shown(path)
    real_path = os.path.expanduser(path)
    try:
        with open(real_path, "rb") as raw:
            packed = path.lower().endswith(".gz") or raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
            with cast("IO[bytes]", gzip.open(raw)) if packed else raw as file:
                yield file
    except gzip.BadGzipFile:
        raise MhaError(f"{shown}: not a gzip file", "compress it with gzip, or drop .gz from its name") from None
    except (EOFError, zlib.error):
        raise MhaError(f"{shown}: the gzip data is cut short or damaged", "copy or compress the file again") from None
    except OSError as error:
        raise MhaError(f"{shown}: {error.strerror or 'cannot be read'}", "give the path of data that can be read") from None


def _lines(file: IO[bytes], shown: str) -> Iterator[str]:
    """The lines of a UTF-8 file with their line ends; a line feed ends a line, nothing else does."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM)
        if len(line) > MAX_LINE_BYTES:
            raise MhaError(f"{shown}:{number}: a line longer than {MAX_LINE_BYTES:,} bytes", "write one text a line")
        yield _decoded(line, shown, number)


def _decoded(raw: bytes, shown: str, first_line: int = 1) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if first_line == 1 and raw.startswith(UTF_16_MARKS):
            raise utf_16(shown) from None
        line = first_line + raw.count(b"\n", 0, error.start)
        column = error.start - raw.rfind(b"\n", 0, error.start)
        found = f"0x{raw[error.start]:02X}"
        raise MhaError(f"{shown}:{line}: not UTF-8: byte {found} at place {column} of the line", "save it as UTF-8") from None


# CSV and TSV


def _table_reviews(path: str, delimiter: str, columns: Columns, on_blank: Callable[[], None]) -> Iterator[Review]:
    shown = _shown(path)
    with _opened(path) as file:
        rows = _rows(_lines(file, shown), delimiter, shown, on_blank)
        header_line, header = next(rows, (0, [""]))
        if not header_line:
            raise MhaError(f"{shown}: the file is empty", f"write a header line ({_header(columns)}) and a text a row")
        names = [name.strip() for name in header]
        text_at, label_at = _places(names, columns, f"{shown}:{header_line}", delimiter)
        number_of_rows = 0
        for line, row in rows:
            number_of_rows += 1
            if len(row) != len(names):
                raise bad_width(row, names, delimiter, f"{shown}:{line}")
            yield Review(row[text_at], _label(row[label_at], f"{shown}:{line}"))
        if not number_of_rows:
            raise MhaError(f"{shown}: a header but no texts", "write a text a row below it")


def _rows(lines: Iterator[str], delimiter: str, shown: str, on_blank: Callable[[], None]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line (from 1) that it starts on."""
    csv.field_size_limit(MAX_LINE_BYTES)  # the limit is the process's: csv has no other
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            else:
                on_blank()
            start = reader.line_num + 1
    except csv.Error as error:
        raise bad_row(str(error), f"{shown}:{start}", delimiter) from None


def _places(names: Sequence[str], columns: Columns, place: str, delimiter: str) -> tuple[int, int]:
    """Where the text and the label stand in a row."""
    missing = [(column, setting) for column, setting in zip(columns[:2], columns[2:], strict=True) if column not in names]
    if len(missing) == 2 and len(names) > 1 and not any(close_column(column, names) for column, _ in missing):
        wanted = f'"{printable(columns.text)}" nor "{printable(columns.label)}"'
        hint = f"set {columns.text_setting} and {columns.label_setting}, or add a header line ({_header(columns)})"
        raise MhaError(f"{place}: the first line names neither {wanted}, but {listed(names)}", hint)
    for column, setting in missing:
        raise missing_column(column, setting, names, place, delimiter)
    for column in columns[:2]:
        if names.count(column) > 1:
            raise repeated_column(column, names, place)
    return names.index(columns.text), names.index(columns.label)


def _header(columns: Columns) -> str:
    return f"{printable(columns.text)},{printable(columns.label)}"


# JSON lines


def _json_reviews(path: str, columns: Columns, on_blank: Callable[[], None]) -> Iterator[Review]:
    shown = _shown(path)
    with _opened(path) as file:
        number_of_reviews = 0
        for number, line in enumerate(_lines(file, shown), start=1):
            if not line.strip():
                on_blank()
                continue
            place = f"{shown}:{number}"
            record = json_object(line, place)
            for column, setting in zip(columns[:2], columns[2:], strict=True):
                if column not in record:
                    raise missing_column(column, setting, record, place)
            number_of_reviews += 1
            yield Review(json_text(record[columns.text], columns.text, place), _json_label(record[columns.label], columns.label, place))
        if not number_of_reviews:
            raise MhaError(f"{shown}: the file is empty", "write one JSON object a line, a text each")


def _json_label(value: object, column: str, place: str) -> str:
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, str):
        return _label(without_surrogates(value), place)
    hint = "give every text a class: a string, a whole number, true or false"
    raise MhaError(f'{place}: the label "{printable(column)}" is {json_kind(value)}', hint)


def _label(raw: str, place: str) -> str:
    label = raw.strip()
    if not label:
        raise MhaError(f"{place}: the label is empty", "give every text a class, or leave the row out")
    return label


# A folder with one sub-folder a class


def _folder_reviews(folder: str, shown: str) -> Iterator[Review]:
    class_folders = [entry for entry in _entries(folder) if entry.is_dir() and entry.name != UNLABELLED_FOLDER]
    if not class_folders:
        raise MhaError(f"{shown}: no sub-folders", "give a folder with one sub-folder a class, each holding .txt files")
    for entry in class_folders:
        if not any(_is_text_name(inner.name) for inner in _entries(entry.path)):
            raise _no_texts(entry)
    for entry in class_folders:
        label = _label(without_surrogates(entry.name), _shown(entry.path))
        for text_file in filter(lambda inner: _is_text_name(inner.name), _entries(entry.path)):
            yield Review(_text_of(text_file), label)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds that is not hidden, sorted so that 2 comes before 10."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: _natural(entry.name))
    except OSError as error:
        raise MhaError(f"{_shown(folder)}: {error.strerror}", "give the path of data that can be read") from None


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key under which runs of digits compare as numbers; by length first, since ``int`` refuses thousands of digits."""
    parts = re.split("([0-9]+)", name)
    key = [(len(digits := part.lstrip("0")), digits) if at % 2 else (0, part) for at, part in enumerate(parts)]
    return key, name


def _is_text_name(name: str) -> bool:
    return name.lower().endswith(".txt")


def _no_texts(entry: os.DirEntry[str]) -> MhaError:
    inner_folders = [inner.name for inner in _entries(entry.path) if inner.is_dir()]
    shown = _shown(entry.path)
    if inner_folders:
        return MhaError(f"{shown}: no .txt files, only the sub-folders {listed(inner_folders)}", f"perhaps {shown} is the folder to give")
    return MhaError(f"{shown}: no .txt files", "put the texts of the class there, one a .txt file, or remove the folder")


def _text_of(entry: os.DirEntry[str]) -> str:
    shown = _shown(entry.path)
    if _is_folder(entry.path):
        raise MhaError(f"{shown}: a folder where a text belongs", "rename it, or move it away")
    with _opened(entry.path) as file:
        raw = file.read(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise MhaError(f"{shown}: longer than {MAX_LINE_BYTES:,} bytes", "write one text a file")
    return _decoded(raw.removeprefix(BOM), shown)
