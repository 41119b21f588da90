"""`mha export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mha_cli.checkpoint.runs import checkpoint_in
from mha_cli.cli import options, render
from mha_cli.cli.completion import EXPORT_FORMATS
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import data_section
from mha_cli.cli.options import goes_with
from mha_cli.cli.output import ended_in_order, refuse_output
from mha_cli.cli.progress import status
from mha_cli.errors import printable
from mha_cli.records.reader import Dialect

EXAMPLES = """mha export runs/imdb/checkpoint.keras --format int8 --output small.keras \\
    --data tfds:imdb_reviews

mha export runs/imdb/checkpoint.keras --format onnx --output imdb.onnx

mha export runs/imdb/checkpoint.keras --format saved-model \\
    --output imdb-saved-model

mha export runs/imdb/checkpoint.keras --format litert \\
    --output imdb.tflite --json"""


def export(
    checkpoint: options.CheckpointArgument,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="[bold]int8[/bold] (a checkpoint of a quarter the size), [bold]onnx[/bold] (a file), "
            "[bold]saved-model[/bold] (a folder) or [bold]litert[/bold] (a file).",
            autocompletion=lambda: EXPORT_FORMATS,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or folder to write.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="Labelled texts to score checkpoint and export on: files, a folder with one sub-folder per class, "
            "[bold]sample[/bold], or [bold]tfds:NAME[/bold].",
        ),
    ] = None,
    text_column: options.TextColumnOption = None,
    label_column: options.LabelColumnOption = None,
    encoding: options.EncodingOption = None,
    no_quoting: options.NoQuotingOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Write a checkpoint in a format that other programs run.

    The export takes token ids and gives class probabilities; it contains the vocabulary, class names and settings.
    Its answers are compared with the checkpoint's before it appears. With --data, both accuracies are printed.
    """
    if data is None:
        goes_with("--data", text_column=text_column, label_column=label_column, encoding=encoding, no_quoting=no_quoting)
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.data.preparation import labelled_texts
    from mha_cli.export.formats import export_checkpoint, known_format

    refuse_output("--output", output, new=True)
    known_format(format_name)
    path = checkpoint_in(checkpoint)
    model = read_checkpoint(path)
    with ended_in_order(), status(f"writing {printable(output.name, 200)}") as callbacks:
        labelled = None
        if data is not None:
            section = data_section(data, path, model.config, text_column, label_column, Dialect(encoding, not no_quoting))
            labelled = labelled_texts(model, section, None, callbacks)
        result = export_checkpoint(model, format_name, output, callbacks, labelled)
    print_json(result) if as_json else render.export(result)
