"""`mha evaluate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mha_cli.cli.options import DataOption, JsonOption, LabelColumnOption, SplitOption, TextColumnOption
from mha_cli.errors import MhaError

if TYPE_CHECKING:
    from mha_cli.config import Config, FilesData, SampleData, TfdsData

EXAMPLES = """[bold]Examples[/bold]

mha evaluate runs/imdb/checkpoint.keras

mha evaluate runs/imdb/checkpoint.keras --data mine.csv \\
    --text-column review --label-column verdict

mha evaluate runs/sample/checkpoint.keras --split twins --json"""


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint that `mha train` wrote.", show_default=False)],
    data: DataOption = None,
    split: SplitOption = None,
    text_column: TextColumnOption = None,
    label_column: LabelColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a checkpoint on labelled reviews."""
    from mha_cli.checkpoint import read_checkpoint

    model = read_checkpoint(checkpoint)
    section = data_section(data, model.config, text_column, label_column)

    from mha_cli.cli import render
    from mha_cli.cli.progress import status
    from mha_cli.data.preparation import labelled_reviews

    with status("reading") as watcher:
        labelled = labelled_reviews(model, section, split, watcher)
        watcher.tell("starting TensorFlow")
        from mha_cli.training.evaluation import evaluate as score

        evaluation = score(model, labelled, watcher)
    render.evaluation(evaluation, as_json=as_json)


def data_section(
    data: str | None, trained_on: Config, text_column: str | None, label_column: str | None
) -> SampleData | TfdsData | FilesData:
    """What --data means; columns that are not named are those that the model was trained on."""
    from mha_cli.config import FilesData, SampleData, TfdsData

    trained = trained_on.data
    if data is None:
        section: SampleData | TfdsData | FilesData = trained
    elif data == "sample":
        section = SampleData()
    elif data.startswith("tfds:"):
        section = TfdsData(source="tfds", name=data.removeprefix("tfds:"))
    elif data.isidentifier() and not os.path.exists(data):
        raise MhaError(f"--data {data}: no such file or folder", f"check the path; for TensorFlow Datasets write tfds:{data}")
    else:
        section = FilesData(source="files", train=data, test=data)  # one file: whatever split is asked for
    if isinstance(section, FilesData):
        known = trained if isinstance(trained, FilesData) else section
        columns = {"text_column": text_column or known.text_column, "label_column": label_column or known.label_column}
        return section.model_copy(update=columns)
    return section
