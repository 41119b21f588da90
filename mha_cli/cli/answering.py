"""From texts to written answers: what `mha predict` does, with its streams as arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, closing, nullcontext
from functools import partial
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
from mha_cli.records.record import ALL
from mha_cli.records.warnings import shown_warnings
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.inputs import STANDARD_INPUT, format_of, given_texts, read_inputs
from mha_cli.runtime.stream import Answering, usual_workers
from mha_cli.text.vocabulary import doubt_of_unknown

if TYPE_CHECKING:
    from mha_cli.cli.predict import PredictRequest
    from mha_cli.records.readers import Format
    from mha_cli.records.record import Record
    from mha_cli.runtime.stream import Answer


class _Found(Exception):
    """The first match, which is all that was asked for."""


def answer_texts(request: PredictRequest, standard_input: int, stdout: TextIO, stderr: TextIO) -> int:
    """Write an answer to every text, or to those that are looked for, one batch at a time; return the number of answers.

    Args:
        request: texts, model and form of the answers.
        standard_input: descriptor to read where an input is ``-``.
        stdout: stream of a file, a pipe or a terminal, for answers that go to no other file.
        stderr: stream for everything else.
    """
    choice, fields = request.choice, request.fields
    on_terminal = request.output is None and stdout.isatty()
    as_records = bool(choice.only) and not (request.as_json or on_terminal or fields or choice.top_k)
    forms: list[Format] = ["lines"] if request.texts else [request.form or format_of(path) for path in request.inputs]
    answers = answer_form(request.output, request.as_json, forms if as_records else ())
    model = load_checkpoint(request.checkpoint, stderr)
    classifier = Classifier(model, Engine(model, request.engine, request.precision))
    answering = Answering(classifier, request.workers or usual_workers())
    warnings = list[str]()
    records: Iterable[Record]
    if request.texts:
        records = given_texts(request.texts, fields)
    else:
        columns = (request.text_column, fields, model.text_column)
        calls = (warnings.append, answering.on_wait)
        records = read_inputs(request.inputs, request.form, *columns, standard_input, request.dialect, *calls)
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
    typed = STANDARD_INPUT in request.inputs and os.isatty(standard_input)
    counted = stderr.isatty() and not (on_terminal or request.quiet or typed) and os.environ.get("TERM") not in {"dumb", "unknown"}
    number = written = num_unknown = num_words = num_withheld = 0
    with (
        opened_output(request.output, stdout) as file,
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
                if request.quiet:
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
    for warning in shown_warnings([] if request.quiet else warnings):
        print(warning, file=stderr)
    if warning := doubt_of_unknown(num_unknown, num_words):
        print(warning, file=stderr)
    if num_withheld:
        print(
            f"no answer to {num_withheld:,} of {plural(number, 'text')}: below the checkpoint's thresholds; --threshold 0 answers all",
            file=stderr,
        )
    return written
