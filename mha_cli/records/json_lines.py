"""JSON lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import RecordReader
from mha_cli.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JSON_BEGINNINGS = ("[", "{", "[{")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonReader(RecordReader):
    """Reads JSON objects, one a line; blank lines are skipped."""

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        columns = self._columns
        for raw in lines:
            self._num_lines += 1
            line = self._decoded(raw)
            if line.isspace():
                self._on_blank()
                continue
            location = f"{self._name}:{self._num_lines}"
            found = json_object(line, location)
            columns.refuse_missing(found, location)
            text = found[columns.text]
            if not isinstance(text, str):
                problem = f'{location}: the text "{printable(columns.text)}" is {json_kind(text)}'
                raise MhaError(problem, "write a string in double quotes")
            yield Record(without_surrogates(text), raw, tuple([found.get(field) for field in columns.fields]), b"", self._num_lines)


def json_object(line: str, location: str) -> dict[str, object]:
    """The object in a line; an MhaError is raised for a line that is not JSON, or another kind of it."""
    hint = "write one JSON object a line, a text each"
    if line.strip() in JSON_BEGINNINGS:
        raise MhaError(f"{location}: JSON that goes on over further lines", f"{hint}; jq -c '.[]' writes a list so")
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise MhaError(f"{location}: not JSON: {printable(error.msg)} at place {error.pos + 1}", hint) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets without end
        raise MhaError(f"{location}: JSON with a number too long or brackets too deep", hint) from None
    if not isinstance(value, dict):
        raise MhaError(f"{location}: {json_kind(value)} where a JSON object belongs", hint)
    return value


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
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
