"""`mha predict`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Context, Exit, Option

from mha_cli.cli import options
from mha_cli.cli.data_option import HeldOutOption, with_held_out
from mha_cli.cli.inputs import decodable, load_checkpoint, look_at_names, refuse_no_text, standard_input
from mha_cli.cli.output import answer_format, counter, opened_output
from mha_cli.errors import EXIT_FAILURE, MhaError, plural, printable, shown_path
from mha_cli.records.reader import shown_warnings
from mha_cli.records.readers import format_of
from mha_cli.records.record import ALL
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.inputs import STANDARD_INPUT, given_texts, read_inputs
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.records.readers import Format
    from mha_cli.runtime.stream import Predicted


def predict(
    context: Context,
    texts: Annotated[list[str] | None, Argument(help="Texts to classify; - or nothing reads standard input.")] = None,
    checkpoint: options.CheckpointOption = None,
    inputs: Annotated[list[str] | None, Option("--input", "-i", metavar="FILE", help="File to read, or -; can be repeated.")] = None,
    *,
    reading: options.InputOptions,
    fields: Annotated[
        list[str] | None, Option("--field", metavar="NAME", help="Column to pass through, or [bold]*[/bold]; again for more.")
    ] = None,
    as_json: options.JsonOption = False,
    output: Annotated[
        Path | None,
        options.output_option("File to write; .csv, .tsv, .jsonl, .parquet or .xlsx decides its format.", "standard output", "FILE"),
    ] = None,
    top_k: Annotated[str | None, Option("--top-k", "-k", metavar="K", help="Give the K most probable classes or [bold]all[/bold].")] = None,
    marks: Annotated[bool, Option("--one-column-per-label", help="In a table, write a column of 0 and 1 for each label.")] = False,
    threshold: Annotated[
        float | None, Option(min=0, max=1, metavar="P", help="Least probability of a label.", show_default="the checkpoint's")
    ] = None,
    level: Annotated[int | None, Option(min=1, metavar="N", help="Answer on this level.", show_default="the finest that is sure")] = None,
    coverage: options.CoverageOption = None,
    only_single: Annotated[
        Path | None, Option(metavar="FILE", help="With --coverage: write records with several labels here, not among the answers.")
    ] = None,
    held_out: HeldOutOption = None,
    only: Annotated[list[str] | None, Option(metavar="CLASS", help="Print the records of this class; can be repeated.")] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="With --only: print nothing, end at the first match.")] = False,
    workers: Annotated[
        int | None, Option(min=1, max=256, metavar="N", help="Processes for a long input.", show_default="one per core, at most 4")
    ] = None,
    engine: Annotated[
        Literal["auto", "numpy", "openvino"],
        Option(help="Engine of the encoder; [bold]auto[/bold]: for long inputs OpenVINO, if installed."),
    ] = "auto",
    precision: Annotated[
        Literal["float32", "bfloat16"], Option(help="Type of products; bfloat16 needs OpenVINO: faster, less exact.")
    ] = "float32",
    always_encode: options.AlwaysEncodeOption = False,
) -> None:
    """Classify texts: one output line per text, in order, as it arrives."""
    if not texts and not inputs:
        refuse_no_text(context)
    options.exclusive("predict", {"texts": texts, "--input": inputs})
    if not only:
        options.goes_with("--only", quiet=quiet)
    if coverage is None:
        options.goes_with("--coverage", only_single=only_single, data=held_out)
    else:
        options.exclusive("predict", {"--coverage": coverage, "--threshold": threshold is not None, "--level": level, "--top-k": top_k})
    if quiet and (output or only_single):
        raise MhaError("--quiet prints nothing", f"leave {'--output' if output else '--only-single'} out")
    given = [decodable(text) for text in texts or [] if texts != [STANDARD_INPUT]]
    paths = inputs or [STANDARD_INPUT]
    if given:
        reading.refuse()
    look_at_names(given)
    choice = Choice(threshold, tuple(only or ()), _number_of_classes(top_k), marks, level)
    on_terminal = output is None and sys.stdout.isatty()
    as_records = bool(only) and not (as_json or on_terminal or fields or top_k or marks)
    formats: list[Format] = ["lines"] if given else [reading.record_format or format_of(path) for path in paths]
    output_format = answer_format(output, as_json, formats if as_records else ())
    if only_single is not None:
        answer_format(only_single, False, formats, "--only-single")  # which refuses a file of another kind
        if os.path.realpath(only_single) in [os.path.realpath(path) for path in (*paths, output or "")]:
            raise MhaError(f"--only-single {shown_path(only_single)}: is an input or --output as well", "name another file")
    if marks and output_format not in ("csv", "parquet", "spreadsheet"):
        raise MhaError("--one-column-per-label needs a table with a header", "name a .csv, .parquet or .xlsx file with --output")

    prepare_to_compute()
    from mha_cli.cli.answers import answer_writer, matching_records, with_columns_of_the_first
    from mha_cli.runtime.classifier import Classifier
    from mha_cli.runtime.engine import Engine
    from mha_cli.runtime.levels import levels_of
    from mha_cli.runtime.stream import Answering, usual_workers
    from mha_cli.text.vocabulary import warning_of_unknown

    model, path = load_checkpoint(checkpoint)
    model = model.always_encoding if always_encode else model
    if coverage is not None:
        from mha_cli.runtime.label_sets import fit_label_sets

        choice = replace(choice, sets=fit_label_sets(with_held_out(model, path, held_out), coverage))
    levels = levels_of(model)
    nodes = [*dict.fromkeys(levels.names)] if levels else model.class_names
    choice.refuse_unknown([name for name in nodes if name != model.config.data.none_label], levels is not None)
    answering = Answering(Classifier(model, Engine(model, engine, precision)), workers or usual_workers())
    sureness = None
    if model.held_out:
        from mha_cli.runtime.sureness import Sureness

        sureness = Sureness(model.held_out, model.class_names)
    names, warnings = fields or [], list[str]()
    if given:
        records = given_texts(given, names)
    else:
        columns, calls = (reading.text_column, names, model.text_column), (warnings.append, answering.on_wait)
        records = read_inputs(paths, reading.record_format, *columns, standard_input(), reading.dialect, *calls)
    if ALL in names and output_format != "jsonl":
        names, records = with_columns_of_the_first(names, records)
    # No count where the terminal shows answers or typed texts.
    typed = not given and STANDARD_INPUT in paths and os.isatty(standard_input())
    with (
        opened_output(output, paths) as file,
        nullcontext() if only_single is None else opened_output(only_single, paths) as unsure,
        answer_writer(output_format, file, choice, nodes if marks else model.class_names, names) as write,
        counter(shown=not (on_terminal or quiet or typed)) as count,
    ):
        counts, as_read = Counter[str](), matching_records()

        def write_batch(batch: list[Predicted]) -> None:
            answered = []
            if sureness:
                sureness.add([prediction for _, prediction in batch])
            for number, (record, prediction) in enumerate(batch, answering.num_texts - len(batch) + 1):
                if choice.threshold is None and choice.sets is None and (prediction.is_none or prediction.is_withheld):
                    counts["none of these" if prediction.is_none else "withheld"] += 1
                answer = choice.answer(prediction)
                if only and answer.label is None:
                    continue
                if unsure and answer.labels and len(answer.labels) > 1:
                    unsure.write(as_read(number, record, answer))
                    counts["unsure"] += 1
                else:
                    answered.append((number, record, answer))
            if answered and quiet:
                raise Exit
            write(answered)
            counts["written"] += len(answered)
            count(len(batch))

        answering.run(records, write_batch)
    remarks = [] if quiet else shown_warnings(warnings)
    remarks.append(warning_of_unknown(answering.num_unknown, answering.num_words))
    if sureness and not quiet:
        remarks.append(sureness.warning)
    of_all = f"of {plural(answering.num_texts, 'text')}"
    if counts["none of these"]:
        remarks.append(f"none of these: {counts['none of these']:,} {of_all}; --threshold 0 answers all")
    if counts["withheld"]:
        withheld = f"no answer to {counts['withheld']:,} {of_all}: below the checkpoint's thresholds"
        remarks.append(f"{withheld}; --threshold 0 answers all")
    if only_single is not None:
        remarks.append(f"{plural(counts['unsure'], 'text')} with several labels in {shown_path(only_single)}, for `mha label`")
    for remark in filter(None, remarks):
        print(remark, file=sys.stderr)
    if only and not counts["written"]:
        raise Exit(EXIT_FAILURE)


def _number_of_classes(given: str | None) -> int | Literal["all"] | None:
    if given is None:
        return None
    if given == "all":
        return "all"
    if not (given.isascii() and given.isdigit() and int(given[:9])):
        raise MhaError(f"--top-k {printable(given)}: neither a number of classes nor all", "give for example 3, or all")
    return int(given[:9])
