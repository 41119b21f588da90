"""`mha train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mha_cli.cli.options import ConfigOption, JsonOption, SetOption

EXAMPLES = """[bold]Examples[/bold]

mha train --config configs/sample.yaml

mha train --config configs/imdb.yaml --set model.num_heads=8 --output runs/eight-heads

mha train --config configs/imdb.yaml --set data.source=files --set data.train=reviews.csv"""


def train(
    config: ConfigOption,
    overrides: SetOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run directory to write.", show_default="runs/NAME of the config")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a classifier from a YAML config; the best epoch on validation is kept."""
    from mha_cli.config import load_config
    from mha_cli.runs import new_run_directory

    settings = load_config(config, overrides or [])
    run_directory = output or new_run_directory(config.stem)

    from mha_cli.cli import render
    from mha_cli.cli.progress import training_progress

    with training_progress() as watcher:
        watcher.tell("starting TensorFlow")
        from mha_cli.training.run import train as run_training

        summary = run_training(settings, run_directory, watcher)
    render.training(summary, as_json=as_json)
