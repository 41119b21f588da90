"""Labelled texts from files of every format, and from folders with one sub-folder per class. No TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, compress, repeat, takewhile
from typing import Any

import numpy as np

from mha_cli.arrays import Bools
from mha_cli.config.settings import FilesData
from mha_cli.errors import JOINT, MhaError, did_you_mean, listed, printable, reason_of, shown_path, without_secrets
from mha_cli.records.encodings import utf_8
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.objects import as_text
from mha_cli.records.reader import USUAL, Dialect, Reading, StreamWarnings
from mha_cli.records.readers import Format, format_of, read_records
from mha_cli.records.record import LABEL_PREFIX, Columns, Record, shown_columns
from mha_cli.sources.held_out import drawn_for_testing
from mha_cli.sources.labelled_text import LabelledText, TextSource, place_of
from mha_cli.sources.labels import in_levels, labelled, marked, merged
from mha_cli.sources.later_texts import with_later
from mha_cli.sources.layout import Layout, find_layout, find_text_column, is_for_testing
from mha_cli.sources.raw_files import file_pieces, file_reading, is_folder, labelled_format, matching_paths, natural_order, unpacked_file
from mha_cli.sources.stored_texts import StoredTexts
from mha_cli.sources.text_weights import weight_of, with_weight

UNLABELLED_FOLDER = "unsup"  # sub-folder of the Large Movie Review Dataset whose texts have no class
_ROWS: dict[Format, str] = {
    "jsonl": "write one JSON object per line",
    "fasttext": f"write {LABEL_PREFIX}, the class and the text on each line",
    "parquet": "write one text per row",
}


def labelled_columns(
    text: str | None = None,
    label: str | None = None,
    by_options: bool = False,
    label_columns: Sequence[str] = (),
    levels: str | None = None,
) -> Columns:
    """The columns or JSON keys of labelled texts, by default ``text`` and ``label``; messages name options or settings."""
    of_text, of_label = ("--text-column", "--label-column") if by_options else ("data.text_column", "data.label_column")
    columns = Columns(text or "text", (label or "label",), of_text, of_label, required=True)
    if label_columns:
        return columns._replace(fields=(*label_columns,), field_setting="data.label_columns", num_labels=len(label_columns))
    if JOINT in columns.fields[0]:
        fields = tuple(columns.fields[0].split(JOINT))
        return columns._replace(fields=fields, num_labels=len(fields), levels=f" {levels} ")
    return columns


class FileTexts(TextSource):
    """The texts that a config's ``data.train``, ``data.more`` and ``data.test`` name.

    ``settings`` are those of the config with the columns that it leaves open: those that the first training file seems to have.
    """

    class_names = None

    def __init__(self, settings: FilesData, by_options: bool = False, note: Callable[[str], None] = lambda _: None) -> None:
        self._dialect = Dialect(settings.encoding, settings.quoting)
        self.settings = settings
        if not (settings.text_column and (settings.label_column or settings.label_columns)):
            self._find_columns(note)
        given = self.settings
        self._columns = labelled_columns(given.text_column, given.label_column, by_options, given.label_columns, given.label_levels)
        self.has_labels = bool(settings.train_paths)
        paths = [*settings.train_paths, *settings.more] or [settings.unlabelled or ""]
        self.name = listed([*map(without_secrets, paths)], 1)  # as given; of several, the first and how many there are beside it
        self.splits = ("train", "test") if settings.test_paths or settings.test_share else ("train",)
        self.warnings = StreamWarnings()  # about the split read last
        self._labels_in_levels = dict[tuple[str, ...], str]()

    def _find_columns(self, note: Callable[[str], None]) -> None:
        """Set the columns that are open, and note them unless they are ``text`` and ``label``, as they are where none is found."""
        given = self.settings
        if not self._first_path:
            text = find_text_column(given.unlabelled or "", given.text_column, self._dialect)
            self.settings = given.changed(text_column=text, label_column=given.label_column or "label")
            return
        try:
            path, layout = matching_paths(self._first_path)[0], self._layout
        except MhaError:  # which reading the file raises as well
            path, layout = "", Layout("", text_column=given.text_column or "text", label_column=given.label_column or "label")
        found = layout if layout.columns or not path else given  # a folder and fastText's lines have no columns
        columns: dict[str, Any] = {"text_column": found.text_column or "text", "label_column": found.label_column or "label"}
        for (setting, column), reason in zip(columns.items(), (layout.text_reason, layout.label_reason), strict=True):
            name = setting.removesuffix("_column")
            if getattr(given, setting) is None and column != name and not (name == "label" and given.label_columns):
                note(f"{shown_path(path)}: {name} column {printable(column)} ({printable(reason, 200)})")
        if given.label_columns or layout.label_columns:
            columns |= {"label_column": None, "label_columns": given.label_columns or [*layout.label_columns]}
        self.settings = given.changed(**columns)

    @property
    def _first_path(self) -> str:
        """The first path of labelled texts; empty for none."""
        return next(iter([*self.settings.train_paths, *self.settings.test_paths]), "")

    @cached_property
    def _layout(self) -> Layout:
        """What the first file of labelled texts looks like."""
        path = matching_paths(self._first_path)[0]
        label = self.settings.label_column or next(iter(self.settings.label_columns), None)
        return find_layout(path, self.settings.text_column, label, self._dialect)

    def unlabelled(self) -> Iterator[str] | None:
        """The texts of ``data.unlabelled``, in the text column of ``data.train`` if a table has it."""
        path, column = self.settings.unlabelled, self.settings.text_column
        return None if path is None else read_texts(path, column, self._dialect)

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts of a split, file by file; those of a folder by sorted file names."""
        if split not in ("train", "test"):
            raise MhaError(f'no split "{printable(split)}" in {shown_path(self.name)}', did_you_mean(printable(split), self.splits))
        if split not in self.splits:
            way_out = "give --data FILE, or train again with --set data.test_share=0.2"
            raise MhaError("the config names no test data", way_out if self.has_labels else "give labelled texts: --data FILE")
        if split == "train" and not self.has_labels:
            raise MhaError(f"{shown_path(self.name)}: texts without labels", "give labelled texts, with --data FILE or in the config")
        return self._training_texts() if split == "train" else self._test_texts()

    def _training_texts(self) -> Iterator[LabelledText]:
        texts: Iterable[LabelledText]
        kept: Iterable[bool]
        if self.settings.test_share:
            texts, is_test, later, self.warnings = self._with_test_part
            kept = ~is_test
        else:
            self.warnings = StreamWarnings()
            texts, kept = self._labelled(self.settings.train_paths, self._training_columns, self.warnings), repeat(True)
            later = self._later_texts(self.warnings)
        if later:
            return with_later(texts, kept, later, self.warnings)
        texts = compress(texts, kept)
        return with_weight(texts, shown_path(self.name), self.warnings) if self._training_columns.weight else texts

    def _test_texts(self) -> Iterator[LabelledText]:
        self.warnings = StreamWarnings()
        if self.settings.test_paths:
            return self._labelled(self.settings.test_paths, self._columns, self.warnings)
        texts, is_test, later, _ = self._with_test_part
        return with_later(texts, is_test, later) if later else compress(texts, is_test)

    @cached_property
    def _with_test_part(self) -> tuple[StoredTexts, Bools, list[StoredTexts], StreamWarnings]:
        """The texts of ``data.train``, which of them are held out for testing, those of ``data.more``, and warnings of this one read."""
        columns, warnings = self._training_columns, StreamWarnings()
        if column := self._layout.part_column:
            columns = columns._replace(fields=(*columns.fields, column))
        texts, later = StoredTexts(self._labelled(self.settings.train_paths, columns, warnings)), self._later_texts(warnings)
        if self._layout.has_split:
            return texts, np.array([is_for_testing(text.group) for text in texts]), later, warnings
        share, by_names = self.settings.test_share or 0, self.settings.validation == "names"
        return texts, drawn_for_testing(texts, share, by_names, self.name, by_groups=bool(column)), later, warnings

    def _later_texts(self, warnings: StreamWarnings) -> list[StoredTexts]:
        return [StoredTexts(self._labelled([path], self._training_columns, warnings)) for path in self.settings.more]

    def _labelled(self, paths: Iterable[str], columns: Columns, warnings: StreamWarnings) -> Iterator[LabelledText]:
        texts = read_labelled(paths, columns, self._dialect, warnings, self.settings.label_separator)
        texts = merged(texts, self.settings.merge_labels, warnings)
        return in_levels(texts, self.settings.label_levels, self._labels_in_levels) if self.settings.label_levels else texts

    @property
    def _training_columns(self) -> Columns:
        """The columns of a training text: text, label and perhaps weight."""
        weight = self.settings.weight_column
        return self._columns._replace(fields=(*self._columns.fields, weight), weight=weight) if weight else self._columns


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
        if form in ("folder", "fasttext") and (columns.weight or columns.num_labels):
            of_labels = "data.label_column=null" if columns.levels else "data.label_columns=[]"
            setting, what = ("data.weight_column=null", "weights") if columns.weight else (of_labels, "label in each")
            raise MhaError(f"{reading.name}: has no columns, so no {what}", f"set {setting}, or give a table or JSON lines")
        return _folder_texts(path, reading) if form == "folder" else _file_texts(path, form, reading, separator)

    return chain.from_iterable([texts_of(path) for given in paths for path in matching_paths(given)])


