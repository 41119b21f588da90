"""What CSV, TSV and JSON lines have in common wherever they are read: their names, their limits, and their faults in words."""

from __future__ import annotations

import csv
import json
import os
import re
from typing import TYPE_CHECKING

from mha_cli.errors import MhaError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line or text file is refused before it fills the memory."""

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
"""What may stand between two columns, in words; files are read with the first two."""

JSON_BEGINNINGS = ("[", "{", "[{")
JSON_EXTENSIONS = (".jsonl", ".ndjson", ".json")
BOM = b"\xef\xbb\xbf"
"""The byte-order mark with which some programs begin UTF-8."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MAGIC = b"\x1f\x8b"

_SHOWN_COLUMNS = 20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def extension_of(path: str) -> str:
    """The extension that tells the format, in lower case; ``.gz`` is left aside."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def utf_16(name: str) -> MhaError:
    """Text in another encoding, told by its first bytes."""
    return MhaError(f"{name}: UTF-16, not UTF-8", "convert it first, with iconv -f UTF-16 -t UTF-8")


# Columns


def missing_column(column: str, setting: str, columns: Iterable[str], place: str, delimiter: str = "") -> MhaError:
    """No such column or JSON key, perhaps because another separator stands between the columns.

    Args:
        column: the one that was asked for.
        setting: that named it.
        columns: those that are there.
        place: file and line.
        delimiter: what should stand between two columns; empty for JSON.
    """
    columns = list(columns)
    others = [separator for separator in SEPARATORS if separator != delimiter]
    if delimiter and len(columns) == 1 and (found := max(others, key=columns[0].count)) in columns[0]:
        extension = next((f", or name it {extension}" for extension, other in DELIMITERS.items() if other == found), "")
        hint = f"save it with {SEPARATORS[delimiter]}s between the columns{extension}"
        return MhaError(f"{place}: the columns are separated by {SEPARATORS[found]}s: {printable(columns[0])}", hint)
    close = close_column(column, columns)
    hint = f"{close} (see {setting})" if close else f"set {setting}"
    return MhaError(f'{place}: no column "{printable(column)}" among {listed(columns)}', hint)


def repeated_column(column: str, columns: Sequence[str], place: str) -> MhaError:
    """A column of which nobody knows which one is meant."""
    return MhaError(f'{place}: the column "{printable(column)}" stands {columns.count(column)} times', "rename all but one of them")


def close_column(column: str, columns: Iterable[str]) -> str:
    """A hint that names the closest column, or nothing when none is close."""
    hint = did_you_mean(printable(column), [printable(name) for name in columns])
    return hint if hint.startswith("did you mean") else ""


def listed(columns: Sequence[str]) -> str:
    """Names in one line, the first twenty of them."""
    names = [printable(column) for column in columns[:_SHOWN_COLUMNS]]
    rest = len(columns) - len(names)
    return (", ".join(names) or "none") + (f" and {rest} more" if rest else "")


# Rows of CSV and TSV


def bad_row(problem: str, place: str, delimiter: str) -> MhaError:
    """What the csv module says, in words that tell what to do."""
    double = 'a quote inside a quoted text is written twice: ""'
    if "unexpected end of data" in problem:
        return MhaError(f"{place}: a quote in this row is never closed", f"close it; {double}")
    if "field limit" in problem:
        return MhaError(f"{place}: a field longer than {csv.field_size_limit():,} characters", "look for a quote that is not closed")
    if "new-line character" in problem:
        return MhaError(f"{place}: a carriage return inside a field", "save it with LF or CRLF line ends, or quote the field")
    hint = f"separate the columns with {SEPARATORS[delimiter]}s, and quote the whole field; {double}"
    return MhaError(f"{place}: {printable(problem)}", hint)


def bad_width(row: Sequence[str], columns: Sequence[str], delimiter: str, place: str) -> MhaError:
    """A row with more or fewer fields than the header."""
    found = f"{len(row)} field{'' if len(row) == 1 else 's'} where the header has {len(columns)}"
    return MhaError(f"{place}: {found}", f"put a text that holds a {SEPARATORS[delimiter]} in double quotes")


# JSON


def json_object(line: str, place: str) -> dict[str, object]:
    """The object in a line.

    Raises:
        MhaError: the line is not JSON, or another kind of it.
    """
    hint = "write one JSON object a line, a text each"
    if line.strip() in JSON_BEGINNINGS:
        raise MhaError(f"{place}: JSON that goes on over further lines", f"{hint}; jq -c '.[]' writes a list so")
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise MhaError(f"{place}: not JSON: {printable(error.msg)} at place {error.pos + 1}", hint) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets without end
        raise MhaError(f"{place}: JSON with a number too long or brackets too deep", hint) from None
    if not isinstance(value, dict):
        raise MhaError(f"{place}: {json_kind(value)} where a JSON object belongs", hint)
    return value


def json_text(value: object, column: str, place: str) -> str:
    """The text that a key holds.

    Raises:
        MhaError: it holds something else.
    """
    if not isinstance(value, str):
        raise MhaError(f'{place}: the text "{printable(column)}" is {json_kind(value)}', "write a string in double quotes")
    return without_surrogates(value)


def json_kind(value: object) -> str:
    """A JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return f"{'the fraction' if isinstance(value, float) else 'the value'} {printable(json.dumps(value))}"
    if isinstance(value, str):
        return f'the string "{printable(value, 40)}"'
    return "a list" if isinstance(value, list) else "an object"


def without_surrogates(text: str) -> str:
    """Half a surrogate pair, which JSON can spell and UTF-8 cannot, becomes U+FFFD, as a byte that is not UTF-8 does elsewhere."""
    return _LONE_SURROGATE.sub("\ufffd", text)
