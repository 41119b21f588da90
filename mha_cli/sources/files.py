"""Labelled texts from files of every format, and from folders with one sub-folder per class. No TensorFlow."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING

from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError, did_you_mean, listed, printable, reason_of, shown_path
from mha_cli.records.encodings import refuse_binary, utf_8
from mha_cli.records.lines import CHUNK_BYTES, MAX_LINE_BYTES, unpacked
from mha_cli.records.reader import USUAL, Dialect, Reading, StreamWarnings
from mha_cli.records.readers import EXTENSIONS, Format, extension_of, read_records
from mha_cli.records.record import LABEL_PREFIX, Columns, shown_columns
from mha_cli.sources.labelled_text import LabelledText, TextSource, place_of
from mha_cli.sources.labels import labelled, merged
from mha_cli.sources.later_texts import with_later
from mha_cli.sources.paths import matching_paths, natural_order
from mha_cli.sources.text_weights import that_count, weight_of

if TYPE_CHECKING:
    from mha_cli.arrays import Bools

UNLABELLED_FOLDER = "unsup"  # sub-folder of the Large Movie Review Dataset whose texts have no class
_KINDS = "give a .csv, .tsv, .txt, .jsonl, .ndjson, .json, .ft or .parquet file, or with .gz, or a folder with one sub-folder per class"
_ROWS: dict[Format, str] = {
    "jsonl": "write one JSON object per line",
    "fasttext": f"write {LABEL_PREFIX}, the class and the text on each line",
    "parquet": "write one text per row",
}


def labelled_columns(text: str | None = None, label: str | None = None, by_options: bool = False) -> Columns:
    """The columns or JSON keys of labelled texts, by default ``text`` and ``label``; messages name options or settings."""
    settings = ("--text-column", "--label-column") if by_options else ("data.text_column", "data.label_column")
    return Columns(text or "text", (label or "label",), *settings, required=True)


class FileTexts(TextSource):
    """The texts that a config's ``data.train`` and ``data.test`` name."""

    class_names = None

    def __init__(self, settings: FilesData, by_options: bool = False) -> None:
        self._settings = settings
        self._columns = labelled_columns(settings.text_column, settings.label_column, by_options)
        self._dialect = Dialect(settings.encoding, settings.quoting)
        self.name = listed([*settings.train_paths, *settings.more], 1)  # as given; of several, the first and how many there are beside it
        self.splits = ("train", "test") if settings.test_paths or settings.test_share else ("train",)
        self.warnings = StreamWarnings()  # about the split read last

    def unlabelled(self) -> Iterator[str] | None:
        """The lines of ``data.unlabelled``."""
        return None if self._settings.unlabelled is None else read_text_lines(self._settings.unlabelled, self._dialect)

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts of a split, file by file; those of a folder by sorted file names."""
        given = {"train": self._settings.train_paths, "test": self._settings.test_paths}
        if split not in given:
            raise MhaError(f'no split "{printable(split)}" in {shown_path(self.name)}', did_you_mean(printable(split), self.splits))
        if split not in self.splits:
            raise MhaError("the config names no test data", "give --data FILE, or train again with --set data.test_share=0.2")
        self.warnings = StreamWarnings()
        columns, weight = self._columns, self._settings.weight_column if split == "train" else None
        if weight:
            columns = columns._replace(fields=(*columns.fields, weight), weight=weight)
        has_part = self._settings.test_share and (split == "train" or not given["test"])
        if split == "test" and not has_part:
            return self._labelled(given[split], columns, self.warnings)
        warnings = self.warnings if split == "train" else None  # both parts are in the same files
        texts: Iterator[LabelledText] = self._labelled(given["train"], columns, warnings)
        drawn: Iterable[bool] = repeat(True)
        if has_part:
            drawn = self._test_part if split == "test" else ~self._test_part
        later = [partial(self._labelled, [path], columns) for path in self._settings.more]
        if later:
            return with_later(texts, drawn, later, warnings)
        return that_count(compress(texts, drawn), shown_path(self.name), self.warnings) if weight else compress(texts, drawn)

    def _labelled(self, paths: Iterable[str], columns: Columns, warnings: StreamWarnings | None = None) -> Iterator[LabelledText]:
        texts = read_labelled(paths, columns, self._dialect, warnings, self._settings.label_separator)
        return merged(texts, self._settings.merge_labels)

    @cached_property
    def _test_part(self) -> Bools:
        """For each text of the training files, whether it is held out for testing."""
        import numpy as np  # which only this needs

        from mha_cli.sources.held_out import drawn_for_testing
        from mha_cli.sources.layout import find_layout, is_for_testing

        settings, paths, columns = self._settings, self._settings.train_paths, self._columns
        layout = find_layout(matching_paths(paths[0])[0], settings.text_column, settings.label_column, self._dialect)
        if layout.part_column:
            columns = columns._replace(fields=(*columns.fields, layout.part_column))
        texts = self._labelled(paths, columns)
        if layout.has_split:
            return np.array([is_for_testing(one.part) for one in texts])
        share, by_names = settings.test_share or 0, settings.validation == "names"
        return drawn_for_testing(texts, share, by_names, self.name, by_groups=bool(layout.part_column))


def read_labelled(
    paths: Iterable[str], columns: Columns, dialect: Dialect = USUAL, warnings: StreamWarnings | None = None, separator: str | None = None
) -> Iterator[LabelledText]:
    """Labelled texts from files and folders, or patterns of them, one after another, as a stream.

    A folder has one sub-folder per class, named for the class, with one ``.txt`` file per text; hidden names and the sub-folder ``unsup``
    are skipped. Texts are left alone, and may be empty. Blank lines are skipped.
    """

    def texts_of(path: str) -> Iterator[LabelledText]:
        reading = file_reading(path, columns, dialect, warnings)
        form = "folder" if is_folder(path) else labelled_format(path, dialect)
        if columns.weight and form in ("folder", "fasttext"):
            raise MhaError(f"{reading.name}: has no columns, so no weights", "set data.weight_column=null, or give a table or JSON lines")
        return _folder_texts(path, reading) if form == "folder" else _file_texts(path, form, reading, separator)

    return chain.from_iterable([texts_of(path) for given in paths for path in matching_paths(given)])


def labelled_format(path: str, dialect: Dialect = USUAL) -> Format:
    """The format of a file of labelled texts, by its extension; ``.txt`` is fastText if it begins with ``__label__``, else a table."""
    extension = extension_of(path)
    if extension == ".txt":
        pieces = (piece.lstrip() for piece in utf_8(unpacked_file(path), shown_path(path), dialect.encoding))
        return "fasttext" if next(filter(None, pieces), b"").startswith(LABEL_PREFIX.encode()) else "csv"
    if extension not in EXTENSIONS:
        refuse_binary(next(unpacked_file(path), b""), shown_path(path))
        found = f"unknown extension {printable(extension)}" if extension else "no extension that tells its format"
        raise MhaError(f"{shown_path(path)}: {found}", _KINDS)
    return EXTENSIONS[extension]


def read_text_lines(path: str, dialect: Dialect = USUAL) -> Iterator[str]:
    """The texts of a file, plain or gzipped, one per line; blank lines are left out."""
    if is_folder(path):
        raise MhaError(f"{shown_path(path)}: is a folder", "give a text file with one text per line")
    reading = file_reading(path, Columns(text_setting="data.text_column"), dialect)

    def texts() -> Iterator[str]:
        empty = True
        for record in read_records("lines", file_pieces(path), reading):
            if text := record.text.strip():
                empty = False
                yield text
        if empty:
            raise MhaError(f"{reading.name}: no text in it", "write one text per line")

    return texts()


def is_folder(path: str) -> bool:
    """Whether a path is a folder rather than a file. Pipes and devices are refused: reading them could block or never end."""
    shown = shown_path(path)
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except FileNotFoundError:
        raise MhaError(f"{shown}: no such file or folder", "check the path; relative paths start at the current folder") from None
    except (OSError, ValueError) as error:
        raise MhaError(f"{shown}: {getattr(error, 'strerror', 'not a file name')}", "give the path of data that can be read") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise MhaError(f"{shown}: {kind}, neither a file nor a folder", "save the texts in a file first; they are read more than once")
    return stat.S_ISDIR(mode)


def file_pieces(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces."""
    try:
        with open(os.path.expanduser(path), "rb", buffering=0) as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece
    except OSError as error:
        raise MhaError(f"{shown_path(path)}: {reason_of(error)}", "give the path of data that can be read") from None