def read_texts(path: str, text_column: str | None = None, dialect: Dialect = USUAL) -> Iterator[str]:
    """The texts of a file without labels: one per line, or a table, JSON lines or Parquet by its extension; blank ones are left out."""
    if is_folder(path):
        raise MhaError(f"{shown_path(path)}: is a folder", "give a file of texts")
    columns = Columns(find_text_column(path, text_column, dialect), text_setting="data.text_column")
    reading = file_reading(path, columns, dialect)

    def texts() -> Iterator[str]:
        empty = True
        for record in read_records(format_of(path), file_pieces(path), reading):
            if text := record.text.strip():
                empty = False
                yield text
        if empty:
            raise MhaError(f"{reading.name}: no text in it", "write one text per line")

    return texts()


def _file_texts(path: str, form: Format, reading: Reading, separator: str | None) -> Iterator[LabelledText]:
    columns, empty = reading.columns, True
    if form == "fasttext":
        columns = columns._replace(text="text", fields=("label",))  # it has no others
    for record in read_records(form, file_pieces(path), replace(reading, columns=columns)):
        empty = False
        location, (*more,) = place_of(path, record.line), record.fields[columns.num_labels or 1 :]
        weight = weight_of(more.pop(0), location, columns.weight) if columns.weight else 1.0
        label = _label_of(record, columns, location)
        text = labelled(record.text, label, path, record.line, *more, column=columns.fields[0], separator=separator)
        yield text if weight == 1.0 else text._replace(weight=weight)
    if empty:
        if reading.warnings.num_unanswered:
            raise MhaError(f"{reading.name}: no text has an answer", "export texts that people have labelled")
        hint = _ROWS.get(form, f"write a header line ({columns.header}) and one text per row")
        raise MhaError(f"{reading.name}: the file is empty", hint)


def _label_of(record: Record, columns: Columns, location: str) -> Any:
    """The label in one column, the levels of several columns joined, or the names of the columns that mark the text."""
    cells = record.fields[: columns.num_labels]
    if columns.levels:
        return columns.levels.join(takewhile(bool, map(str.strip, map(as_text, cells))))
    return marked(dict(zip(columns.fields, cells, strict=False)), location) if columns.num_labels else record.fields[0]


def _folder_texts(folder: str, reading: Reading) -> Iterator[LabelledText]:
    class_folders = [entry for entry in _entries(folder) if entry.is_dir() and entry.name != UNLABELLED_FOLDER]
    if not class_folders:
        raise MhaError(f"{reading.name}: no sub-folders", "give a folder with one sub-folder per class, each holding .txt files")
    for entry in class_folders:
        if not _text_files(entry):
            shown, folders = shown_path(entry.path), [inner.name for inner in _entries(entry.path) if inner.is_dir()]
            if folders:
                fault = f"{shown}: no .txt files, only the sub-folders {shown_columns(folders)}"
                raise MhaError(fault, f"perhaps {shown} is the folder to give")
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
