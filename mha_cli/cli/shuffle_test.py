"""`mha shuffle-test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mha_cli.checkpoint.runs import checkpoint_in, new_run_directory, refuse_used, run_name
from mha_cli.cli import options, render
from mha_cli.cli.completion import checkpoints_like, recipes_like
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import config_path
from mha_cli.cli.options import exclusive, goes_with
from mha_cli.cli.output import refuse_picture, save_picture
from mha_cli.cli.progress import status, training_progress
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import new_run_name
from mha_cli.errors import MhaError
from mha_cli.system.cluster import refuse_several_workers
from mha_cli.system.processor import prepare_to_compute

EXAMPLES = """mha shuffle-test --config sample
mha shuffle-test runs/book runs/book-no-positions --plot order.png"""


def shuffle_test(
    checkpoints: Annotated[list[Path] | None, Argument(help="Checkpoints or run directories.", autocompletion=checkpoints_like)] = None,
    config: Annotated[
        str | None,
        Option("--config", metavar="RECIPE", help="Train and test this recipe with and without positions.", autocompletion=recipes_like),
    ] = None,
    overrides: options.SetOption = None,
    output: Annotated[Path | None, options.output_option("Folder of the two runs of --config.", "runs/NAME-shuffle-test")] = None,
    shuffles: Annotated[int, Option("--shuffles", "-n", min=1, max=1000, help="Shuffles of every text.")] = 5,
    *,
    given: DataOptions,
    split: Annotated[str | None, options.split_option("test; of the built-in sample its twins")] = None,
    max_texts: options.MaxTextsOption = None,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the shuffles; the seed of the training is in the config.")] = 0,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show whether a model reads word order: score texts in order, then with the words of each shuffled.

    Without positions, attention sees a set of words, so no shuffle can change the answer.
    """
    if config is None:
        prepare_to_compute()
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.data.preparation import labelled_texts, prepare, refuse_unreadable, word_order_split
    from mha_cli.plots.figures import shuffle_figure

    paths = [checkpoint_in(path) for path in checkpoints or []]
    exclusive("shuffle-test", checkpoints=paths, config=config)
    if config is not None:
        goes_with("checkpoints", data=given.data)
    elif not paths:
        raise MhaError("shuffle-test takes either checkpoints or --config", "see `mha shuffle-test --help` for examples")
    else:
        goes_with("--config", set=overrides, output=output)
    given.refuse_without_data()
    refuse_picture(plot)
    if config is None:
        read = [read_checkpoint(path) for path in paths]  # all of them first: a bad one is refused at once
        sections = [given.section(path, model.config) for path, model in zip(paths, read, strict=True)]
        with status("reading") as callbacks:
            labelled = [
                labelled_texts(model, section, split or word_order_split(section), callbacks)
                for model, section in zip(read, sections, strict=True)
            ]
            from mha_cli.analysis.shuffle import compare

            results = compare(list(zip(map(run_name, paths), read, labelled, strict=True)), shuffles, max_texts, seed, callbacks)
    else:
        config_file = config_path(config)
        settings = load_config(config_file, overrides or [])
        refuse_several_workers(settings.training.distribution, "shuffle-test")
        directory = output or new_run_directory(f"{new_run_name(config_file, settings)}-shuffle-test")
        refuse_used(directory)  # before TensorFlow is imported
        refuse_unreadable(settings.data, split)
        with training_progress() as callbacks:
            prepared = prepare(settings, callbacks)
            callbacks.log("starting TensorFlow")
            from mha_cli.analysis.shuffle import train_and_compare

            results = train_and_compare(prepared, directory, shuffles, split, max_texts, seed, callbacks)
    if plot is not None:
        save_picture(shuffle_figure(results), plot)
    print_json(results) if as_json else render.shuffle(results)
