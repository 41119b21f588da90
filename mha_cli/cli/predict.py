"""`mha predict`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mha_cli.cli.inputs import STANDARD_INPUT, decodable, help_if_nothing_is_piped, load_checkpoint
from mha_cli.cli.options import CheckpointOption, FormatOption, InputTextColumnOption, JsonOption
from mha_cli.errors import EXIT_FAILURE, MhaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mha_cli.cli.answers import AnswerFormat
    from mha_cli.cli.counter import Counter
    from mha_cli.cli.output import Write
    from mha_cli.runtime.choice import Choice
    from mha_cli.runtime.lines import Pause
    from mha_cli.runtime.records import Record
    from mha_cli.runtime.stream import Answer

EXAMPLES = """[bold]Examples[/bold]

mha predict "A superb, moving film." "Two hours that I will not get back."

mha predict < reviews.txt > labels.tsv

zcat reviews.gz | mha predict --json -

mha predict --input reviews.csv --text-column review --field id \\
    --output labels.tsv

mha predict --input reviews.jsonl --only pos --threshold 0.9 > raves.jsonl

mha predict --input reviews.txt --only neg --quiet && echo complaints"""


def predict(
    context: typer.Context,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to classify; - or nothing reads standard input.", show_default=False)
    ] = None,
    checkpoint: CheckpointOption = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", "-i", metavar="FILE", help="File to read, plain or gzipped, or -; can be repeated.", show_default=False),
    ] = None,
    form: FormatOption = None,
    text_column: InputTextColumnOption = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="Column or key to pass through; can be repeated.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write, whole or not at all.", show_default="standard output"),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", "-k", min=1, metavar="K", help="Give the K most probable classes and their probabilities.", show_default=False
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            min=0,
            max=1,
            metavar="P",
            help="Probability that a class needs; a text with none gets no label.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CLASS", help="Print what is of this class, as grep does; can be repeated.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With --only: print nothing, end at the first match.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            max=256,
            metavar="N",
            help="Processes that compute when the input is long.",
            show_default="one a core, at most 4",
        ),
    ] = None,
) -> None:
    """Classify texts: one line out for every text in, in order, at once.

    A line is the label, its probability and a mark, separated by tabs: empty, unknown (no known word), cut, or - for none of these.
    On a terminal it is the label, its probability and the beginning of the text.

    With --json a line is an object with all probabilities, the number of tokens, and whether the text was cut.

    With --only the lines or records of a class are printed as they came in; the exit code is 1 if there are none.
    """
    if not texts and not inputs:
        help_if_nothing_is_piped(context)
    if texts and inputs:
        raise MhaError("predict takes either texts or --input, not both", "leave one of them out")
    if quiet and not only:
        raise MhaError("--quiet goes with --only", "name the class that is looked for")
    if quiet and output is not None:
        raise MhaError("--quiet prints nothing", "leave --output out")

    from mha_cli.system.numpy_setup import prepare_to_compute

    prepare_to_compute()
    from mha_cli.runtime.choice import Choice
    from mha_cli.runtime.records import given_records, read_inputs

    choice = Choice(threshold, tuple(only or ()), top_k)
    given = [decodable(text) for text in texts or [] if texts != [STANDARD_INPUT]]
    if given and (form is not None or text_column is not None):
        raise MhaError("--format and --text-column go with --input and standard input", "leave them out")

    from mha_cli.cli.counter import Counter
    from mha_cli.cli.output import opened_output
    from mha_cli.runtime.classifier import Classifier
    from mha_cli.runtime.stream import answer, usual_workers

    model = load_checkpoint(checkpoint)
    records: Iterator[Record | Pause]
    if given:
        records = given_records(given, fields or ())
    else:
        paths = [str(path) for path in inputs or [Path(STANDARD_INPUT)]]
        records = read_inputs(paths, form, text_column, fields or (), model.text_column)
    choice.refuse_unknown(model.class_names)
    on_terminal = output is None and sys.stdout.isatty()
    form_of_answers = _answer_format(choice, fields or [], as_json=as_json, on_terminal=on_terminal)
    with (
        opened_output(output) as write,
        Counter(shown=not on_terminal and not quiet and _counter_fits(inputs or [])) as counter,
        closing(answer(Classifier(model), records, workers or usual_workers())) as answers,
    ):
        written, doubt = _write_answers(answers, choice, form_of_answers, write, counter, quiet)
    if doubt:
        print(doubt, file=sys.stderr)
    if only and not written:
        raise typer.Exit(EXIT_FAILURE)


def _answer_format(choice: Choice, fields: Sequence[str], *, as_json: bool, on_terminal: bool) -> AnswerFormat:
    from mha_cli.cli import answers

    if as_json:
        return answers.JsonLines(choice, tuple(fields))
    if on_terminal:
        return answers.TerminalLines(choice, answers.styles_wanted(), sys.stdout.encoding)
    if choice.only and not fields and choice.top_k is None:
        return answers.MatchingRecords()
    return answers.TabLines(choice)


def _write_answers(
    answers: Iterable[list[Answer]], choice: Choice, form: AnswerFormat, write: Write, counter: Counter, quiet: bool
) -> tuple[int, str]:
    """Write every answer that is wanted, a batch at a time; the number of those, which with ``quiet`` is one at most, and a doubt."""
    from mha_cli.text.vocabulary import doubt_of_unknown

    number = written = num_unknown = num_read = 0
    for batch in answers:
        lines = []
        for record, prediction in batch:
            number += 1
            num_unknown += prediction.num_unknown
            num_read += prediction.num_read
            if choice.only and choice.answer(prediction) is None:
                continue
            if quiet:
                return 1, ""
            lines.append(form.line(number, record, prediction))
        if lines:
            write(b"".join(lines))
        written += len(lines)
        counter.add(len(batch))
    return written, doubt_of_unknown(num_unknown, num_read)


def _counter_fits(inputs: Sequence[Path]) -> bool:
    """Whether somebody looks at stderr and sees nothing else there, such as what they type."""
    typed = (not inputs or Path(STANDARD_INPUT) in inputs) and sys.stdin is not None and sys.stdin.isatty()
    return sys.stderr.isatty() and not typed and os.environ.get("TERM") not in {"dumb", "unknown"}
