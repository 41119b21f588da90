"""JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from mha_cli.errors import MhaError, printable
from mha_cli.records.objects import json_kind
from mha_cli.records.reader import LineReader
from mha_cli.records.record import Record

JSON_BEGINNINGS = ("[", "{", "[{")


class JsonReader(LineReader):
    """Reads JSON objects, one a line; blank lines are skipped."""

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for raw, line in self._filled(lines):
            location = f"{self._name}:{self._num_lines}"
            try:
                record = self._columns.record(json_object(line, location), location, raw, self._num_lines)
            except MhaError as fault:
                record = self._on_fault(fault, self._num_lines)
            yield record


def json_object(line: str, location: str) -> dict[str, object]:
    """The object in a line; an MhaError is raised for a line that is not JSON, or another kind of it."""
    hint = "write one JSON object a line, a text each"
    of_list = f"{hint}; jq -c '.[]' writes a list so"
    if line.strip() in JSON_BEGINNINGS:
        raise MhaError(f"{location}: JSON that goes on over further lines", of_list)
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise MhaError(f"{location}: not JSON: {printable(error.msg)} at place {error.pos + 1}", hint) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets without end
        raise MhaError(f"{location}: JSON with a number too long or brackets too deep", hint) from None
    if not isinstance(value, dict):
        raise MhaError(f"{location}: {json_kind(value)} where a JSON object belongs", of_list if isinstance(value, list) else hint)
    return value
