"""Options of every format, and records of plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mha_cli.errors import MhaError, printable
from mha_cli.records.lines import not_utf_8
from mha_cli.records.record import ALL, TEXT_COLUMN, Columns, Record
from mha_cli.records.warnings import StreamWarnings

NAME_FORMAT = "add --format csv, tsv, jsonl, fasttext or parquet"


class Dialect(NamedTuple):
    """What the bytes of a text file mean.

    Args:
        encoding: encoding of files without a byte-order mark; None is UTF-8.
        quoting: False if a quote in a table is a character like any other.
    """

    encoding: str | None = None
    quoting: bool = True


USUAL = Dialect()
"""UTF-8, and tables with quotes."""


def raised(fault: MhaError, _line: int) -> Record:
    """No record: the fault is raised."""
    raise fault


@dataclass(frozen=True)
class Reading:
    """How one stream is read.

    Args:
        name: name of the stream in messages.
        columns: columns or keys that are wanted.
        dialect: encoding and quoting.
        warnings: warnings that reading collects.
        gzipped: True to take nothing but gzip data; else the first bytes tell.
        on_fault: function from the fault of one record, and its first line, to a record that replaces it. Faults of the whole stream
            (gzip data, header) are always raised.
    """

    name: str
    columns: Columns = field(default_factory=Columns)
    dialect: Dialect = USUAL
    warnings: StreamWarnings = field(default_factory=StreamWarnings)
    gzipped: bool = False
    on_fault: Callable[[MhaError, int], Record] = raised

    @property
    def encoding_setting(self) -> str:
        """The option or setting that names an encoding."""
        return "data.encoding=" if self._by_config else "--encoding "

    @property
    def no_quoting(self) -> str:
        """The option or setting that takes quotes literally."""
        return "data.quoting=false" if self._by_config else "--no-quoting"

    @property
    def _by_config(self) -> bool:
        return self.columns.text_setting.startswith("data.")

    def decoded(self, line: bytes, number: int) -> str:
        """A line as text. Bytes that are not UTF-8 become U+FFFD, unless ``warnings`` refuses them."""
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            fault = not_utf_8(error, self.name, number, self.encoding_setting)
        self.warnings.count_not_utf_8(fault, number)
        return line.decode("utf-8", "replace")


def line_records(
    lines: Iterable[bytes | MhaError], reading: Reading, record_of: Callable[[str, bytes, int], Record], skip_blank: bool = True
) -> Iterator[Record]:
    """One record per line.

    Args:
        lines: lines, and faults of lines that are too long.
        reading: how the stream is read.
        record_of: function from a line, its bytes and its number to its record; it may raise an MhaError.
        skip_blank: True to leave blank lines out.
    """
    for number, raw in enumerate(lines, 1):
        try:
            if isinstance(raw, MhaError):
                raise raw
            line = reading.decoded(raw, number)
            if skip_blank and line.isspace():
                reading.warnings.num_blank += 1
                continue
            record = record_of(line, raw, number)
        except MhaError as fault:
            record = reading.on_fault(fault, number)
        yield record


def plain_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """Plain lines: each is a record, blank ones too, whose only column is ``text``."""
    fields = reading.columns.fields
    refuse_fields_of_plain_lines(fields, reading.name, f"{NAME_FORMAT} if they are no plain lines")

    def record_of(line: str, raw: bytes, number: int) -> Record:
        if number == 1:
            reading.warnings.begin_plain(line.strip(), reading.name, reading.columns.text)
        text = line.removesuffix("\n").removesuffix("\r")
        return Record(text, raw, fields_of_plain_line(fields, text), b"", number)

    return line_records(lines, reading, record_of, skip_blank=False)


def refuse_fields_of_plain_lines(fields: Sequence[str], name: str, hint: str) -> None:
    """Raise an MhaError for a column other than ``text``."""
    for field_name in fields:
        if field_name not in (TEXT_COLUMN, ALL):
            raise MhaError(f'--field {printable(field_name)}: {name}: plain lines have only the column "{TEXT_COLUMN}"', hint)


def fields_of_plain_line(fields: Sequence[str], text: str) -> tuple[object, ...]:
    """The fields of a plain line, whose only column is its text."""
    return tuple([{TEXT_COLUMN: text} if field_name == ALL else text for field_name in fields])
