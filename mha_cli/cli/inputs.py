"""What a command is given to work with: texts of its arguments, standard input, a checkpoint, and a config."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from mha_cli.errors import EXIT_USAGE, MhaError, printable, shown_path

if TYPE_CHECKING:
    from mha_cli.checkpoint.file import Checkpoint


STANDARD_INPUT = "-"


def load_checkpoint(given: Path | None, stderr: TextIO | None = None) -> Checkpoint:
    """The checkpoint to use; stderr, the process's own by default, says which where it was not named."""
    return load_checkpoint_and_path(given, stderr)[0]


def load_checkpoint_and_path(given: Path | None, stderr: TextIO | None = None) -> tuple[Checkpoint, Path]:
    """The same, and the file that it was read from."""
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.checkpoint.runs import choose_checkpoint

    path, reason = choose_checkpoint(given)
    checkpoint = read_checkpoint(path)
    if reason:
        print(f"using {shown_path(path)} ({reason})", file=stderr or sys.stderr)
    return checkpoint, path


def config_path(given: str) -> Path:
    """The config that ``--config`` means; see ``find_config`` and ``refuse_texts_as_config``."""
    from mha_cli.config.recipes import find_config

    refuse_texts_as_config(given)
    return find_config(given)


def refuse_texts_as_config(given: str) -> None:
    """Raise an MhaError for a file of labelled texts in place of a config."""
    from mha_cli.records.readers import EXTENSIONS, extension_of

    if extension_of(given) in EXTENSIONS.keys() - {".json"}:  # JSON is YAML
        way_out = printable(shlex.join(["mha", "init", given]), 200)
        raise MhaError(f"{shown_path(given)}: labelled texts, not a config", f"`{way_out}` writes a config to train on them")


def decodable(text: str) -> str:
    """A text from the command line; bytes that are not UTF-8 come in as lone surrogates, which cannot be printed."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def look_at_names(texts: Sequence[str]) -> None:
    """Refuse a text that names a model; say on stderr where one names something else that was likely meant to be read."""
    from mha_cli.checkpoint.runs import checkpoint_in

    for text in texts:
        if text and (file := checkpoint_in(Path(text))).suffix == ".keras" and os.path.isfile(file):
            raise MhaError(f"{shown_path(text)}: a model, not a text", printable(f"`{shlex.join(['-c', text])}` answers with it", 200))
    for text in texts:
        pattern = os.path.join(text, "*") if os.path.isdir(text) else text
        if os.path.isfile(text) or next(glob.iglob(pattern), None):
            option = printable(shlex.join(["--input", pattern]), 200)
            print(f"{shown_path(text)}: classified as a text; {option} reads the texts in it", file=sys.stderr)
            return


def refuse_no_text(context: typer.Context) -> None:
    """Refuse to wait for texts where none can come: on a terminal with the command's help, since nobody has typed one yet."""
    if sys.stdin is None:
        raise MhaError("no text: standard input is closed", f"give one; see `{context.command_path} --help`")
    if sys.stdin.isatty():
        with redirect_stdout(sys.stderr):  # stdout may be a file that results were meant for
            print(context.get_help())
        raise typer.Exit(EXIT_USAGE)


def standard_input() -> int:
    """The descriptor of standard input, be it open or not."""
    return 0 if sys.stdin is None else sys.stdin.fileno()
