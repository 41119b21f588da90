"""Where texts come from: arguments, files, and streams that may pause."""

from __future__ import annotations

import fcntl
import os
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from mha_cli.data.paths import matching_paths
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.doubts import Doubts
from mha_cli.records.gzipped import CHUNK_BYTES
from mha_cli.records.reader import NAME_FORMAT, RecordReader, refuse_fields_of_plain_lines
from mha_cli.records.readers import EXTENSIONS, READERS, Format, extension_of
from mha_cli.records.record import TEXT_COLUMN, Columns, Record

STANDARD_INPUT = "-"
PIPE_BYTES = 1 << 20
"""What a producer may write ahead into a pipe while a batch is computed: so a fast one fills the next batch."""

WAIT_SECONDS = 1.0
"""Longest single wait. Python does not notice a signal that comes just before a wait, so a wait without end could swallow Ctrl-C."""


class Arrival(NamedTuple):
    """What has come of a stream since the last one.

    Args:
        records: records, to be taken before the next arrival.
        awaited: descriptor that has to become readable before the next arrival; None where nothing has to be waited for.
    """

    records: Iterable[Record]
    awaited: int | None = None


def read_inputs(
    paths: Sequence[str],
    form: Format | None = None,
    text_column: str | None = None,
    fields: Sequence[str] = (),
    default_column: str = TEXT_COLUMN,
    standard_input: int = 0,
    on_doubt: Callable[[str], None] = lambda _: None,
) -> Iterator[Arrival]:
    """The records of several files, one file after the other. Bytes that are not UTF-8 become U+FFFD.

    Args:
        paths: files, or patterns of them as in ``matching_paths``; ``-`` is standard input.
        form: format of all of them; None takes each file's from its extension.
        text_column: column or key of the text; None takes ``default_column``. Plain lines have only the one.
        fields: columns or keys to keep; a JSON object that lacks one has null there.
        default_column: column or key of the text where none is asked for.
        standard_input: descriptor of standard input.
        on_doubt: callback for what is to be said of a file that is odd, and read all the same.

    Raises:
        MhaError: at once for a file that is not there, or options that do not go together; while iterating for the first fault inside,
            after every record before it.
    """
    paths = [path for given in paths for path in matching_paths(given)]
    for path in paths:
        try:
            os.stat(standard_input if path == STANDARD_INPUT else path)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from None
    forms = [form or format_of(path) for path in paths]
    refuse_column_of_plain_lines(text_column, forms)
    columns = Columns(text_column or default_column, tuple(fields))
    return _one_by_one(paths, forms, columns, standard_input, on_doubt, guessed=form is None)


def given_texts(texts: Iterable[str], fields: Sequence[str] = ()) -> Iterator[Arrival]:
    """Texts that are there already, each like a plain line, which has no other field than ``text``."""
    refuse_fields_of_plain_lines(fields, "arguments", "give texts with columns in a file, with --input")
    return iter([Arrival(Record(text, text.encode() + b"\n", (text,) * len(fields)) for text in texts)])


def format_of(path: str) -> Format:
    """The format that the extension of a file name tells, ``.gz`` left aside; plain lines if it tells none."""
    return EXTENSIONS.get(extension_of(path), "lines")


def refuse_column_of_plain_lines(text_column: str | None, forms: Iterable[Format]) -> None:
    """Raise an MhaError for a column where all inputs are plain lines."""
    if text_column is not None and set(forms) == {"lines"}:
        raise MhaError(f"--text-column {printable(text_column)}: plain lines have no columns", NAME_FORMAT)


def shown_name(path: str) -> str:
    """What an input is called in messages."""
    return "standard input" if path == STANDARD_INPUT else shown_path(path)


def _one_by_one(
    paths: Sequence[str],
    forms: Sequence[Format],
    columns: Columns,
    standard_input: int,
    on_doubt: Callable[[str], None],
    guessed: bool,
) -> Iterator[Arrival]:
    for path, form in zip(paths, forms, strict=True):
        is_standard = path == STANDARD_INPUT
        try:
            with open(standard_input if is_standard else path, "rb", buffering=0, closefd=not is_standard) as file:
                doubts = Doubts(shown_name(path), columns.text, guessed)
                reader = READERS[form](shown_name(path), columns, doubts.count_not_utf_8, on_plain=doubts.begin_plain)
                yield from _arrivals(file.fileno(), reader)
                for doubt in doubts.lines:
                    on_doubt(doubt)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from None


def _arrivals(descriptor: int, reader: RecordReader) -> Iterator[Arrival]:
    """The loop that reads a stream and waits for it."""
    with suppress(OSError, AttributeError):  # no pipe, or a system that cannot
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield Arrival((), awaited=descriptor)
            while not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
                pass
        if not (chunk := os.read(descriptor, CHUNK_BYTES)):
            break
        yield Arrival(reader.feed(chunk))
    yield Arrival(reader.close())


def _unreadable(path: str, error: OSError | ValueError) -> MhaError:
    return MhaError(f"{shown_name(path)}: cannot be read: {getattr(error, 'strerror', error)}", "give a file of texts")
