"""From the bytes of a stream to its records: what all formats share, and plain lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mha_cli.errors import MhaError, printable
from mha_cli.records.gzipped import Unpacker
from mha_cli.records.lines import LineSplitter, LineTooLong, decoded
from mha_cli.records.record import TEXT_COLUMN, Columns, Record

NAME_FORMAT = "add --format csv, tsv, jsonl, fasttext or parquet"


def raised(fault: MhaError, _line: int) -> Record:
    """No record: the fault is raised."""
    raise fault


class RecordReader(ABC):
    """Is fed with the bytes of a stream, however they are cut, and gives its records, each as soon as its last line is there.

    Args:
        name: name of the stream in messages.
        columns: columns or keys that are wanted.
        on_not_utf_8: function that takes the fault of a line with bytes that are not UTF-8, and its number, and may raise the fault;
            else they become U+FFFD.
        on_blank: callback for every blank line that is skipped.
        gzipped: True to take nothing but gzip data; else the first bytes tell.
        on_fault: function from the fault of a single record, and the line that it begins on, to the record that stands in for it. What
            is wrong with the stream as a whole, its gzip data or its header, is raised in any case.
        on_plain: callback for the first of plain lines, as it came.

    Attributes:
        header: header line of a table as it came; empty before it, and where there is none.
    """

    header = b""

    def __init__(
        self,
        name: str,
        columns: Columns,
        on_not_utf_8: Callable[[MhaError, int], object] = lambda *_: None,
        on_blank: Callable[[], None] = lambda: None,
        gzipped: bool = False,
        on_fault: Callable[[MhaError, int], Record] = raised,
        on_plain: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._name, self._columns, self._on_not_utf_8 = name, columns, on_not_utf_8
        self._on_blank, self._on_fault, self._on_plain = on_blank, on_fault, on_plain
        self._unpacker = Unpacker(name, gzipped)

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that end in these bytes, to be taken before the next are fed.

        Raises:
            MhaError: the bytes are damaged gzip data or UTF-16, a line is too long, or a record is broken or lacks what is wanted;
                every record before that has come.
        """

    @abstractmethod
    def close(self) -> Iterator[Record]:
        """The records that end with the stream, which may not be cut short."""

    def read(self, pieces: Iterable[bytes]) -> Iterator[Record]:
        """All records of a stream that is there."""
        for piece in pieces:
            yield from self.feed(piece)
        yield from self.close()


class LineReader(RecordReader):
    """Reads a format whose records are lines, one or several each."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._splitter = LineSplitter(self._name)
        self._num_lines = 0

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that end in these bytes."""
        for piece in self._unpacker.feed(data):
            yield from self._fed(piece)

    def close(self) -> Iterator[Record]:
        """The records that end with the stream."""
        yield from self._fed(self._unpacker.close())
        yield from self._records(self._splitter.close())

    def _fed(self, piece: bytes) -> Iterator[Record]:
        try:
            yield from self._records(self._splitter.feed(piece))
        except LineTooLong as fault:
            self._num_lines += 1
            yield self._on_fault(fault, self._num_lines)
            yield from self._fed(self._splitter.rest)

    @abstractmethod
    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        """The records that end with these lines."""

    def _filled(self, lines: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
        """The lines that are not blank, as they came and decoded; the others are skipped."""
        for raw in lines:
            self._num_lines += 1
            line = self._decoded(raw)
            if line.isspace():
                self._on_blank()
            else:
                yield raw, line

    def _decoded(self, line: bytes) -> str:
        return decoded(line, self._name, self._num_lines, self._on_not_utf_8)


class PlainReader(LineReader):
    """Reads plain lines: each is a record, blank ones too, whose only column is ``text``; to want another one is an MhaError."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        refuse_fields_of_plain_lines(self._columns.fields, self._name, f"{NAME_FORMAT} if they are no plain lines")

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for line in lines:
            if not self._num_lines:
                self._on_plain(line)
            self._num_lines += 1
            text = self._decoded(line[:-2] if line.endswith(b"\r\n") else line[:-1])
            yield Record(text, line, (text,) * len(self._columns.fields), b"", self._num_lines)


def refuse_fields_of_plain_lines(fields: Sequence[str], name: str, hint: str) -> None:
    """Raise an MhaError for a column other than ``text``."""
    for field in fields:
        if field != TEXT_COLUMN:
            raise MhaError(f'--field {printable(field)}: {name}: plain lines have only the column "{TEXT_COLUMN}"', hint)
