"""Of `mha data`: the texts to label next, in a table with an empty column for their labels."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mha_cli.cli.inputs import load_checkpoint, standard_input
from mha_cli.cli.options import LabelledFileOptions
from mha_cli.cli.output import answer_format, opened_output, refuse_output
from mha_cli.cli.progress import progress
from mha_cli.cli.terminal import counter
from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError, plural, printable, shown_path
from mha_cli.records.objects import json_line, without_surrogates
from mha_cli.records.reader import shown_warnings
from mha_cli.records.readers import Format
from mha_cli.records.record import ALL, Record, is_number
from mha_cli.runs import is_own
from mha_cli.runtime.inputs import read_inputs
from mha_cli.sources.opening import open_source
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.runtime.stream import Predicted


def write_next_texts(
    files: Sequence[str],
    number: int,
    checkpoint: Path | None,
    record_format: Format | None,
    reading: LabelledFileOptions,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write the texts whose labels would teach most, with all their columns. A text alone gets the name of its column in training."""
    output_format = answer_format(output, as_json)
    if output is not None and output_format not in ("csv", "jsonl"):
        raise MhaError(f"--output {shown_path(output)}: neither a .csv nor a .jsonl file", "name one, which mha train can read")
    refuse_output("--output", output, new=True)  # earlier texts may have their labels by now
    prepare_to_compute()
    from mha_cli.analysis.next_texts import NextTexts, same_text
    from mha_cli.cli.answers import as_text, csv_row
    from mha_cli.runtime.classifier import Classifier
    from mha_cli.runtime.engine import Engine
    from mha_cli.runtime.stream import Answering, usual_workers
    from mha_cli.text.vocabulary import warning_of_unknown

    model, path = load_checkpoint(checkpoint)
    data, known = model.config.data, set[int]()
    if isinstance(data, FilesData) and is_own(path, model.config):
        try:
            source = open_source(data)
            for split in source.splits:
                known.update(same_text(one.text) for one in source.read(split))
        except MhaError as error:
            print(f"the run's own texts cannot be read, so they may be chosen again: {error}", file=sys.stderr)
    classifier = Classifier(model, Engine(model, "auto"))
    next_texts, answering = NextTexts(classifier, number, known), Answering(classifier, usual_workers())
    columns, warnings = (reading.text_column, [ALL], model.text_column), list[str]()
    records = read_inputs(files, record_format, *columns, standard_input(), reading.dialect, warnings.append, answering.on_wait)
    with opened_output(output) as file:
        with counter(shown=True) as count:

            def add(batch: list[Predicted]) -> None:
                next_texts.add(batch)
                count(len(batch))

            answering.run(records, add)
        with progress(f"choosing {plural(number, 'text')}"):
            chosen = next_texts.chosen()
        if not chosen:
            given = printable(" ".join(files), 200)
            reason = "each text is in the run's files or has no words" if answering.num_texts else "holds no text"
            raise MhaError(f"{given}: {reason}", "give texts without labels")
        label = reading.label_column or getattr(data, "label_column", None) or "label"
        weight = getattr(data, "weight_column", None)

        def row_of(record: Record) -> dict[str, Any]:
            found: Any = record.fields[0]
            others = {name: found[name] for name in found if len(found) > 1 and name != reading.text_column}
            return others | {model.text_column: record.text} | ({weight: others.get(weight, 1)} if weight else {}) | {label: ""}

        rows = list(map(row_of, chosen))
        if output_format == "jsonl":
            lines = list(map(json_line, rows))
        else:
            names, lines = list(dict.fromkeys(chain.from_iterable(rows))), list[bytes]()
            if all(map(is_number, names)):
                names = [str(number) for number in range(1, 1 + max(map(int, names)))]
            else:
                lines.append(csv_row([*map(without_surrogates, names)]))
            lines += [csv_row([without_surrogates(as_text(row.get(name))) for name in names]) for row in rows]
        file.write((BOM_UTF8 if getattr(data, "encoding", None) else b"") + b"".join(lines))
    told = f"{plural(len(rows), 'text')}, the most useful first; write the labels into the column {printable(label)}"
    if model.config.is_multi_label:
        told += f", '{printable(model.config.cell_separator)}' between them; an empty cell means no label"
    unknown = warning_of_unknown(answering.num_unknown, answering.num_words)
    print(*shown_warnings(warnings), *filter(None, [unknown]), told, sep="\n", file=sys.stderr)
