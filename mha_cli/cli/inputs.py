"""Inputs of a command: texts from arguments, files or standard input, a checkpoint, a config."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

from mha_cli.cli import options
from mha_cli.errors import EXIT_USAGE, MhaError, plural, printable, shown_path
from mha_cli.records.readers import EXTENSIONS, extension_of, format_of
from mha_cli.runtime.inputs import STANDARD_INPUT, read_inputs, shown_name

if TYPE_CHECKING:
    from mha_cli.checkpoint.file import Checkpoint
    from mha_cli.config.settings import Config

MAX_CHARACTERS = 4_000_000  # of a text in several lines, more than a long novel has, so that endless input does not fill the memory


def load_checkpoint(given: Path | None) -> tuple[Checkpoint, Path]:
    """The checkpoint to use and its file; stderr says which one, unless it was named."""
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.runs import choose_checkpoint

    path, reason = choose_checkpoint(given)
    checkpoint = read_checkpoint(path)
    if reason:
        print(f"using {shown_path(path)} ({reason})", file=sys.stderr)
    return checkpoint, path


def given_config(given: str, overrides: Sequence[str] | None, classes: Path | None = None) -> tuple[Config, str]:
    """The config that ``--config`` means, with the words of ``--classes`` and the settings of ``--set``, and the usual name of its run."""
    from mha_cli.config.loading import load_config
    from mha_cli.config.recipes import find_config
    from mha_cli.sources.class_words import read_class_words

    refuse_texts_as_config(given)
    file = find_config(given)
    config = load_config(file, overrides or [], None if classes is None else read_class_words(classes))
    return config, new_run_name(file, config)


def new_run_name(config_file: Path, config: Config) -> str:
    """A name for a run: that of its config file, or, from a recipe, the name of the user's files."""
    from mha_cli.config.recipes import RECIPES, name_of_data

    if config.data.source == "files" and config_file.resolve().parent == RECIPES.resolve():
        return name_of_data((config.data.train_paths or [config.data.unlabelled or ""])[0]) or config_file.stem
    return config_file.stem


def refuse_texts_as_config(given: str) -> None:
    """Raise an MhaError for a file of labelled texts where a config is wanted."""
    if extension_of(given) in EXTENSIONS.keys() - {".json"}:  # JSON is YAML
        way_out = printable(shlex.join(["mha", "init", given]), 200)
        raise MhaError(f"{shown_path(given)}: labelled texts, not a config", f"`{way_out}` writes a config to train on them")


def decodable(text: str) -> str:
    """A text from the command line; bytes that are not UTF-8 come in as lone surrogates, which cannot be printed."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def look_at_names(texts: Sequence[str]) -> None:
    """Refuse a text that is the path of a model; print a hint for one that is the path of a file or folder."""
    from mha_cli.runs import checkpoint_in

    for text in texts:
        if text and (file := checkpoint_in(Path(text))).suffix == ".keras" and os.path.isfile(file):
            raise MhaError(f"{shown_path(text)}: a model, not a text", printable(f"`{shlex.join(['-c', text])}` answers with it", 200))
    for text in texts:
        pattern = os.path.join(text, "*") if os.path.isdir(text) else text
        if os.path.isfile(text) or next(glob.iglob(pattern), None):
            option = printable(shlex.join(["--input", pattern]), 200)
            print(f"{shown_path(text)}: classified as a text; {option} reads the texts in it", file=sys.stderr)
            return


def refuse_no_text(context: Context) -> None:
    """Refuse closed standard input and, with the command's help, a terminal."""
    if sys.stdin is None:
        raise MhaError("no text: standard input is closed", f"give one; see `{context.command_path} --help`")
    if sys.stdin.isatty():
        with redirect_stdout(sys.stderr):  # stdout may be a file for results
            print(context.get_help())
        raise Exit(EXIT_USAGE)


def standard_input() -> int:
    """The descriptor of standard input, which may be closed."""
    return 0 if sys.stdin is None else sys.stdin.fileno()


@dataclass(frozen=True)
class InspectedText:
    """A model, and the text that it reads."""

    text: Annotated[str | None, Argument(help="The text to look into; - or nothing reads standard input.")] = None
    checkpoint: options.CheckpointOption = None
    path: Annotated[str | None, Option("--input", "-i", metavar="FILE", help="File to read, plain or gzipped, or -.")] = None
    record: Annotated[int | None, Option(min=1, metavar="N", help="Number of the text, from 1.", show_default="all plain lines")] = None


def model_and_text(context: Context, given: InspectedText, reading: options.InputOptions) -> tuple[Checkpoint, str]:
    """The model and the text, from the command line, a file or standard input.

    Plain lines together are a text, with paragraphs; so is a record of a table. ``record`` chooses a line or a record.
    """
    if given.text is None and given.path is None:
        refuse_no_text(context)
    options.exclusive(str(context.info_name), {"a text": given.text is not None, "--input": given.path})
    if given.text is not None and given.text != STANDARD_INPUT:
        reading.refuse(record=given.record)
        look_at_names([given.text])
        return load_checkpoint(given.checkpoint)[0], decodable(given.text)
    model, source = load_checkpoint(given.checkpoint)[0], given.path or STANDARD_INPUT
    records = read_inputs([source], reading.record_format, reading.text_column, (), model.text_column, standard_input(), reading.dialect)
    texts, name = (record.text for record in records), shown_name(source)
    if given.record is not None:
        count = 0
        for count, text in enumerate(texts, 1):
            if count == given.record:
                return model, text
        raise MhaError(f"--record {given.record}: {name} has {plural(count, 'text')}", "count them from 1")
    if (reading.record_format or format_of(source)) == "lines":
        lines, size = list[str](), 0
        for line in texts:
            lines.append(line)
            size += len(line) + 1
            if size > MAX_CHARACTERS:
                raise MhaError(f"{name}: more than {MAX_CHARACTERS:,} characters in one text", "choose one line with --record N")
        return model, "\n".join(lines)
    first = next(texts, None)
    if first is None:
        raise MhaError(f"{name}: holds no text", "give one that does")
    if next(texts, None) is not None:
        raise MhaError(f"{name}: holds more than one text", "choose one with --record N, its id in `mha predict --json`")
    return model, first
