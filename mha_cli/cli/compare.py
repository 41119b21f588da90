"""`mha compare`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mha_cli.cli import options, render
from mha_cli.cli.completion import checkpoints_like
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import refuse_picture, save_picture
from mha_cli.cli.progress import progress
from mha_cli.errors import MhaError
from mha_cli.runs import checkpoint_in
from mha_cli.system.processor import prepare_to_compute


def compare(
    checkpoints: Annotated[list[Path], Argument(help="Checkpoints or run directories; baseline first.", autocompletion=checkpoints_like)],
    given: DataOptions,
    split: options.SplitOption = None,
    seed: Annotated[int, Option(min=0, help="Seed of the bootstrap intervals.")] = 0,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare models on the same labelled texts: which is better, by how much, and whether that may be chance."""
    prepare_to_compute()
    from mha_cli.plots.figures import comparison_figure
    from mha_cli.preparation.scored_texts import same_texts

    paths = [checkpoint_in(path) for path in checkpoints]
    if len({path.absolute() for path in paths}) < max(2, len(paths)):
        raise MhaError("compare takes two checkpoints or more, each of them once", "see `mha compare --help` for examples")
    refuse_picture(plot)
    models = [load_checkpoint(path)[0] for path in paths]
    section = given.section(paths[0], models[0].config)
    with progress("reading") as callbacks:
        labelled = same_texts(models, section, split, callbacks)
        from mha_cli.analysis.comparison import compare_models

        result = compare_models(list(zip(map(str, checkpoints), models, labelled, strict=True)), seed, callbacks)
    if plot is not None:
        save_picture(comparison_figure(result), plot)
    print_json(result) if as_json else render.comparison(result)
