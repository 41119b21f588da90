"""Of `mha data`: the texts to label next, in a table with an empty column for their labels."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mha_cli.cli.inputs import load_checkpoint, standard_input
from mha_cli.cli.options import LabelledFileOptions
from mha_cli.cli.output import answer_format, counter, opened_output, refuse_output
from mha_cli.cli.progress import progress
from mha_cli.config.settings import FilesData
from mha_cli.errors import JOINT, MhaError, plural, printable, shown_path
from mha_cli.records.objects import ABSENT, as_text, json_line, value_at
from mha_cli.records.reader import shown_warnings
from mha_cli.records.readers import Format
from mha_cli.records.record import ALL, TEXT_COLUMN, Record, is_number
from mha_cli.records.tables import csv_line
from mha_cli.runs import is_own
from mha_cli.runtime.inputs import read_inputs
from mha_cli.sources.opening import open_source
from mha_cli.sources.raw_files import byte_order_mark_of
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.runtime.stream import Predicted


class _Chosen(NamedTuple):
    """Records to label, and what their table looks like."""

    records: list[Record]
    text_column: str
    label_column: str
    told: str  # what stderr says about them, or if there are none, why
    weight_column: str | None = None
    encoding: str | None = None
    warnings: Sequence[str] = ()


def write_next_texts(
    files: Sequence[str],
    number: int,
    checkpoint: Path | None,
    pretrained: Path | None,
    record_format: Format | None,
    reading: LabelledFileOptions,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write the texts to label next, with all their columns: by a model, or without one the most typical texts."""
    output_format = answer_format(output, as_json)
    if output is not None and output_format not in ("csv", "jsonl"):
        raise MhaError(f"--output {shown_path(output)}: neither a .csv nor a .jsonl file", "name one, which mha train can read")
    refuse_output("--output", output, new=True)  # earlier texts may have their labels by now
    prepare_to_compute()
    warnings = list[str]()

    def read(default_column: str, on_wait: Callable[[int], None] = lambda _: None) -> Iterator[Record]:
        columns = (reading.text_column, [ALL], default_column)
        return read_inputs(files, record_format, *columns, standard_input(), reading.dialect, warnings.append, on_wait)

    with opened_output(output) as file:
        chosen = _typical(read, number, pretrained, reading) if checkpoint is None else _by_model(read, number, checkpoint, reading)
        if not chosen.records:
            raise MhaError(f"{printable(' '.join(files), 200)}: {chosen.told}", "give texts without labels")
        mark = BOM_UTF8 if chosen.encoding else byte_order_mark_of(files) if output and output_format == "csv" else b""
        file.write(mark + _table(chosen, reading.text_column, output_format == "jsonl"))
    told = f"{plural(len(chosen.records), 'text')}, {chosen.told}"
    print(*shown_warnings(warnings), *chosen.warnings, told, sep="\n", file=sys.stderr)


def _typical(read: Callable[[str], Iterator[Record]], number: int, pretrained: Path | None, reading: LabelledFileOptions) -> _Chosen:
    """The most typical texts without a label, by an encoder or by their words; those with a label count as chosen."""
    from mha_cli.labelling.first_texts import typical_texts

    text_column, label_column = reading.text_column or TEXT_COLUMN, reading.label_column or "label"

    def has_label(record: Record) -> bool:
        fields: Any = record.fields[0]
        label = value_at(fields, label_column)
        return label is not ABSENT and bool(as_text(label).strip())

    with progress("reading") as callbacks:
        records = list(read(TEXT_COLUMN))
        known = [record.text for record in records if has_label(record)]
        callbacks.log(f"choosing {plural(number, 'text')}")
        rows = typical_texts([record.text for record in records], number, known, pretrained, callbacks=callbacks)
    told = f"the most typical first, chosen without a model; write the labels into the column {printable(label_column)}"
    if not rows:
        told = "each text has a label or has no words" if records else "holds no text"
    return _Chosen([records[row] for row in rows], TEXT_COLUMN if is_number(text_column) else text_column, label_column, told)


def _by_model(read: Callable[..., Iterator[Record]], number: int, checkpoint: Path, reading: LabelledFileOptions) -> _Chosen:
    """The texts whose labels would teach a trained model most; a text alone gets the name of its column in training."""
    from mha_cli.labelling.next_texts import NextTexts, same_text
    from mha_cli.runtime.classifier import Classifier
    from mha_cli.runtime.engine import Engine
    from mha_cli.runtime.stream import Answering, usual_workers
    from mha_cli.text.vocabulary import warning_of_unknown

    model, path = load_checkpoint(checkpoint)
    data, known = model.config.data, set[int]()
    if isinstance(data, FilesData) and data.train and is_own(path, model.config):
        try:
            source = open_source(data)
            for split in source.splits:
                known.update(same_text(one.text) for one in source.read(split))
        except MhaError as error:
            print(f"the run's own texts cannot be read, so they may be chosen again: {error}", file=sys.stderr)
    classifier = Classifier(model, Engine(model, "auto"))
    next_texts, answering = NextTexts(classifier, number, known), Answering(classifier, usual_workers())
    with counter(shown=True) as count:

        def add(batch: list[Predicted]) -> None:
            next_texts.add(batch)
            count(len(batch))

        answering.run(read(model.text_column, answering.on_wait), add)
    with progress(f"choosing {plural(number, 'text')}"):
        records = next_texts.chosen()
    label_column = reading.label_column or getattr(data, "label_column", None) or "label"
    told = f"the most useful first; write the labels into the column {printable(label_column)}"
    if model.config.is_multi_label:
        told += f", '{printable(model.config.cell_separator)}' between them; an empty cell means no label"
    if not records:
        told = "each text is in the run's files or has no words" if answering.num_texts else "holds no text"
    unknown = warning_of_unknown(answering.num_unknown, answering.num_words)
    layout = getattr(data, "weight_column", None), getattr(data, "encoding", None)
    return _Chosen(records, model.text_column, label_column, told, *layout, [unknown] if unknown else [])


def _table(chosen: _Chosen, given_text_column: str | None, as_json: bool) -> bytes:
    """The records with all their columns and an empty one for the label, as CSV or JSON lines."""
    weight, columns = chosen.weight_column, chosen.text_column.split(JOINT)
    renamed = {*(given_text_column or "").split(JOINT)} - {*columns}

    def row_of(record: Record) -> dict[str, Any]:
        found: Any = record.fields[0]
        others = {name: value for name, value in found.items() if name not in renamed} if len(found) > 1 else {}
        weighted = {weight: others.get(weight, 1)} if weight else {}
        return others | dict(zip(columns, record.text.split(JOINT), strict=False)) | weighted | {chosen.label_column: ""}

    rows = list(map(row_of, chosen.records))
    if as_json:
        lines = list(map(json_line, rows))
    else:
        names, lines = list(dict.fromkeys(chain.from_iterable(rows))), list[bytes]()
        if all(map(is_number, names)):
            names = [str(number) for number in range(1, 1 + max(map(int, names)))]
        else:
            lines.append(csv_line({name: name for name in names}, names))
        lines += [csv_line(row, names) for row in rows]
    return b"".join(lines)
