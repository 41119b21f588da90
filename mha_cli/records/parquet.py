"""Parquet, through pyarrow."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Any

from mha_cli.errors import MhaError, reason_of
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.objects import json_line
from mha_cli.records.reader import Reading
from mha_cli.records.record import Record, missing_column
from mha_cli.system.whole_files import temporary_faults

BATCH_ROWS = 16  # rows that are decoded together: few, since a small file may say that all of them hold the same long text
BUFFER_BYTES, MOST_METADATA_BYTES = 1 << 20, 1 << 26
GROUP_BYTES = 1 << 25  # bytes of the records that are written as one row group
MOST_INFLATED = 100  # times the file's size that more than a row's bytes of a row group may take unpacked; texts shrink to a tenth at best
NEEDS = "it takes the whole file, unpacked"


def parquet_records(pieces: Iterable[bytes], reading: Reading) -> Iterator[Record]:
    """The rows of a Parquet file, with columns by their names, a dot before the parts of a nested one.

    ``line`` of a record is the number of the row, ``raw`` an object with the columns that are wanted.
    """
    columns, name = reading.columns, reading.name
    named = dict.fromkeys(columns.texts, columns.text_setting) | dict.fromkeys(columns.fields, columns.field_setting)
    wanted = None if columns.takes_all else named
    with whole_file(pieces) as file:
        for number, row in enumerate(parquet_rows(file, name, wanted), 1):
            raw = json_line(row, _plain)
            try:
                if len(raw) > MAX_LINE_BYTES:
                    raise row_too_long(name, number)
                record = columns.record(json.loads(raw), f"{name}:{number}", raw, number)
            except MhaError as fault:
                record = reading.on_fault(fault, number)
            yield record


@contextmanager
def whole_file(pieces: Iterable[bytes]) -> Iterator[IO[bytes]]:
    """The bytes of a Parquet file in a temporary file: its end says what is in it."""
    with temporary_faults(NEEDS):
        file = TemporaryFile()  # noqa: SIM115
    for piece in pieces:
        with temporary_faults(NEEDS):
            file.write(piece)
            file.flush()
    with file:
        yield file


def parquet_rows(file: IO[bytes], name: str, wanted: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a whole Parquet file, as objects, of all columns or of those that are ``wanted``, with the option that names each."""
    from pyarrow import parquet

    with _faults_named(name):
        limits = {"thrift_string_size_limit": MOST_METADATA_BYTES, "thrift_container_size_limit": MOST_METADATA_BYTES}
        opened = parquet.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False, **limits)
        groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
        paths = [opened.schema.column(number).path for number in range(len(opened.schema))]
    for column, setting in (wanted or {}).items():
        if not any(f"{path}.".startswith(f"{column}.") for path in paths):
            raise missing_column(column, setting, paths, name)
    num_bytes = file.seek(0, SEEK_END)
    for group in groups:  # not its columns: pyarrow ends the process over a damaged one
        if group.total_byte_size > max(MAX_LINE_BYTES, MOST_INFLATED * num_bytes):
            problem = f"{num_bytes:,} bytes of which a part unpacks to {group.total_byte_size:,} bytes"
            raise MhaError(f"{name}: {problem}", "write one text per row")
    batches, number = opened.iter_batches(BATCH_ROWS, columns=wanted and list(wanted), use_threads=False), 0
    while True:
        with _faults_named(name):
            if (batch := next(batches, None)) is None:
                return
        for part in [batch] if batch.nbytes <= MAX_LINE_BYTES else map(batch.slice, range(len(batch)), repeat(1)):
            if part.nbytes > MAX_LINE_BYTES:
                raise row_too_long(name, number + 1)
            number += len(part)
            with _faults_named(name):
                rows: Sequence[dict[str, Any]] = part.to_pylist()
            yield from rows


@contextmanager
def parquet_writer(file: IO[bytes], columns: Mapping[str, str | Mapping[str, str]], group_rows: int) -> Iterator[Callable[..., None]]:
    """A function that writes rows, a row group at a time.

    Args:
        columns: type of each column by its name; a dict is a column with several fields.
        group_rows: rows of a row group; ``GROUP_BYTES`` end it earlier. The function takes rows and the bytes of their records.
    """
    import pyarrow
    from pyarrow import parquet

    kinds = [(name, kind if isinstance(kind, str) else pyarrow.struct(list(kind.items()))) for name, kind in columns.items()]
    schema, group, group_bytes = pyarrow.schema(kinds), list[Mapping[str, object]](), 0

    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def write(rows: Iterable[Mapping[str, object]], num_bytes: int = 0, is_last: bool = False) -> None:
            nonlocal group_bytes
            group.extend(rows)
            group_bytes += num_bytes
            if group and (is_last or len(group) >= group_rows or group_bytes >= GROUP_BYTES):
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                group.clear()
                group_bytes = 0

        yield write
        write([], is_last=True)


def row_too_long(name: str, number: int) -> MhaError:
    """The fault of a row that no text has."""
    return MhaError(f"{name}:{number}: a row longer than {MAX_LINE_BYTES:,} bytes", "write one text per row")


def _plain(value: object) -> str:
    """A value that JSON lacks, as text: bytes, a time, a decimal number."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    """Raise pyarrow's errors about damaged files as one line."""
    import pyarrow

    try:
        yield
    except MemoryError:  # pyarrow's own is an ArrowException, too
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise MhaError(f"{name}: not a Parquet file, or a damaged one: {reason_of(error)}", "write it again") from None
