"""How a stream is read: options of every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from mha_cli.errors import MhaError
from mha_cli.records.lines import not_utf_8
from mha_cli.records.record import Columns, Record
from mha_cli.records.warnings import StreamWarnings


class Dialect(NamedTuple):
    """What the bytes of a text file mean.

    Args:
        encoding: encoding of files without a byte-order mark; None is UTF-8.
        quoting: False if a quote in a table is a character like any other.
    """

    encoding: str | None = None
    quoting: bool = True


USUAL = Dialect()


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
        return "data.encoding=" if self.columns.by_config else "--encoding "

    @property
    def no_quoting(self) -> str:
        """The option or setting that takes quotes literally."""
        return "data.quoting=false" if self.columns.by_config else "--no-quoting"

    def decoded(self, line: bytes, number: int) -> str:
        """A line as text. Bytes that are not UTF-8 become U+FFFD, unless ``warnings`` refuses them."""
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            fault = not_utf_8(error, self.name, number, self.encoding_setting)
        self.warnings.count_not_utf_8(fault, number)
        return line.decode("utf-8", "replace")
