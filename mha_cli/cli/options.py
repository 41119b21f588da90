"""Options that several commands share."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from mha_cli.cli.completion import checkpoints_like, recipes_like, settings_like
from mha_cli.errors import JOINT, MhaError, printable
from mha_cli.records.reader import Dialect


def exclusive(command: str, options: Mapping[str, object]) -> None:
    """Refuse more than one of these options and arguments."""
    if sum(map(bool, options.values())) > 1:
        raise MhaError(f"{command} takes either {' or '.join(options)}, not both", "leave one of them out")


def goes_with(other: str, **options: object) -> None:
    """Refuse options that need another option, or an argument, which is not given."""
    if given := [
        f"--{name.replace('_', '-').replace('text-columns', 'text-column')}"
        for name, value in options.items()
        if value not in (None, False, 0, [], ())
    ]:
        verb, them = ("goes", "it") if len(given) == 1 else ("go", "them")
        raise MhaError(f"{' and '.join(given)} {verb} with {other}", f"leave {them} out")


def output_option(help_text: str, default: str = "", metavar: str | None = None) -> Any:
    """--output; ``default`` in words."""
    return Option("--output", "-o", metavar=metavar, help=help_text, show_default=default or True)


def checkpoint_option(default: str) -> Any:
    """--checkpoint; ``default`` in words."""
    return Option("--checkpoint", "-c", help=CHECKPOINT_HELP, show_default=default, autocompletion=checkpoints_like)


def split_option(default: str) -> Any:
    """--split; ``default`` in words."""
    help_text = "Split of the data; [bold]validation[/bold] is the part held out in training."
    return Option(metavar="NAME", help=help_text, show_default=default)


def column_option(content: str, source: str, default: str) -> Any:
    """--text-column or --label-column."""
    again = "; again for further columns" if content == "text" else ""
    help_text = f"Column of the {content} in {source}, by name or number{again}."
    return Option(f"--{content}-column", metavar="NAME", help=help_text, show_default=default)


def _encoding(name: str) -> str:
    from mha_cli.config.settings import known_encoding  # pydantic: keep `mha --help` fast

    try:
        return known_encoding(name)
    except ValueError as error:
        raise MhaError(f"--encoding {printable(name)}: {error}") from None


JsonOption = Annotated[bool, Option("--json", help="Print JSON, for programs.")]
ConfigOption = Annotated[str, Option(metavar="RECIPE", help="A recipe, such as imdb, or a YAML file.", autocompletion=recipes_like)]
SetOption = Annotated[
    list[str] | None,
    Option("--set", "-s", metavar="KEY.PATH=VALUE", help="Change a setting; can be repeated.", autocompletion=settings_like),
]
ClassesOption = Annotated[
    Path | None,
    Option("--classes", metavar="FILE", help="Classes in words: YAML (name: words), or CSV with the columns class and words."),
]
CHECKPOINT_HELP = "A checkpoint, or the run directory that holds it."
CheckpointArgument = Annotated[Path, Argument(help=CHECKPOINT_HELP, autocompletion=checkpoints_like)]
CheckpointOption = Annotated[Path | None, checkpoint_option("$MHA_CHECKPOINT, the last run, or mha's own")]
AlwaysEncodeOption = Annotated[bool, Option("--always-encode", help="Let the encoder read texts of which the linear model is sure, too.")]
CoverageOption = Annotated[
    float | None,
    Option(min=0.01, max=0.999, metavar="P", help="Sets of labels that hold the right one for this share of texts, such as 0.9."),
]
HtmlOption = Annotated[Path | None, Option(help="Write a page for a browser, as one file.")]
SplitOption = Annotated[str | None, split_option("test")]
MaxTextsOption = Annotated[int | None, Option(min=1, help="Use a random part of this size.", show_default="all")]
PlotOption = Annotated[Path | None, Option(help="Draw the result into this PNG, SVG or PDF file.")]
EncodingOption = Annotated[
    str | None,
    Option(metavar="NAME", help="Encoding without a byte-order mark, such as windows-1252.", show_default="UTF-8", parser=_encoding),
]
NoQuotingOption = Annotated[bool, Option("--no-quoting", help="Read quotes in tables as characters like any other: every line is a row.")]


class ReadsTables:
    """Options of every table."""

    text_columns: list[str] | None
    encoding: str | None
    no_quoting: bool

    @property
    def text_column(self) -> str | None:
        """The column of the text, or several as one name."""
        return JOINT.join(self.text_columns) if self.text_columns else None

    @property
    def dialect(self) -> Dialect:
        """Encoding and quoting."""
        return Dialect(self.encoding, not self.no_quoting)


FormatOption = Annotated[
    Literal["lines", "jsonl", "csv", "tsv", "fasttext", "parquet", "spreadsheet"] | None,
    Option("--format", help="Format of the input.", show_default="by the extension of a file, else lines"),
]


@dataclass(frozen=True)
class InputOptions(ReadsTables):
    """How texts without labels are read."""

    record_format: FormatOption = None
    text_columns: Annotated[list[str] | None, column_option("text", "the input", "as in training, else text")] = None
    encoding: EncodingOption = None
    no_quoting: NoQuotingOption = False

    def refuse(self, **others: object) -> None:
        """Refuse these options, and others of a file or a stream, where texts come as arguments."""
        given = asdict(self)
        goes_with("--input and standard input", format=given.pop("record_format"), **given, **others)


@dataclass(frozen=True)
class LabelledFileOptions(ReadsTables):
    """How files of labelled texts are read."""

    text_columns: Annotated[list[str] | None, column_option("text", "FILE", "guessed")] = None
    label_column: Annotated[str | None, column_option("label", "FILE", "guessed")] = None
    encoding: EncodingOption = None
    no_quoting: NoQuotingOption = False
