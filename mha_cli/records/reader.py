"""How a stream is read: options of every format, and warnings about a stream that can be read all the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.records.headers import USUAL_NAMES, are_names, plain_name
from mha_cli.records.record import LABEL_PREFIX, SEPARATORS, Columns, Record, shown_columns

MOST_SHOWN = 10  # warnings that are shown: a thousand files may have the same fault


class Dialect(NamedTuple):
    """What the bytes of a text file mean."""

    encoding: str | None = None  # encoding of files without a byte-order mark; None is UTF-8
    quoting: bool = True  # False if a quote in a table is a character like any other


USUAL = Dialect()


class StreamWarnings:
    """Warnings that reading a stream collects, in a format ``guessed`` or named. Labelled texts of several files share one object."""

    def __init__(self, guessed: bool = False) -> None:
        self._guessed = guessed
        self._format = self._first_quoted = self._no_quoting = ""
        self._notes = dict[str, None]()
        self._first_fault: MhaError | None = None
        self._num_faulty = self._last_faulty = 0
        self.num_blank = self.num_quoted_rows = 0  # lines left out; lines inside quoted fields that would be rows by themselves
        self.num_weightless = 0  # texts left out, since they have weight 0
        self.num_unanswered = 0  # texts of an annotation tool, left out
        self.num_merged_away = 0  # texts left out by ``data.merge_labels``
        self.merged, self.met = set[str](), set[str]()  # labels that it names, and labels of texts among them

    @property
    def lines(self) -> list[str]:
        """All warnings, one line each."""
        lines = [self._format] if self._format else []
        lines += self._notes
        if self.num_weightless:
            lines.append(f"texts left out, since they have weight 0: {self.num_weightless:,}")
        if self.num_unanswered:
            lines.append(f"texts left out, since nobody has answered them or the answers differ: {self.num_unanswered:,}")
        if self.num_merged_away:
            lines.append(f"texts left out, since data.merge_labels gives their labels no name: {self.num_merged_away:,}")
        if unmet := sorted(map(printable, self.merged - self.met)):
            lines.append(f"data.merge_labels names labels that no text has: {listed(unmet, MOST_SHOWN)}")
        if self.num_quoted_rows:
            rows = "a line that would be a row" if self.num_quoted_rows == 1 else f"{self.num_quoted_rows:,} lines that would be rows"
            held = f"a quoted field holds {rows} without the quote"
            lines.append(f"{self._first_quoted}: {held}; {self._no_quoting} reads every line as a row")
        if fault := self._first_fault:
            number = f", the first of {self._num_faulty:,} such lines" if self._num_faulty > 1 else ""
            lines.append(f"{fault.message}{number}; such bytes are read as U+FFFD; {fault.hint}")
        return lines

    def begin_plain(self, first: str, name: str, text_column: str) -> None:
        """Warn if the first line looks like a line of another format and the user named none."""
        if self._guessed and (other := _other_format(first, text_column)):
            look, format_name = other
            hint = f"add --format {format_name}, or --format lines if that is right"
            self._format = f"{name}: read as plain lines, though the first {look}; {hint}"

    def note(self, line: str) -> None:
        """Add a line about what is read; the same line is shown once."""
        self._notes[line] = None

    def note_titles(self, name: str, header_row: int, number: int) -> None:
        """Add that a number of rows above the header is skipped."""
        self.note(f"{name}: the header is in row {header_row}; skipped above it: {plural(number, 'row')}")

    def count_not_utf_8(self, fault: MhaError, line: int) -> None:
        """Count a line with bytes that are not UTF-8, unless it is read again behind a broken row."""
        self._first_fault = self._first_fault or fault
        self._num_faulty += line > self._last_faulty
        self._last_faulty = max(line, self._last_faulty)

    def count_quoted_rows(self, location: str, number: int, no_quoting: str) -> None:
        """Count lines that an open quote may have drawn into a row, and note the option or setting that reads them as rows."""
        self._first_quoted, self._no_quoting = self._first_quoted or location, no_quoting
        self.num_quoted_rows += number


def shown_warnings(lines: Sequence[str]) -> list[str]:
    """The first warnings, and how many more there are."""
    more = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], *([f"and {more:,} more warnings"] if more > 0 else [])]


def raised(fault: MhaError, _line: int) -> Record:
    """No record: the fault is raised."""
    raise fault


@dataclass(frozen=True)
class Reading:
    """How a stream, with a name for messages, is read.

    ``on_fault`` makes a record of the fault of one record and its first line. Faults of the whole stream (gzip data, header) are always
    raised.
    """

    name: str
    columns: Columns = field(default_factory=Columns)
    dialect: Dialect = USUAL
    warnings: StreamWarnings = field(default_factory=StreamWarnings)
    sheet: str = ""  # sheet of a workbook; empty for the first that has the columns
    gzipped: bool = False  # True to take nothing but gzip data; else the first bytes tell
    strict: bool = False  # True to raise the fault of a line that is not UTF-8; else such bytes become U+FFFD, with a warning
    on_fault: Callable[[MhaError, int], Record] = raised

    @property
    def no_quoting(self) -> str:
        """The option or setting that takes quotes literally."""
        return "data.quoting=false" if self.columns.by_config else "--no-quoting"

    def not_utf_8(self, error: UnicodeDecodeError, first_line: int) -> MhaError:
        """The fault of a byte that is not UTF-8, in one line or several, of which the first has this number."""
        raw, start = error.object, error.start
        line, column = first_line + raw.count(b"\n", 0, start), start - raw.rfind(b"\n", 0, start)
        setting = "data.encoding=" if self.columns.by_config else "--encoding "
        hint = f"save it as UTF-8, or if it is from Windows, read it with {setting}windows-1252"
        return MhaError(f"{self.name}:{line}: not UTF-8: byte 0x{raw[start]:02X} at position {column} of the line", hint)

    def decoded(self, line: bytes, number: int) -> str:
        """A line as text."""
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            fault = self.not_utf_8(error, number)
            if self.strict:
                raise fault from None
            self.warnings.count_not_utf_8(fault, number)
            return line.decode("utf-8", "replace")


def _other_format(line: str, text_column: str) -> tuple[str, str] | None:
    """What a line that is hardly a text looks like, and its format. A header names the text column, or has two usual names."""
    if line.startswith(LABEL_PREFIX):
        return f"begins with {LABEL_PREFIX}", "fasttext"
    if line.startswith('{"') and line.endswith("}"):
        return "is a JSON object", "jsonl"
    for separator in SEPARATORS:
        names = [cell.strip(' "') for cell in line.split(separator)]
        usual = USUAL_NAMES.intersection(map(plain_name, names))
        if len(names) > 1 and are_names(names) and (text_column in names or len(usual) > 1):
            return f"names columns ({shown_columns(names)})", "tsv" if separator == "\t" else "csv"
    return None
