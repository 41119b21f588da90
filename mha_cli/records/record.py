"""Records, column lookup and missing-column errors."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mha_cli.errors import JOINT, MhaError, closest, listed, printable
from mha_cli.records.objects import ABSENT, dotted_keys, json_kind, value_at, without_surrogates

TEXT_COLUMN = "text"
ALL = "*"  # names all columns at once; the value is a dictionary
LABEL_PREFIX = "__label__"  # prefix of a label in a line of fastText
SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
_SHOWN_COLUMNS = 20
_MOST_DIGITS = 6  # digits of a column number; longer digits are a name


class Record(NamedTuple):
    """One text of a stream.

    ``fields`` has the values of the other columns that were asked for, in that order; strings, in JSON lines any JSON value. That of
    ``ALL`` is a dictionary with all columns by their names, in a table without a header line by their numbers.
    """

    text: str
    raw: bytes  # bytes of the record as they came, with a line feed at the end
    fields: tuple[object, ...] = ()
    header: bytes = b""  # header line of its table as it came; empty where there is none
    line: int = 1  # line that it begins on, from 1


class Columns(NamedTuple):
    """The columns or keys to read, and the settings or options that name them.

    In a table, a column is a name or a number from 1; if all are numbers, the table has no header line. In objects, a dot leads into a
    nested object, unless a key has the dot itself.
    """

    text: str = TEXT_COLUMN  # column or key of the text, or several with ``JOINT`` between them; plain lines ignore it
    fields: tuple[str, ...] = ()  # further columns or keys; ``ALL`` for all of them, unless they are required
    text_setting: str = "--text-column"
    field_setting: str = "--field"
    required: bool = False  # True to refuse a JSON object without the further keys; else a missing value is null
    weight: str = ""  # the one of ``fields`` that ``data.weight_column`` names; empty for none
    num_labels: int = 0  # number of the first ``fields`` that are a column per label, or per level; 0 for one column of labels
    levels: str = ""  # what stands between the levels of a label; empty for marks

    @property
    def header(self) -> str:
        """An example of a valid header line."""
        return ",".join(map(printable, (*self.texts, *self.fields)))

    @property
    def texts(self) -> list[str]:
        """The columns of the text."""
        return self.text.split(JOINT)

    @property
    def by_config(self) -> bool:
        """Whether settings of a config name the columns, rather than options."""
        return self.text_setting.startswith("data.")

    @property
    def are_usual(self) -> bool:
        """Whether they are those of labelled texts whose columns nobody has named otherwise."""
        return self.required and (self.text, *self.fields[:1]) == (TEXT_COLUMN, "label")

    @property
    def takes_all(self) -> bool:
        """Whether all columns are wanted."""
        return ALL in self.fields and not self.required

    @property
    def has_header(self) -> bool:
        """Whether a table with these columns begins with a header line."""
        return not all(is_number(column) for column in (*self.texts, *self.fields) if not (self.takes_all and column == ALL))

    def find(self, names: Sequence[str], location: str) -> tuple[list[int], list[int]]:
        """Positions of the text's columns and of the further ones in a row, by the first row; ``ALL`` is behind the last column."""
        wanted = [*((column, self.text_setting) for column in self.texts), *((field, self._setting(field)) for field in self.fields)]
        missing = [(column, setting) for column, setting in wanted if column not in names and not is_number(column)]
        if self.required and len(missing) == len(wanted) and len(names) > 1 and not any(close_column(name, names) for name, _ in missing):
            neither = " nor ".join(f'"{printable(name)}"' for name, _ in wanted)
            settings = " and ".join(dict.fromkeys(setting for _, setting in wanted))
            hint = f"set {settings}, or add a header line ({self.header})"
            raise MhaError(f"{location}: the first line names neither {neither}, but {shown_columns(names)}", hint)
        counts = Counter(names)
        repeated = next((name for name in (names if self.takes_all else (*self.texts, *self.fields)) if counts[name] > 1), None)
        if self.has_header and repeated is not None:
            problem = f'the column "{printable(repeated)}" occurs {counts[repeated]} times'
            raise MhaError(f"{location}: {problem}", "rename all but one of them")
        positions = [self._position(column, setting, names, location) for column, setting in wanted]
        return positions[: len(self.texts)], positions[len(self.texts) :]

    def _setting(self, field: str) -> str:
        return "data.weight_column" if field == self.weight else self.field_setting

    def _position(self, column: str, setting: str, names: Sequence[str], location: str) -> int:
        if self.takes_all and column == ALL:
            return len(names)
        if self.has_header and column in names:  # a name first, be it a number
            return names.index(column)
        if not is_number(column):
            raise missing_column(column, setting, names, location)
        if not 1 <= int(column) <= len(names):
            raise MhaError(f"{location}: no column {column} among {len(names)}", f"count them from 1 (see {setting})")
        return int(column) - 1

    def record(self, values: Mapping[str, object], location: str, raw: bytes, line: int) -> Record:
        """The record in an object."""
        parts = [value_at(values, column) for column in self.texts]
        fields = tuple([values if self.takes_all and field == ALL else value_at(values, field) for field in self.fields])
        if ABSENT in parts:
            raise missing_column(self.texts[parts.index(ABSENT)], self.text_setting, dotted_keys(values), location)
        if self.required and ABSENT in fields:
            field = self.fields[fields.index(ABSENT)]
            raise missing_column(field, self._setting(field), dotted_keys(values), location)
        if len(parts) > 1:
            parts = ["" if part is None else part for part in parts]
        for column, part in zip(self.texts, parts, strict=True):
            if not isinstance(part, str):
                raise MhaError(f'{location}: the text "{printable(column)}" is {json_kind(part)}', "write every text as a string")
        given = tuple([None if value is ABSENT else value for value in fields])
        return Record(without_surrogates(joined(map(str, parts))), raw, given, b"", line)


def joined(parts: Iterable[str]) -> str:
    """The parts of a text as one; a single part stays as it is, and blank ones are an empty text."""
    several = [*parts]
    if len(several) == 1:
        return several[0]
    return JOINT.join(part.replace(JOINT, " ") for part in several) if any(map(str.strip, several)) else ""


def is_number(column: str) -> bool:
    """Whether a column is a number."""
    return column.isascii() and column.isdigit() and len(column) <= _MOST_DIGITS


def missing_column(column: str, setting: str, columns: Iterable[str], location: str) -> MhaError:
    """The error for a setting that names a missing column."""
    columns = list(columns)
    close = close_column(column, columns)
    hint = f"{close} (see {setting})" if close else f"set {setting}"
    return MhaError(f'{location}: no column "{printable(column)}" among {shown_columns(columns)}', hint)


def close_column(column: str, columns: Iterable[str]) -> str:
    """A hint that names the closest column; empty when none is close."""
    return closest(printable(column), map(printable, columns))


def shown_columns(columns: Sequence[str]) -> str:
    """Names in one line, the first twenty of them."""
    return listed([printable(column) for column in columns], _SHOWN_COLUMNS) or "none"
