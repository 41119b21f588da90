"""Formats with one record per line: plain lines, JSON lines and fastText's lines."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from mha_cli.errors import MhaError, printable
from mha_cli.records.annotation_exports import text_and_label
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.objects import json_kind, json_line
from mha_cli.records.reader import Reading
from mha_cli.records.record import ALL, LABEL_PREFIX, TEXT_COLUMN, Record

NAME_FORMAT = "add --format csv, tsv, jsonl, fasttext or parquet"
FASTTEXT_COLUMNS = ("text", "label")
_JSON_HINT = "write one JSON object per line"
_COMPACT = {"[": "jq -c '.[]'", "[{": "jq -c '.[]'", "{": "jq -c ."}
"""By the first line of a JSON file that has line feeds inside, the command that writes a line per object."""
_BETWEEN = re.compile(r"[\s,]*")  # elements of an array
_LABEL = re.compile(rf"(?<!\S){LABEL_PREFIX}(\S*)", re.ASCII)  # as in fastText, only ASCII white space ends a label


def line_records(
    lines: Iterable[bytes | MhaError], reading: Reading, record_of: Callable[[str, bytes, int], Record | None], skip_blank: bool = True
) -> Iterator[Record]:
    """One record per line, by a function of the line, its bytes and its number, which may raise an MhaError; None leaves a line out."""
    for number, raw in enumerate(lines, 1):
        try:
            if isinstance(raw, MhaError):
                raise raw
            line = reading.decoded(raw, number)
            if skip_blank and line.isspace():
                reading.warnings.num_blank += 1
                continue
            record = record_of(line, raw, number)
        except MhaError as fault:
            record = reading.on_fault(fault, number)
        if record is not None:
            yield record


def plain_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """Plain lines: each is a record, blank ones too, whose only column is ``text``."""
    fields = reading.columns.fields
    refuse_fields_of_plain_lines(fields, reading.name, f"{NAME_FORMAT} if they are no plain lines", reading.columns.field_setting)

    def record_of(line: str, raw: bytes, number: int) -> Record:
        if number == 1:
            reading.warnings.begin_plain(line.strip(), reading.name, reading.columns.text)
        text = line.removesuffix("\n").removesuffix("\r")
        return Record(text, raw, fields_of_plain_line(fields, text), b"", number)

    return line_records(lines, reading, record_of, skip_blank=False)


def refuse_fields_of_plain_lines(fields: Sequence[str], name: str, hint: str, option: str = "--field") -> None:
    """Raise an MhaError for a column other than ``text``."""
    for field_name in fields:
        if field_name not in (TEXT_COLUMN, ALL):
            raise MhaError(f'{option} {printable(field_name)}: {name}: plain lines have only the column "{TEXT_COLUMN}"', hint)


def fields_of_plain_line(fields: Sequence[str], text: str) -> tuple[object, ...]:
    """The fields of a plain line, whose only column is its text."""
    return tuple([{TEXT_COLUMN: text} if field_name == ALL else text for field_name in fields])


def json_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """JSON objects, one per line; blank lines are skipped. Labelled ones may be in one array: ``line`` is then their number in it."""

    def record_of(line: str, raw: bytes, number: int) -> Record | None:
        location, columns = f"{reading.name}:{number}", reading.columns
        values = json_object(line, location)
        if columns.are_usual:
            if (labelled := text_and_label(values, location)) is None:
                reading.warnings.num_unanswered += 1
                return None
            values = labelled
        return columns.record(values, location, raw, number)

    return line_records(without_array(lines, reading.name) if reading.columns.required else lines, reading, record_of)


def without_array(lines: Iterable[bytes | MhaError], name: str) -> Iterator[bytes | MhaError]:
    """The objects of a JSON array, each as a line; lines that begin with something else stay."""
    decode, rest, is_array = json.JSONDecoder().raw_decode, "", None
    for line in lines:
        if is_array is None and isinstance(line, bytes) and not line.isspace():
            is_array = line.lstrip().startswith(b"[")
            line = line.lstrip()[1:] if is_array else line
        if not is_array or isinstance(line, MhaError):
            yield line
            continue
        rest, at = rest + line.decode("utf-8", "replace"), 0
        while (at := _BETWEEN.match(rest, at).end()) < len(rest) and rest[at] != "]":  # type: ignore[union-attr]
            try:
                value, at = decode(rest, at)
            except (ValueError, RecursionError):
                break  # its end comes in a further line
            yield json_line(value)
        rest = rest[at:]
        if len(rest) > MAX_LINE_BYTES:
            break
    if is_array and rest.strip() != "]":
        yield MhaError(f"{name}: a JSON array that is cut short, or damaged", "write it again, or write one JSON object per line")


def json_object(line: str, location: str) -> dict[str, object]:
    """The object in a line; an MhaError is raised for a line that is not JSON, or another kind of it."""
    if command := _COMPACT.get(line.strip()):
        raise MhaError(f"{location}: JSON that spans several lines", f"{_JSON_HINT}; {command} writes it so")
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise MhaError(f"{location}: not JSON: {printable(error.msg)} at position {error.pos + 1}", _JSON_HINT) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets without end
        raise MhaError(f"{location}: JSON with a number too long or brackets too deep", _JSON_HINT) from None
    if not isinstance(value, dict):
        of_objects = isinstance(value, list) and value and isinstance(value[0], dict)
        hint = f"{_JSON_HINT}; {_COMPACT['[']} writes it so" if of_objects else _JSON_HINT
        raise MhaError(f"{location}: {json_kind(value)} instead of a JSON object", hint)
    return value


def fasttext_records(lines: Iterable[bytes | MhaError], reading: Reading) -> Iterator[Record]:
    """One text per line with its label, which begins with ``__label__``; blank lines are skipped.

    The columns are ``text`` and ``label``; several labels are a list. A label is there if it is required; else null stands in for it.
    """
    columns = reading.columns
    for field in columns.fields:
        if field not in FASTTEXT_COLUMNS and not (columns.takes_all and field == ALL):
            hint = f"take one of {', '.join(FASTTEXT_COLUMNS)}"
            raise MhaError(f"--field {printable(field)}: {reading.name}: fastText's lines have no such column", hint)

    def record_of(line: str, raw: bytes, number: int) -> Record:
        marks = list(_LABEL.finditer(line))
        if columns.required and not marks:
            raise MhaError(f"{reading.name}:{number}: no label", f"begin the line with {LABEL_PREFIX} and the name of its class")
        labels = [label[1] for label in marks]
        text, label = _LABEL.sub("", line).strip(), labels if len(labels) > 1 else labels[0] if labels else None
        row: dict[str, object] = {"text": text, "label": label}
        return Record(text, raw, tuple([row if field == ALL else row[field] for field in columns.fields]), b"", number)

    return line_records(lines, reading, record_of)
