"""JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import json_kind
from mha_cli.records.reader import Reading, line_records
from mha_cli.records.record import Record

_HINT = "write one JSON object a line, a text each"
_COMPACT = {"[": "jq -c '.[]'", "[{": "jq -c '.[]'", "{": "jq -c ."}
"""By the first line of a JSON file that has line feeds inside, the command that writes a line per object."""


def json_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """JSON objects, one a line; blank lines are skipped."""

    def record_of(line: str, raw: bytes, number: int) -> Record:
        location = f"{reading.name}:{number}"
        return reading.columns.record(json_object(line, location), location, raw, number)

    return line_records(lines, reading, record_of)


def json_object(line: str, location: str) -> dict[str, object]:
    """The object in a line; an MhaError is raised for a line that is not JSON, or another kind of it."""
    if command := _COMPACT.get(line.strip()):
        raise MhaError(f"{location}: JSON that goes on over further lines", f"{_HINT}; {command} writes it so")
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise MhaError(f"{location}: not JSON: {printable(error.msg)} at place {error.pos + 1}", _HINT) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets without end
        raise MhaError(f"{location}: JSON with a number too long or brackets too deep", _HINT) from None
    if not isinstance(value, dict):
        of_objects = isinstance(value, list) and value and isinstance(value[0], dict)
        hint = f"{_HINT}; {_COMPACT['[']} writes it so" if of_objects else _HINT
        raise MhaError(f"{location}: {json_kind(value)} where a JSON object belongs", hint)
    return value
