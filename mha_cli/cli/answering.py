"""From texts to written answers: what `mha predict` does, with its streams as arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from mha_cli.cli.answers import (
    AllColumns,
    LineAnswers,
    MatchingRecords,
    ParquetAnswers,
    csv_line,
    csv_row,
    json_line,
    styles_wanted,
    tab_line,
    table_names,
    terminal_line,
)
from mha_cli.cli.counter import counter
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import answer_form, opened_output
from mha_cli.errors import plural
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.records.record import ALL
from mha_cli.records.warnings import shown_warnings
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.inputs import STANDARD_INPUT, format_of, given_texts, read_inputs
from mha_cli.runtime.stream import Answering, usual_workers
from mha_cli.text.vocabulary import doubt_of_unknown

if TYPE_CHECKING:
    from mha_cli.records.readers import Format
    from mha_cli.runtime.choice import Choice
    from mha_cli.runtime.engine import EngineName, Precision
    from mha_cli.runtime.stream import Answer


class _Found(Exception):
    """The first match, which is all that was asked for."""


def answer_texts(
    standard_input: int,
    stdout: TextIO,
    stderr: TextIO,
    choice: Choice,
    *,
    texts: Sequence[str] = (),
    inputs: Sequence[str] = (STANDARD_INPUT,),
    checkpoint: Path | None = None,
    form: Format | None = None,
    text_column: str | None = None,
    dialect: Dialect = USUAL,
    fields: Sequence[str] = (),
    as_json: bool = False,
    output: Path | None = None,
    quiet: bool = False,
    workers: int | None = None,
    engine: EngineName = "auto",
    precision: Precision = "float32",
) -> int:
    """Write an answer for every text, or for those that are looked for, a batch at a time; returns how many there are.

    Args:
        standard_input: descriptor to read where an input is ``-``.
        stdout: stream of a file, a pipe or a terminal, for answers that go to no other file.
        stderr: stream for everything else.
        choice: classes that are answers.
        texts: texts that are there already; if there are none, ``inputs`` are read.
        inputs: files; ``-`` is standard input.
        checkpoint: model to use, or its run directory; None lets ``choose_checkpoint`` find one.
        form: format of the inputs; None takes each one's from its extension.
        text_column: column of the text; None is that of the training data.
        dialect: encoding and quoting of the inputs.
        fields: columns to pass through.
        as_json: True for answers in JSON lines.
        output: file to write; None is stdout.
        quiet: True to write nothing and end at the first match.
        workers: processes that compute; None takes one a core, up to a few.
        engine: what computes the encoder.
        precision: type of its products.
    """
    on_terminal = output is None and stdout.isatty()
    as_records = bool(choice.only) and not (as_json or on_terminal or fields or choice.top_k)
    forms: list[Format] = ["lines"] if texts else [form or format_of(path) for path in inputs]
    answers = answer_form(output, as_json, forms if as_records else ())
    model = load_checkpoint(checkpoint, stderr)
    classifier = Classifier(model, Engine(model, engine, precision))
    warnings = list[str]()
    answering = Answering(classifier, workers or usual_workers())
    records = (
        given_texts(texts, fields)
        if texts
        else read_inputs(inputs, form, text_column, fields, model.text_column, standard_input, dialect, warnings.append, answering.on_wait)
    )
    choice.refuse_unknown(model.class_names)
    all_columns = AllColumns(fields) if ALL in fields and answers != "jsonl" else None
    writer: LineAnswers | ParquetAnswers | None = None

    def answers_in(file: IO[bytes]) -> LineAnswers | ParquetAnswers:
        if as_records:
            return LineAnswers(file, MatchingRecords().line)
        if answers == "jsonl":
            return LineAnswers(file, partial(json_line, choice, fields))
        if on_terminal:
            return LineAnswers(file, partial(terminal_line, choice, styles_wanted(), stdout.encoding))
        if answers == "tsv":
            return LineAnswers(file, partial(tab_line, choice))
        names = table_names(choice, model.class_names, all_columns.names if all_columns else fields)
        if answers == "csv":
            return LineAnswers(file, partial(csv_line, choice), csv_row(names))
        return ParquetAnswers(file, choice, names)

    # A count is for somebody who looks at stderr and sees nothing else there, such as what they type.
    typed = STANDARD_INPUT in inputs and os.isatty(standard_input)
    counted = stderr.isatty() and not (on_terminal or quiet or typed) and os.environ.get("TERM") not in {"dumb", "unknown"}
    number = written = num_unknown = num_words = num_withheld = 0
    with (
        opened_output(output, stdout) as file,
        counter(stderr) if counted else nullcontext(lambda _: None) as count,
        ExitStack() as opened,
    ):

        def write_batch(batch: list[Answer]) -> None:
            nonlocal writer, number, written, num_unknown, num_words, num_withheld
            answered = []
            for record, prediction in batch:
                number += 1
                num_unknown += prediction.num_unknown
                num_words += prediction.num_words
                num_withheld += choice.threshold is None and prediction.answer is None
                if choice.only and choice.answer(prediction) is None:
                    continue
                if quiet:
                    raise _Found
                answered.append((number, all_columns.of(number, record) if all_columns else record, prediction))
            if answered:
                writer = writer or opened.enter_context(closing(answers_in(file)))
                writer.write(answered)
            written += len(answered)
            count(len(batch))

        try:
            answering.run(records, write_batch)
        except _Found:
            return 1
        if writer is None:
            answers_in(file).close()  # a table without rows has its header all the same
    for warning in shown_warnings([] if quiet else warnings):
        print(warning, file=stderr)
    if warning := doubt_of_unknown(num_unknown, num_words):
        print(warning, file=stderr)
    if num_withheld:
        print(
            f"no answer to {num_withheld:,} of {plural(number, 'text')}: below the checkpoint's thresholds; --threshold 0 answers all",
            file=stderr,
        )
    return written
