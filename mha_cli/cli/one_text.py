"""The model and the one text that a command looks into: an argument, a file, or standard input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mha_cli.cli.inputs import decodable, load_checkpoint, look_at_names, refuse_no_text, standard_input
from mha_cli.cli.options import exclusive, refuse_reading_options
from mha_cli.errors import MhaError, plural
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.runtime.inputs import STANDARD_INPUT, format_of, read_inputs, shown_name

if TYPE_CHECKING:
    import typer

    from mha_cli.checkpoint.file import Checkpoint
    from mha_cli.records.readers import Format

MAX_CHARACTERS = 4_000_000
"""Of a text in several lines, more than a long novel has: what has no end must not fill the memory."""


def model_and_text(
    context: typer.Context,
    checkpoint: Path | None,
    text: str | None,
    path: Path | None,
    form: Format | None,
    text_column: str | None,
    number: int | None,
    dialect: Dialect = USUAL,
) -> tuple[Checkpoint, str]:
    """The model and the one text to look into. All plain lines are one text, since a review has paragraphs; so is a record of a table.

    Args:
        context: context of the command, for its name and its help.
        checkpoint: model to use, or its run directory; None lets ``choose_checkpoint`` find one.
        text: text from the command line; ``-`` is standard input, as is None without a path.
        path: file to read; ``-`` is standard input.
        form: format of the input; None takes it from the extension.
        text_column: column of the text; None takes that of the training data.
        number: number of a record in the input, from 1, where a plain line is a record too; None takes the only one.
        dialect: encoding and quoting of the input.
    """
    if text is None and path is None:
        refuse_no_text(context)
    exclusive(str(context.info_name), text=text is not None, input=path)
    if text is not None and text != STANDARD_INPUT:
        refuse_reading_options(form, text_column, dialect, number)
        look_at_names([text])
        return load_checkpoint(checkpoint), decodable(text)
    model, source = load_checkpoint(checkpoint), str(path or STANDARD_INPUT)
    columns = (text_column, (), model.text_column)
    texts = (record.text for record in read_inputs([source], form, *columns, standard_input(), dialect))
    name = shown_name(source)
    if number is not None:
        return model, _numbered(texts, number, name)
    return model, _joined(texts, name) if (form or format_of(source)) == "lines" else _only(texts, name)


def _numbered(texts: Iterator[str], number: int, name: str) -> str:
    count = 0
    for count, text in enumerate(texts, 1):
        if count == number:
            return text
    raise MhaError(f"--record {number}: {name} has {plural(count, 'text')}", "count them from 1")


def _joined(texts: Iterator[str], name: str) -> str:
    lines, size = list[str](), 0
    for text in texts:
        lines.append(text)
        size += len(text) + 1
        if size > MAX_CHARACTERS:
            raise MhaError(f"{name}: more than {MAX_CHARACTERS:,} characters in one text", "choose one line with --record N")
    return "\n".join(lines)


def _only(texts: Iterator[str], name: str) -> str:
    text = next(texts, None)
    if text is None:
        raise MhaError(f"{name}: holds no text", "give one that does")
    if next(texts, None) is not None:
        raise MhaError(f"{name}: holds more than one text", "choose one with --record N, its id in `mha predict --json`")
    return text
