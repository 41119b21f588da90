"""`mha export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mha_cli.cli.options import JsonOption
from mha_cli.errors import MhaError, printable

EXAMPLES = """[bold]Examples[/bold]

mha export runs/imdb/checkpoint.keras --format int8 --output small.keras

mha export runs/imdb/checkpoint.keras --format onnx --output imdb.onnx

mha export runs/imdb/checkpoint.keras --format saved-model --output imdb-saved-model

mha export runs/imdb/checkpoint.keras --format litert --output imdb.tflite --json"""


def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint that `mha train` wrote.", show_default=False)],
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="[bold]int8[/bold] (a checkpoint of a quarter the size), [bold]onnx[/bold] (a file), "
            "[bold]saved-model[/bold] (a folder) or [bold]litert[/bold] (a file).",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or folder to write.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Write a checkpoint in a format that other programs run.

    The export takes token ids and gives class probabilities; vocabulary, class names and settings travel along. It is checked against the
    checkpoint before it is there.
    """
    if output.exists() or output.is_symlink():
        raise MhaError(f"--output {printable(str(output), 200)}: exists", "choose another name, or remove it")
    if not output.parent.is_dir():
        raise MhaError(f"--output {printable(str(output), 200)}: its folder does not exist", "make it first")
    from mha_cli.export.formats import export_checkpoint, known_format

    known_format(format_name)
    from mha_cli.checkpoint import read_checkpoint

    model = read_checkpoint(checkpoint)

    from mha_cli.cli import render
    from mha_cli.cli.progress import status

    with status(f"writing {printable(output.name, 200)}") as watcher:
        result = export_checkpoint(model, format_name, output, watcher)
    render.export(result, as_json=as_json)
