"""`mha predict`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from mha_cli.cli import options
from mha_cli.cli.inputs import decodable, look_at_names, refuse_no_text, standard_input
from mha_cli.cli.options import exclusive, goes_with, refuse_reading_options
from mha_cli.errors import EXIT_FAILURE, MhaError, printable
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.records.readers import Format
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.inputs import STANDARD_INPUT
from mha_cli.system.numpy_setup import prepare_to_compute

EXAMPLES = """[bold]Examples[/bold]

mha predict "A superb, moving film." "Two hours that I will not get back."

mha predict < reviews.txt > labels.tsv

zcat reviews.gz | mha predict --json -

mha predict --input reviews.csv --text-column review --field id \\
    --output labels.csv

mha predict --input reviews.jsonl --only pos --threshold 0.9 > raves.jsonl

mha predict --input reviews.txt --only neg --quiet && echo complaints"""


@dataclass(frozen=True)
class PredictRequest:
    """A request to answer texts.

    Args:
        choice: classes that are answers.
        texts: texts from the command line; if there are none, ``inputs`` are read.
        inputs: files; ``-`` is standard input.
        checkpoint: model to use, or its run directory; None lets ``choose_checkpoint`` find one.
        form: format of the inputs; None takes the format of each from its extension.
        text_column: column of the text; None is the column of the training data.
        dialect: encoding and quoting of the inputs.
        fields: columns to pass through.
        as_json: True for answers in JSON lines.
        output: file to write; None is stdout.
        quiet: True to write nothing and end at the first match.
        workers: processes that compute; None takes one per core, up to a few.
        engine: library that computes the encoder.
        precision: type of its products.
    """

    choice: Choice = field(default_factory=Choice)
    texts: Sequence[str] = ()
    inputs: Sequence[str] = (STANDARD_INPUT,)
    checkpoint: Path | None = None
    form: Format | None = None
    text_column: str | None = None
    dialect: Dialect = USUAL
    fields: Sequence[str] = ()
    as_json: bool = False
    output: Path | None = None
    quiet: bool = False
    workers: int | None = None
    engine: Literal["auto", "numpy", "openvino"] = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"


def predict(
    context: typer.Context,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to classify; - or nothing reads standard input.", show_default=False)
    ] = None,
    checkpoint: options.CheckpointOption = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", "-i", metavar="FILE", help="File to read, plain or gzipped, or -; can be repeated.", show_default=False),
    ] = None,
    form: options.FormatOption = None,
    text_column: options.InputTextColumnOption = None,
    encoding: options.EncodingOption = None,
    no_quoting: options.NoQuotingOption = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field", metavar="NAME", help="Column or key to pass through, or [bold]*[/bold] for all; can be repeated.", show_default=False
        ),
    ] = None,
    as_json: options.JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, whole or not at all; .csv, .tsv, .jsonl or .parquet decides its format.",
            show_default="standard output",
        ),
    ] = None,
    top_k: Annotated[
        str | None,
        typer.Option(
            "--top-k",
            "-k",
            metavar="K",
            help="Give the K most probable classes and their probabilities; [bold]all[/bold] gives every class.",
            show_default=False,
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
            show_default="what the checkpoint asks for, if anything",
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
    engine: Annotated[
        Literal["auto", "numpy", "openvino"],
        typer.Option(
            "--engine",
            help="What computes the encoder; [bold]auto[/bold]: NumPy, and OpenVINO where it is installed and the input is long.",
        ),
    ] = "auto",
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option("--precision", help="Type of its products; bfloat16 with OpenVINO only: faster, and a little less exact."),
    ] = "float32",
) -> None:
    """Classify texts: one output line per text, in order, as it arrives.

    A line is the label, its probability and flags, separated by tabs: empty, unknown (no known word), cut, or - for none of these.
    On a terminal it is the label, its probability and the beginning of the text.

    With --json a line is an object with all probabilities, the number of tokens, and whether the text was cut.

    With --only the lines or records of a class are printed as they came in; the exit code is 1 if there are none.
    """
    if not texts and not inputs:
        refuse_no_text(context)
    exclusive("predict", texts=texts, input=inputs)
    if not only:
        goes_with("--only", quiet=quiet)
    if quiet and output is not None:
        raise MhaError("--quiet prints nothing", "leave --output out")

    given = [decodable(text) for text in texts or [] if texts != [STANDARD_INPUT]]
    dialect = Dialect(encoding, not no_quoting)
    if given:
        refuse_reading_options(form, text_column, dialect)
    look_at_names(given)

    prepare_to_compute()
    from mha_cli.cli.answering import answer_texts

    request = PredictRequest(
        Choice(threshold, tuple(only or ()), _number_of_classes(top_k)),
        given,
        [str(path) for path in inputs or []] or [STANDARD_INPUT],
        checkpoint,
        form,
        text_column,
        dialect,
        fields or (),
        as_json,
        output,
        quiet,
        workers,
        engine,
        precision,
    )
    written = answer_texts(request, standard_input(), sys.stdout, sys.stderr)
    if only and not written:
        raise typer.Exit(EXIT_FAILURE)


def _number_of_classes(given: str | None) -> int | Literal["all"] | None:
    if given is None:
        return None
    if given == "all":
        return "all"
    if not (given.isascii() and given.isdigit() and int(given[:9])):
        raise MhaError(f"--top-k {printable(given)}: neither a number of classes nor all", "give for example 3, or all")
    return int(given[:9])
