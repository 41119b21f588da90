"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mha_cli.cli.completion import checkpoints_like, recipes_like, settings_like
from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import Dialect


def exclusive(command: str, **options: object) -> None:
    """Refuse a command of which more than one of these is given; names of options are in Python's spelling."""
    names = {"texts": "texts", "text": "a text", "checkpoints": "checkpoints"}
    if sum(bool(value) for value in options.values()) > 1:
        either = " or ".join(names.get(name, f"--{name}") for name in options)
        raise MhaError(f"{command} takes either {either}, not both", "leave one of them out")


def goes_with(other: str, **options: object) -> None:
    """Refuse options that mean something only with another one, or with an argument."""
    if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, False, 0, [], ())]:
        verb, them = ("goes", "it") if len(given) == 1 else ("go", "them")
        raise MhaError(f"{' and '.join(given)} {verb} with {other}", f"leave {them} out")


def refuse_reading_options(form: object, text_column: str | None, dialect: Dialect, record: int | None = None) -> None:
    """Refuse options of a file or a stream where texts come as arguments."""
    encoding, quoting = dialect
    options = {"format": form, "text_column": text_column, "encoding": encoding, "no_quoting": not quoting, "record": record}
    goes_with("--input and standard input", **options)


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ConfigOption = Annotated[
    str,
    typer.Option(
        "--config", metavar="RECIPE", help="Recipe: one of mha's by its name, such as imdb, or a YAML file.", autocompletion=recipes_like
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY.PATH=VALUE", help="Change one setting of the config; can be repeated.", autocompletion=settings_like
    ),
]
CheckpointArgument = Annotated[
    Path, typer.Argument(help="A checkpoint that `mha train` wrote, or the run directory that holds it.", autocompletion=checkpoints_like)
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        "-c",
        help="Model to use: a checkpoint, or the run directory that holds it.",
        show_default="$MHA_CHECKPOINT, else the last trained run, else the one that comes with mha",
        autocompletion=checkpoints_like,
    ),
]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a page for a browser, as one file.")]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="SOURCE",
        help="Labelled texts: a file (CSV, TSV, JSONL, fastText, Parquet), files such as 'part-*.csv' (again for further ones), a folder "
        "with one sub-folder per class, [bold]sample[/bold], or [bold]tfds:NAME[/bold]. By default, for a run of your own, the data that "
        "its config names.",
    ),
]


def split_option(default: str) -> Any:
    """--split of a command that takes, where it is not given, what ``default`` says."""
    help_text = "Split of the data; [bold]validation[/bold] is the part held out in training."
    return typer.Option("--split", metavar="NAME", help=help_text, show_default=default)


SplitOption = Annotated[str | None, split_option("test")]


def _column(what: str, where: str, default: str) -> Any:
    """--text-column or --label-column."""
    help_text = f"Column of the {what} in {where}, by name or number."
    return typer.Option(f"--{what}-column", metavar="NAME", help=help_text, show_default=default)


TextColumnOption = Annotated[str | None, _column("text", "--data", "as in training, else guessed")]
LabelColumnOption = Annotated[str | None, _column("label", "--data", "as in training, else guessed")]
GuessedTextColumnOption = Annotated[str | None, _column("text", "FILE", "guessed")]
GuessedLabelColumnOption = Annotated[str | None, _column("label", "FILE", "guessed")]
InputTextColumnOption = Annotated[str | None, _column("text", "the input", "as in training, else text")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw the result into this PNG, SVG or PDF file.")]


def _encoding(name: str) -> str:
    from mha_cli.config.settings import known_encoding  # pydantic: keep `mha --help` fast

    try:
        return known_encoding(name)
    except ValueError as error:
        raise MhaError(f"--encoding {printable(name)}: {error}") from None


EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of text files without a byte-order mark, such as windows-1252.",
        show_default="UTF-8",
        parser=_encoding,
    ),
]
NoQuotingOption = Annotated[
    bool, typer.Option("--no-quoting", help="Read quotes in tables as characters like any other: every line is a row.")
]
FormatOption = Annotated[
    Literal["lines", "jsonl", "csv", "tsv", "fasttext", "parquet"] | None,
    typer.Option("--format", help="Format of the input.", show_default="by the extension of a file, else lines"),
]
OneInputOption = Annotated[Path | None, typer.Option("--input", "-i", metavar="FILE", help="File to read, plain or gzipped, or -.")]
RecordOption = Annotated[
    int | None,
    typer.Option(
        "--record",
        min=1,
        metavar="N",
        help="Which text of the input, by the id that `mha predict --json` gives it.",
        show_default="plain lines: all of them as one text",
    ),
]
