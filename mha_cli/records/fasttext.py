"""fastText's lines: ``__label__x text``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import LineReader
from mha_cli.records.record import Record

LABEL_PREFIX = "__label__"
_LABEL = re.compile(rf"(?<!\S){LABEL_PREFIX}(\S*)")
COLUMNS = ("text", "label")


class FastTextReader(LineReader):
    """Reads a text a line with its label, which begins with ``__label__``; blank lines are skipped.

    The columns are ``text`` and ``label``. A label is there if it is required; else null stands in for it.
    """

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        for field in self._columns.fields:
            if field not in COLUMNS:
                hint = f"take one of {', '.join(COLUMNS)}"
                raise MhaError(f"--field {printable(field)}: {self._name}: fastText's lines have no such column", hint)
        for raw, line in self._filled(lines):
            location = f"{self._name}:{self._num_lines}"
            found = list(_LABEL.finditer(line))
            if len(found) > 1:
                names = " and ".join(printable(label[1]) for label in found[:2])
                fault = MhaError(f"{location}: {len(found)} labels: {names}", "give every text one class")
                yield self._on_fault(fault, self._num_lines)
                continue
            if self._columns.required and not found:
                fault = MhaError(f"{location}: no label", f"begin the line with {LABEL_PREFIX} and the name of its class")
                yield self._on_fault(fault, self._num_lines)
                continue
            text, label = line.strip(), None
            if found:
                label = found[0][1]
                text = f"{line[: found[0].start()]}{line[found[0].end() :]}".strip()
            fields = tuple([label if field == "label" else text for field in self._columns.fields])
            yield Record(text, raw, fields, b"", self._num_lines)
