"""Labelled reviews from CSV, TSV and JSONL files, and from folders with one sub-folder a class. No TensorFlow."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING

from mha_cli.data.reviews import Review
from mha_cli.errors import MhaError, did_you_mean, printable
from mha_cli.records.gzipped import CHUNK_BYTES, Unpacker
from mha_cli.records.json_lines import json_kind, without_surrogates
from mha_cli.records.lines import MAX_LINE_BYTES, not_utf_8, without_mark
from mha_cli.records.readers import EXTENSIONS, READERS, extension_of
from mha_cli.records.record import Columns, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mha_cli.config.settings import FilesData
    from mha_cli.records.reader import RecordReader
    from mha_cli.records.readers import Format

UNLABELLED_FOLDER = "unsup"
"""Sub-folder of the Large Movie Review Dataset whose reviews have no class."""

_KINDS = "give a .csv, .tsv, .jsonl, .ndjson or .json file, plain or with .gz, or a folder with one sub-folder a class"


def labelled_columns(text: str = "text", label: str = "label", by_options: bool = False) -> Columns:
    """The columns or JSON keys of labelled texts, named by options of the command or in a config."""
    settings = ("--text-column", "--label-column") if by_options else ("data.text_column", "data.label_column")
    return Columns(text, (label,), *settings, required=True)


class FileReviews:
    """The reviews that a config's ``data.train`` and ``data.test`` name.

    Args:
        settings: ``data`` section of a config whose source is ``files``.
        by_options: True if options of the command can name the columns, rather than the config.

    Attributes:
        num_blank: number of blank lines left out so far.
    """

    def __init__(self, settings: FilesData, by_options: bool = False) -> None:
        self._settings = settings
        self._columns = labelled_columns(settings.text_column, settings.label_column, by_options)
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
        """The reviews of a split, in the order of the file, or of the sorted file names of a folder; see ``read_labelled_file``."""
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
        columns: columns of a file; of no meaning in a folder.
        on_blank: callback for every blank line.

    Raises:
        MhaError: at once for a path that is missing, a pipe or a device, or of no known kind; while iterating for the first fault inside.
    """
    shown = _shown(path)
    if _is_folder(path):
        return _folder_reviews(os.path.expanduser(path), shown)
    extension = extension_of(path)
    if extension not in EXTENSIONS:
        raise MhaError(
            f"{shown}: {f'unknown extension {printable(extension)}' if extension else 'no extension that tells its format'}", _KINDS
        )
    return _file_reviews(path, EXTENSIONS[extension], columns, on_blank)


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
    for record in _reader(path, "lines", Columns()).read(_chunks(path)):
        if text := record.text.strip():
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


# A file


def _chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces."""
    try:
        with open(os.path.expanduser(path), "rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise MhaError(f"{_shown(path)}: {error.strerror or 'cannot be read'}", "give the path of data that can be read") from None


def _reader(path: str, form: Format, columns: Columns, on_blank: Callable[[], None] = lambda: None) -> RecordReader:
    return READERS[form](_shown(path), columns, "strict", on_blank, path.lower().endswith(".gz"))


def _file_reviews(path: str, form: Format, columns: Columns, on_blank: Callable[[], None]) -> Iterator[Review]:
    shown, reader, empty = _shown(path), _reader(path, form, columns, on_blank), True
    for record in reader.read(_chunks(path)):
        empty = False
        yield Review(record.text, _label(record.fields[0], f"{shown}:{record.line}", columns.fields[0]))
    if empty and reader.header:
        raise MhaError(f"{shown}: a header but no texts", "write a text a row below it")
    if empty:
        row = "one JSON object a line, a text each" if form == "jsonl" else f"a header line ({columns.header}) and a text a row"
        raise MhaError(f"{shown}: the file is empty", f"write {row}")


def _label(value: object, location: str, column: str = "") -> str:
    if isinstance(value, bool | int):
        return json.dumps(value)
    if not isinstance(value, str):
        hint = "give every text a class: a string, a whole number, true or false"
        raise MhaError(f'{location}: the label "{printable(column)}" is {json_kind(value)}', hint)
    label = without_surrogates(value).strip()
    if not label:
        raise MhaError(f"{location}: the label is empty", "give every text a class, or leave the row out")
    return label


# A folder with one sub-folder a class


def _folder_reviews(folder: str, shown: str) -> Iterator[Review]:
    class_folders = [entry for entry in _entries(folder) if entry.is_dir() and entry.name != UNLABELLED_FOLDER]
    if not class_folders:
        raise MhaError(f"{shown}: no sub-folders", "give a folder with one sub-folder a class, each holding .txt files")
    for entry in class_folders:
        if not _text_files(entry):
            raise _no_texts(entry)
    for entry in class_folders:
        label = _label(entry.name, _shown(entry.path))
        for text_file in _text_files(entry):
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


def _text_files(folder: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(folder.path) if entry.name.lower().endswith(".txt")]


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
    unpacker, raw = Unpacker(shown, entry.path.lower().endswith(".gz")), bytearray()
    for chunk in _chunks(entry.path):
        for piece in unpacker.feed(chunk):
            raw += piece
            if len(raw) > MAX_LINE_BYTES:
                raise MhaError(f"{shown}: longer than {MAX_LINE_BYTES:,} bytes", "write one text a file")
    raw += unpacker.close()
    try:
        return without_mark(bytes(raw), shown).decode()
    except UnicodeDecodeError as error:
        raise not_utf_8(error, shown) from None
