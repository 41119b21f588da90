"""`mha predict`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mha_cli.cli.options import CheckpointOption, JsonOption
from mha_cli.errors import EXIT_USAGE, MhaError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mha_cli.checkpoint import Checkpoint

BATCH_LINES = 256

EXAMPLES = """[bold]Examples[/bold]

mha predict "A superb, moving film." "Two hours that I will not get back."

mha predict < reviews.txt > labels.tsv

zcat reviews.gz | mha predict --json -"""


def predict(
    context: typer.Context,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify; - or nothing reads standard input, a text a line.")] = None,
    checkpoint: CheckpointOption = None,
    input_file: Annotated[Path | None, typer.Option("--input", "-i", help="File to read, a text a line.", show_default=False)] = None,
    as_json: JsonOption = False,
) -> None:
    """Classify texts: one line out for every text in, in order, at once.

    A line is the label and its probability, separated by a tab; on a terminal the beginning of the text follows.

    With --json a line is an object with all probabilities, the number of tokens, and whether the text was cut.
    """
    if not texts and input_file is None and _nothing_piped():
        with redirect_stdout(sys.stderr):  # stdout may be a file that labels were meant for
            print(context.get_help())
        raise typer.Exit(EXIT_USAGE)
    if texts and input_file is not None:
        raise MhaError("predict takes either texts or --input, not both", "leave one of them out")

    from mha_cli.cli.lines import prediction_line
    from mha_cli.runtime.classifier import Classifier

    classifier = Classifier(load_checkpoint(checkpoint))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that leaves, such as head, ends us quietly
    on_terminal = sys.stdout.isatty()
    for number, prediction in enumerate(classifier.predict_stream(_text_batches(texts or [], input_file)), start=1):
        print(prediction_line(prediction, number, as_json=as_json, with_text=on_terminal), flush=True)


def load_checkpoint(given: Path | None) -> Checkpoint:
    """The checkpoint to use; stderr says which where it was not named."""
    from mha_cli.checkpoint import read_checkpoint
    from mha_cli.runs import choose_checkpoint

    path, reason = choose_checkpoint(given)
    checkpoint = read_checkpoint(path)
    if reason:
        print(f"using {printable(str(path), 200)} ({reason})", file=sys.stderr)
    return checkpoint


def decodable(text: str) -> str:
    """A text from the command line; bytes that are not UTF-8 come in as lone surrogates, which cannot be printed."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _nothing_piped() -> bool:
    """Whether standard input is a terminal or closed, so that nothing will come from it unless somebody types."""
    try:
        return os.isatty(0) or sys.stdin is None
    except OSError:
        return True


def _text_batches(texts: list[str], input_file: Path | None) -> Iterator[list[str]]:
    from mha_cli.runtime.lines import line_batches

    if texts and texts != ["-"]:
        yield [decodable(text) for text in texts]
        return
    try:
        descriptor = 0 if input_file is None else os.open(input_file, os.O_RDONLY)
        yield from line_batches(descriptor, BATCH_LINES)
    except (OSError, ValueError) as error:
        name = "standard input" if input_file is None else printable(str(input_file), 200)
        raise MhaError(f"{name}: cannot be read: {getattr(error, 'strerror', error)}", "give a text file, a text a line") from None
