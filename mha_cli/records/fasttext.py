"""fastText's lines: ``__label__x text``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import Reading, line_records
from mha_cli.records.record import ALL, LABEL_PREFIX, Record

_LABEL = re.compile(rf"(?<!\S){LABEL_PREFIX}(\S*)", re.ASCII)
"""As in fastText, only ASCII white space ends a label."""
COLUMNS = ("text", "label")


def fasttext_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """A text a line with its label, which begins with ``__label__``; blank lines are skipped.

    The columns are ``text`` and ``label``. A label is there if it is required; else null stands in for it.
    """
    columns = reading.columns
    for field in columns.fields:
        if field not in COLUMNS and not (columns.takes_all and field == ALL):
            hint = f"take one of {', '.join(COLUMNS)}"
            raise MhaError(f"--field {printable(field)}: {reading.name}: fastText's lines have no such column", hint)

    def record_of(line: str, raw: bytes, number: int) -> Record:
        location = f"{reading.name}:{number}"
        found = list(_LABEL.finditer(line))
        if len(found) > 1:
            names = " and ".join(printable(label[1]) for label in found[:2])
            raise MhaError(f"{location}: {len(found)} labels: {names}", "give every text one class")
        if columns.required and not found:
            raise MhaError(f"{location}: no label", f"begin the line with {LABEL_PREFIX} and the name of its class")
        text, label = line.strip(), None
        if found:
            label = found[0][1]
            text = f"{line[: found[0].start()]}{line[found[0].end() :]}".strip()
        row: dict[str, object] = {"text": text, "label": label}
        return Record(text, raw, tuple([row if field == ALL else row[field] for field in columns.fields]), b"", number)

    return line_records(lines, reading, record_of)
