"""Where texts come from: arguments, files, and streams that may pause."""

import fcntl
import os
import select
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from mha_cli.errors import MhaError, printable, reason_of, shown_path
from mha_cli.records.line_formats import NAME_FORMAT, fields_of_plain_line, refuse_fields_of_plain_lines
from mha_cli.records.lines import CHUNK_BYTES
from mha_cli.records.reader import USUAL, Dialect, Reading, StreamWarnings
from mha_cli.records.readers import Format, format_of, read_records
from mha_cli.records.record import TEXT_COLUMN, Columns, Record
from mha_cli.records.spreadsheets import file_and_sheet
from mha_cli.sources.raw_files import file_pieces, local_path, matching_paths

STANDARD_INPUT = "-"
PIPE_BYTES = 1 << 20  # capacity of a pipe: a fast producer writes the next batch while this one is computed
WAIT_SECONDS = 1.0  # longest single wait: Python does not notice a signal just before it, so an endless one could swallow Ctrl-C


def read_inputs(
    paths: Sequence[str],
    record_format: Format | None = None,
    text_column: str | None = None,
    fields: Sequence[str] = (),
    default_column: str = TEXT_COLUMN,
    standard_input: int = 0,
    dialect: Dialect = USUAL,
    on_warning: Callable[[str], None] = lambda _: None,
    on_wait: Callable[[int], None] = lambda _: None,
    *,
    field_option: str = "--field",
) -> Iterator[Record]:
    """The records of several files, one file after the other. Bytes that are not in the encoding become U+FFFD.

    Args:
        paths: files, or patterns of them as in ``matching_paths``; ``-`` is standard input.
        record_format: format of all of them; None takes each file's from its extension.
        text_column: column or key of the text; None takes ``default_column``. Plain lines have none.
        fields: columns or keys to keep; a JSON object that lacks one has null there.
        default_column: column or key of the text if the user names none.
        standard_input: its descriptor.
        on_warning: callback with each warning about a file.
        on_wait: callback with a descriptor, just before the reader waits for more to read there.
        field_option: option that names ``fields``, for messages.
    """
    paths = [path for given in paths for path in matching_paths(given)]
    for path in paths:
        with _faults_named(path):
            os.stat(standard_input if path == STANDARD_INPUT else local_path(path) or os.curdir)
    formats = [record_format or format_of(path) for path in paths]
    refuse_column_of_plain_lines(text_column, formats)
    columns = Columns(text_column or default_column, tuple(fields), field_setting=field_option)

    def one_by_one() -> Iterator[Record]:
        for path, path_format in zip(paths, formats, strict=True):
            warnings = StreamWarnings(guessed=record_format is None)
            with closing(_pieces(path, standard_input, on_wait)) as pieces:
                yield from read_records(path_format, pieces, Reading(shown_name(path), columns, dialect, warnings, file_and_sheet(path)[1]))
            for warning in warnings.lines:
                on_warning(warning)

    return one_by_one()


def given_texts(texts: Iterable[str], fields: Sequence[str] = ()) -> Iterator[Record]:
    """Texts from arguments, as plain lines: their only field is ``text``."""
    refuse_fields_of_plain_lines(fields, "arguments", "give texts with columns in a file, with --input")
    return (Record(text, text.encode() + b"\n", fields_of_plain_line(fields, text)) for text in texts)


def refuse_column_of_plain_lines(text_column: str | None, formats: Iterable[Format]) -> None:
    """Raise an MhaError for a column where all inputs are plain lines."""
    if text_column is not None and set(formats) == {"lines"}:
        raise MhaError(f"--text-column {printable(text_column)}: plain lines have no columns", NAME_FORMAT)


def shown_name(path: str) -> str:
    """Name of an input in messages."""
    return "standard input" if path == STANDARD_INPUT else shown_path(path)


def _pieces(path: str, standard_input: int, on_wait: Callable[[int], None]) -> Generator[bytes, None, None]:
    """The bytes of an input: the loop that reads it, and waits for it."""
    if (local := local_path(path)) is None:
        yield from file_pieces(path)
        return
    with _faults_named(path):
        descriptor = standard_input if path == STANDARD_INPUT else os.open(local, os.O_RDONLY)
    try:
        with suppress(OSError, AttributeError):  # no pipe, or a system that cannot
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        waiting = select.poll()  # which takes a descriptor of any number, as select() does not
        waiting.register(descriptor, select.POLLIN)
        while True:
            if not waiting.poll(0):
                on_wait(descriptor)
            while not waiting.poll(WAIT_SECONDS * 1000):
                pass
            with _faults_named(path):
                piece = os.read(descriptor, CHUNK_BYTES)
            if not piece:
                return
            yield piece
    finally:
        if path != STANDARD_INPUT:
            os.close(descriptor)


@contextmanager
def _faults_named(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise MhaError(f"{shown_name(path)}: cannot be read: {reason_of(error)}", "give a file of texts") from None
