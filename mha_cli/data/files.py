"""Labelled reviews from files of every format, and from folders with one sub-folder a class. No TensorFlow."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING

from mha_cli.data.labels import labelled
from mha_cli.data.paths import matching_paths, natural_order
from mha_cli.data.reviews import PlacedReview, Review
from mha_cli.errors import MhaError, did_you_mean, listed, printable, shown_path
from mha_cli.records.fasttext import LABEL_PREFIX
from mha_cli.records.gzipped import CHUNK_BYTES, Unpacker
from mha_cli.records.lines import BOM, MAX_LINE_BYTES, not_utf_8, without_mark
from mha_cli.records.reader import RecordReader, raised
from mha_cli.records.readers import EXTENSIONS, READERS, extension_of
from mha_cli.records.record import Columns, shown_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mha_cli.config.settings import FilesData
    from mha_cli.records.readers import Format

UNLABELLED_FOLDER = "unsup"
"""Sub-folder of the Large Movie Review Dataset whose reviews have no class."""

_KINDS = "give a .csv, .tsv, .txt, .jsonl, .ndjson, .json, .ft or .parquet file, or with .gz, or a folder with one sub-folder a class"
_ROWS: dict[Format, str] = {
    "jsonl": "write one JSON object a line, a text each",
    "fasttext": f"write {LABEL_PREFIX}, the class and a text a line",
    "parquet": "write a text a row",
}


def labelled_columns(text: str | None = None, label: str | None = None, by_options: bool = False) -> Columns:
    """The columns or JSON keys of labelled texts, named by options of the command or in a config; ``text`` and ``label`` by default."""
    settings = ("--text-column", "--label-column") if by_options else ("data.text_column", "data.label_column")
    return Columns(text or "text", (label or "label",), *settings, required=True)


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
        """Path of the training data, as the config gives it; of several, the first and how many there are beside it."""
        return listed(self._settings.train_paths, 1)

    @property
    def splits(self) -> tuple[str, ...]:
        """``train``, and ``test`` where the config names test data or a share of the training data to test on."""
        return ("train", "test") if self._settings.test_paths or self._settings.test_share else ("train",)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """None: only reading the reviews tells."""
        return None

    def unlabelled(self) -> Iterator[str] | None:
        """The lines of ``data.unlabelled``."""
        return None if self._settings.unlabelled is None else read_text_lines(self._settings.unlabelled)

    def read(self, split: str) -> Iterator[Review]:
        """The reviews of a split, file by file, each in its order, or that of the sorted file names of a folder; see ``read_labelled``."""
        return (placed.review for placed in self.read_placed(split))

    def read_placed(self, split: str) -> Iterator[PlacedReview]:
        """The same, and where each stands."""
        given = {"train": self._settings.train_paths, "test": self._settings.test_paths}
        if split not in given:
            raise MhaError(f'no split "{printable(split)}" in {shown_path(self.name)}', did_you_mean(printable(split), self.splits))
        if split not in self.splits:
            raise MhaError("the config names no test data", "give --data FILE, or train again with --set data.test_share=0.2")
        if self._settings.test_share and (split == "train" or not given["test"]):
            drawn = self._test_part if split == "test" else ~self._test_part
            on_blank = self._count_blank if split == "train" else lambda: None  # both parts are in the same files
            return compress(read_labelled(given["train"], self._columns, on_blank), drawn)
        return read_labelled(given[split], self._columns, self._count_blank)

    @cached_property
    def _test_part(self) -> npt.NDArray[np.bool_]:
        """For each review of the training files, whether it is held out for testing."""
        from mha_cli.data.held_out import drawn_for_testing  # NumPy, which only this needs

        share, by_names = self._settings.test_share or 0, self._settings.validation == "names"
        reviews = (placed.review for placed in read_labelled(self._settings.train_paths, self._columns))
        return drawn_for_testing(reviews, share, by_names, self.name)

    def _count_blank(self) -> None:
        self.num_blank += 1


def read_labelled(paths: Iterable[str], columns: Columns, on_blank: Callable[[], None] = lambda: None) -> Iterator[PlacedReview]:
    """Labelled reviews from several files or folders, or patterns of them, one after another; see ``read_labelled_file``."""
    every = [path for given in paths for path in matching_paths(given)]
    return chain.from_iterable([read_labelled_file(path, columns, on_blank) for path in every])


def read_labelled_file(path: str, columns: Columns, on_blank: Callable[[], None] = lambda: None) -> Iterator[PlacedReview]:
    """Labelled reviews from a file or folder, one at a time; never the whole of it in memory.

    A file is in the format that ``labelled_format`` finds, plain or gzipped, in UTF-8. In objects a label may be a string, a whole
    number, true or false, and is read as it is spelt, but 1.0 as 1. A folder has one sub-folder a class, named for the class, that holds
    a ``.txt`` file a review; hidden names and the sub-folder ``unsup`` are skipped. Labels lose the white space around them; texts
    are left alone, and may be empty. Blank lines are skipped.

    Args:
        path: file or folder; a leading ``~`` is the home folder.
        columns: columns of a file; of no meaning in a folder.
        on_blank: callback for every blank line.

    Raises:
        MhaError: at once for a path that is missing, a pipe or a device, or of no known kind; while iterating for the first fault inside.
    """
    shown = shown_path(path)
    if is_folder(path):
        return _folder_reviews(os.path.expanduser(path), shown)
    return _file_reviews(path, labelled_format(path), columns, on_blank)


def labelled_format(path: str) -> Format:
    """The format of a file of labelled texts, by its extension; in ``.txt`` it is fastText's if the first label begins so, else a table.

    Raises:
        MhaError: the extension is another one, or the file cannot be read.
    """
    extension = extension_of(path)
    if extension == ".txt":
        pieces = (piece.removeprefix(BOM).lstrip() for piece in unpacked(path))
        return "fasttext" if next(filter(None, pieces), b"").startswith(LABEL_PREFIX.encode()) else "csv"
    if extension not in EXTENSIONS:
        found = f"unknown extension {printable(extension)}" if extension else "no extension that tells its format"
        raise MhaError(f"{shown_path(path)}: {found}", _KINDS)
    return EXTENSIONS[extension]


def read_text_lines(path: str) -> Iterator[str]:
    """The texts of a UTF-8 file, plain or with .gz, one a line; blank lines are left out.

    Raises:
        MhaError: at once for a path that is missing, or is no file; while iterating for the first fault inside, or if there is no text.
    """
    if is_folder(path):
        raise MhaError(f"{shown_path(path)}: is a folder", "give a text file, a text a line")
    return _text_lines(path)


def _text_lines(path: str) -> Iterator[str]:
    empty = True
    for record in _reader(path, "lines", Columns()).read(_chunks(path)):
        if text := record.text.strip():
            empty = False
            yield text
    if empty:
        raise MhaError(f"{shown_path(path)}: no text in it", "write a text a line")


def is_folder(path: str) -> bool:
    """Whether a path is a folder rather than a file; anything else, a pipe or a device say, could block or never end, and is refused."""
    shown = shown_path(path)
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
        raise MhaError(f"{shown_path(path)}: {error.strerror or 'cannot be read'}", "give the path of data that can be read") from None


def unpacked(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces, unpacked if they are gzip data."""
    unpacker = Unpacker(shown_path(path), path.lower().endswith(".gz"))
    for chunk in _chunks(path):
        yield from unpacker.feed(chunk)
    yield unpacker.close()