def unpacked_file(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces, unpacked if they are gzip data."""
    return unpacked(file_pieces(path), shown_path(path), path.lower().endswith(".gz"))


def file_reading(path: str, columns: Columns, dialect: Dialect, warnings: StreamWarnings | None = None) -> Reading:
    """How a file of labelled texts is read: bytes that are not UTF-8 are refused."""
    return Reading(shown_path(path), columns, dialect, warnings or StreamWarnings(), path.lower().endswith(".gz"), strict=True)


def _file_texts(path: str, form: Format, reading: Reading, separator: str | None) -> Iterator[LabelledText]:
    columns, empty = reading.columns, True
    if form == "fasttext":
        columns = columns._replace(text="text", fields=("label",))  # it has no others
    for record in read_records(form, file_pieces(path), replace(reading, columns=columns)):
        empty = False
        label, *more = record.fields
        weight = weight_of(more.pop(0), place_of(path, record.line), columns.weight) if columns.weight else 1.0
        one = labelled(record.text, label, path, record.line, *more, column=columns.fields[0], separator=separator)
        yield one if weight == 1.0 else one._replace(weight=weight)
    if empty:
        hint = _ROWS.get(form, f"write a header line ({columns.header}) and one text per row")
        raise MhaError(f"{reading.name}: the file is empty", hint)


def _folder_texts(folder: str, reading: Reading) -> Iterator[LabelledText]:
    class_folders = [entry for entry in _entries(folder) if entry.is_dir() and entry.name != UNLABELLED_FOLDER]
    if not class_folders:
        raise MhaError(f"{reading.name}: no sub-folders", "give a folder with one sub-folder per class, each holding .txt files")
    for entry in class_folders:
        if not _text_files(entry):
            shown, folders = shown_path(entry.path), [inner.name for inner in _entries(entry.path) if inner.is_dir()]
            if folders:
                found = f"{shown}: no .txt files, only the sub-folders {shown_columns(folders)}"
                raise MhaError(found, f"perhaps {shown} is the folder to give")
            raise MhaError(f"{shown}: no .txt files", "put the texts of the class there, one per .txt file, or remove the folder")
    for entry in class_folders:
        of_class = labelled("", entry.name, entry.path)
        for text_file in _text_files(entry):
            yield of_class._replace(text=_text_of(text_file, reading), file=text_file.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds that is not hidden, sorted so that 2 comes before 10."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: natural_order(entry.name))
    except OSError as error:
        raise MhaError(f"{shown_path(folder)}: {reason_of(error)}", "give the path of data that can be read") from None


def _text_files(folder: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(folder.path) if entry.name.lower().endswith(".txt")]


def _text_of(entry: os.DirEntry[str], folder_reading: Reading) -> str:
    reading, raw = replace(folder_reading, name=shown_path(entry.path)), bytearray()
    if is_folder(entry.path):
        raise MhaError(f"{reading.name}: a folder where a text belongs", "rename it, or move it away")
    for piece in utf_8(unpacked_file(entry.path), reading.name, reading.dialect.encoding):
        raw += piece
        if len(raw) > MAX_LINE_BYTES:
            raise MhaError(f"{reading.name}: longer than {MAX_LINE_BYTES:,} bytes", "write one text per file")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise reading.not_utf_8(error, 1) from None
