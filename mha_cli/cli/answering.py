"""From texts to written answers: what `mha predict` does, with its streams as arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mha_cli.cli import answers
from mha_cli.cli.counter import Counter
from mha_cli.cli.given import load_checkpoint
from mha_cli.cli.output import opened_output
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inputs import STANDARD_INPUT, given_texts, read_inputs
from mha_cli.runtime.stream import answer, usual_workers
from mha_cli.text.vocabulary import doubt_of_unknown

if TYPE_CHECKING:
    from mha_cli.records.formats import Format


@dataclass(frozen=True)
class Request:
    """Which texts are to be answered, and how.

    Args:
        texts: texts that are there already; if there are none, ``inputs`` are read.
        inputs: files; ``-`` is standard input.
        checkpoint: model to use, or its run directory; None lets ``choose_checkpoint`` find one.
        form: format of the inputs; None takes each one's from its extension.
        text_column: column of the text; None is that of the training data.
        fields: columns to pass through.
        as_json: whether answers are JSON lines.
        choice: which classes are answers.
        output: file to write; None is stdout.
        quiet: whether to write nothing and end at the first match.
        workers: processes that compute; None takes one a core, up to a few.
    """

    texts: Sequence[str] = ()
    inputs: Sequence[str] = (STANDARD_INPUT,)
    checkpoint: Path | None = None
    form: Format | None = None
    text_column: str | None = None
    fields: tuple[str, ...] = ()
    as_json: bool = False
    choice: Choice = field(default_factory=Choice)
    output: Path | None = None
    quiet: bool = False
    workers: int | None = None


def answer_texts(request: Request, standard_input: int, stdout: TextIO, stderr: TextIO) -> int:
    """Write an answer for every text, or for those that are looked for, a batch at a time; returns how many there are.

    Args:
        request: which texts, and how.
        standard_input: descriptor to read where no other input is named.
        stdout: stream of a file, a pipe or a terminal, for answers that go to no other file.
        stderr: stream for everything else.

    Raises:
        MhaError: there is no such model, class or input; an input is broken, after the answers to all before that; or the answers
            cannot be written.
    """
    choice = request.choice
    model = load_checkpoint(request.checkpoint, stderr)
    if request.texts:
        arrivals = given_texts(request.texts, request.fields)
    else:
        arrivals = read_inputs(request.inputs, request.form, request.text_column, request.fields, model.text_column, standard_input)
    choice.refuse_unknown(model.class_names)
    on_terminal = request.output is None and stdout.isatty()
    form = _answer_format(request, stdout, on_terminal)
    number = written = num_unknown = num_read = 0
    with (
        opened_output(request.output, stdout) as write,
        Counter(stderr, shown=not on_terminal and not request.quiet and _counter_fits(request, standard_input, stderr)) as counter,
        closing(answer(Classifier(model), arrivals, request.workers or usual_workers())) as batches,
    ):
        for batch in batches:
            lines = []
            for record, prediction in batch:
                number += 1
                num_unknown += prediction.num_unknown
                num_read += prediction.num_read
                if choice.only and choice.answer(prediction) is None:
                    continue
                if request.quiet:
                    return 1
                lines.append(form.line(number, record, prediction))
            if lines:
                write(b"".join(lines))
            written += len(lines)
            counter.add(len(batch))
    if doubt := doubt_of_unknown(num_unknown, num_read):
        print(doubt, file=stderr)
    return written


def _answer_format(request: Request, stdout: TextIO, on_terminal: bool) -> answers.AnswerFormat:
    if request.as_json:
        return answers.JsonLines(request.choice, request.fields)
    if on_terminal:
        return answers.TerminalLines(request.choice, answers.styles_wanted(), stdout.encoding)
    if request.choice.only and not request.fields and request.choice.top_k is None:
        return answers.MatchingRecords()
    return answers.TabLines(request.choice)


def _counter_fits(request: Request, standard_input: int, stderr: TextIO) -> bool:
    """Whether somebody looks at stderr and sees nothing else there, such as what they type."""
    typed = STANDARD_INPUT in request.inputs and os.isatty(standard_input)
    return stderr.isatty() and not typed and os.environ.get("TERM") not in {"dumb", "unknown"}
