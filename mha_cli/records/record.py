"""A record, what is wanted of it beside its text, and what is said where that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mha_cli.errors import MhaError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

TEXT_COLUMN = "text"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""By extension, what stands between two columns."""
SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
"""What may stand between two columns, in words; files are read with the first two."""

_SHOWN_COLUMNS = 20


class Record(NamedTuple):
    """One text of a stream.

    Args:
        text: text to be classified.
        raw: bytes of the record as they came, with a line feed at the end.
        fields: values of the other columns that were asked for, in that order; strings, in JSON lines any JSON value.
        header: header line of its table as it came; empty where there is none.
        line: line that it begins on, from 1.
    """

    text: str
    raw: bytes
    fields: tuple[object, ...] = ()
    header: bytes = b""
    line: int = 1


class Columns(NamedTuple):
    """What is wanted of a table or of JSON objects.

    Args:
        text: column or key of the text; of no meaning in plain lines.
        fields: further columns or keys.
        text_setting: setting or option that names the first one, for messages.
        field_setting: setting or option that names a further one.
        required: True if a JSON object must have the further keys, too; else null stands in for one that it lacks.
    """

    text: str = TEXT_COLUMN
    fields: tuple[str, ...] = ()
    text_setting: str = "--text-column"
    field_setting: str = "--field"
    required: bool = False

    @property
    def header(self) -> str:
        """A header line that would do."""
        return ",".join(map(printable, (self.text, *self.fields)))

    def find(self, names: Sequence[str], location: str, delimiter: str) -> tuple[int, list[int]]:
        """The positions of the text and of the further columns in a row under a header of these names.

        Raises:
            MhaError: a column is not there, or is there more than once.
        """
        wanted = [(self.text, self.text_setting), *((field, self.field_setting) for field in self.fields)]
        missing = [(column, setting) for column, setting in wanted if column not in names]
        if self.required and len(missing) == len(wanted) and len(names) > 1 and not any(close_column(name, names) for name, _ in missing):
            neither = " nor ".join(f'"{printable(name)}"' for name, _ in wanted)
            settings = " and ".join(setting for _, setting in wanted)
            hint = f"set {settings}, or add a header line ({self.header})"
            raise MhaError(f"{location}: the first line names neither {neither}, but {listed(names)}", hint)
        for column, setting in missing:
            raise missing_column(column, setting, names, location, delimiter)
        for column, _ in wanted:
            if names.count(column) > 1:
                hint = "rename all but one of them"
                raise MhaError(f'{location}: the column "{printable(column)}" stands {names.count(column)} times', hint)
        return names.index(self.text), [names.index(field) for field in self.fields]

    def refuse_missing(self, keys: Collection[str], location: str) -> None:
        """Raise an MhaError for a JSON object that lacks a key."""
        if self.text not in keys:
            raise missing_column(self.text, self.text_setting, keys, location)
        for field in self.fields if self.required else ():
            if field not in keys:
                raise missing_column(field, self.field_setting, keys, location)


def missing_column(column: str, setting: str, columns: Iterable[str], location: str, delimiter: str = "") -> MhaError:
    """The column that a setting names is not among those that are there, perhaps because these are separated otherwise.

    Where JSON keys are meant, ``delimiter`` is empty.
    """
    columns = list(columns)
    others = [separator for separator in SEPARATORS if separator != delimiter]
    if delimiter and len(columns) == 1 and (found := max(others, key=columns[0].count)) in columns[0]:
        extension = next((f", or name it {extension}" for extension, other in DELIMITERS.items() if other == found), "")
        hint = f"save it with {SEPARATORS[delimiter]}s between the columns{extension}"
        return MhaError(f"{location}: the columns are separated by {SEPARATORS[found]}s: {printable(columns[0])}", hint)
    close = close_column(column, columns)
    hint = f"{close} (see {setting})" if close else f"set {setting}"
    return MhaError(f'{location}: no column "{printable(column)}" among {listed(columns)}', hint)


def close_column(column: str, columns: Iterable[str]) -> str:
    """A hint that names the closest column, or nothing when none is close."""
    hint = did_you_mean(printable(column), [printable(name) for name in columns])
    return hint if hint.startswith("did you mean") else ""


def listed(columns: Sequence[str]) -> str:
    """Names in one line, the first twenty of them."""
    names = [printable(column) for column in columns[:_SHOWN_COLUMNS]]
    rest = len(columns) - len(names)
    return (", ".join(names) or "none") + (f" and {rest} more" if rest else "")