def _reader(path: str, form: Format, columns: Columns, on_blank: Callable[[], None] = lambda: None) -> RecordReader:
    return READERS[form](shown_path(path), columns, raised, on_blank, path.lower().endswith(".gz"))


def _file_reviews(path: str, form: Format, columns: Columns, on_blank: Callable[[], None]) -> Iterator[PlacedReview]:
    if form == "fasttext":
        columns = labelled_columns()  # it has no others
    shown, reader, empty = shown_path(path), _reader(path, form, columns, on_blank), True
    for record in reader.read(_chunks(path)):
        empty = False
        review = labelled(record.text, record.fields[0], f"{shown}:{record.line}", columns.fields[0])
        yield PlacedReview(review, path, record.line)
    if empty and reader.header:
        raise no_texts_below(path)
    if empty:
        raise MhaError(f"{shown}: the file is empty", _ROWS.get(form, f"write a header line ({columns.header}) and a text a row"))


def no_texts_below(path: str) -> MhaError:
    """What is said of a table that ends with its header."""
    return MhaError(f"{shown_path(path)}: a header but no texts", "write a text a row below it")


# A folder with one sub-folder a class


def _folder_reviews(folder: str, shown: str) -> Iterator[PlacedReview]:
    class_folders = [entry for entry in _entries(folder) if entry.is_dir() and entry.name != UNLABELLED_FOLDER]
    if not class_folders:
        raise MhaError(f"{shown}: no sub-folders", "give a folder with one sub-folder a class, each holding .txt files")
    for entry in class_folders:
        if not _text_files(entry):
            raise _no_texts(entry)
    for entry in class_folders:
        for text_file in _text_files(entry):
            yield PlacedReview(labelled(_text_of(text_file), entry.name, shown_path(entry.path)), text_file.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds that is not hidden, sorted so that 2 comes before 10."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: natural_order(entry.name))
    except OSError as error:
        raise MhaError(f"{shown_path(folder)}: {error.strerror}", "give the path of data that can be read") from None


def _text_files(folder: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(folder.path) if entry.name.lower().endswith(".txt")]


def _no_texts(entry: os.DirEntry[str]) -> MhaError:
    inner_folders = [inner.name for inner in _entries(entry.path) if inner.is_dir()]
    shown = shown_path(entry.path)
    if inner_folders:
        return MhaError(
            f"{shown}: no .txt files, only the sub-folders {shown_columns(inner_folders)}", f"perhaps {shown} is the folder to give"
        )
    return MhaError(f"{shown}: no .txt files", "put the texts of the class there, one a .txt file, or remove the folder")


def _text_of(entry: os.DirEntry[str]) -> str:
    shown = shown_path(entry.path)
    if is_folder(entry.path):
        raise MhaError(f"{shown}: a folder where a text belongs", "rename it, or move it away")
    raw = bytearray()
    for piece in unpacked(entry.path):
        raw += piece
        if len(raw) > MAX_LINE_BYTES:
            raise MhaError(f"{shown}: longer than {MAX_LINE_BYTES:,} bytes", "write one text a file")
    try:
        return without_mark(bytes(raw), shown).decode()
    except UnicodeDecodeError as error:
        raise not_utf_8(error, shown) from None
