"""`mha export`."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from mha_cli.cli import options, render
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress
from mha_cli.errors import printable


def export(
    checkpoint: options.CheckpointArgument,
    format_name: Annotated[
        Literal["int8", "litert", "onnx", "saved-model"],
        Option("--format", "-f", metavar="FORMAT", help="int8 (a small checkpoint), litert, onnx or saved-model (a folder)."),
    ],
    output: Annotated[Path, options.output_option("File or folder to write.")],
    given: DataOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Write a checkpoint in a format that other programs run."""
    given.refuse_without_data()
    from mha_cli.export.formats import export_checkpoint, installed_format
    from mha_cli.preparation.scored_texts import labelled_texts

    refuse_output("--output", output, new=True)
    installed_format(format_name)
    model, path = load_checkpoint(checkpoint)
    with progress(f"writing {printable(output.name, 200)}") as callbacks:
        labelled = labelled_texts(model, given.section(path, model.config), None, callbacks) if given.data else None
        result = export_checkpoint(model, format_name, output, callbacks, labelled)
    print_json(result) if as_json else render.export(result)
