"""`mha shuffle-test`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mha_cli.cli import options, render
from mha_cli.cli.completion import checkpoints_like, recipes_like
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import given_config, load_checkpoint
from mha_cli.cli.output import refuse_picture, save_picture
from mha_cli.cli.progress import progress
from mha_cli.errors import MhaError
from mha_cli.runs import checkpoint_in, new_run_directory, refuse_used, run_name
from mha_cli.system.cluster import task_of
from mha_cli.system.processor import prepare_to_compute


def shuffle_test(
    checkpoints: Annotated[list[Path] | None, Argument(help="Checkpoints or run directories.", autocompletion=checkpoints_like)] = None,
    config: Annotated[
        str | None, Option(metavar="RECIPE", help="Train and test this recipe with and without positions.", autocompletion=recipes_like)
    ] = None,
    overrides: options.SetOption = None,
    output: Annotated[Path | None, options.output_option("Folder of the two runs of --config.", "runs/NAME-shuffle-test")] = None,
    shuffles: Annotated[int, Option("--shuffles", "-n", min=1, max=1000, help="Shuffles of every text.")] = 5,
    *,
    given: DataOptions,
    split: Annotated[str | None, options.split_option("test; of the built-in sample its twins")] = None,
    max_texts: options.MaxTextsOption = None,
    seed: Annotated[int, Option(min=0, help="Seed of the shuffles; the seed of the training is in the config.")] = 0,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show whether a model reads word order: score texts in order, then with the words of each shuffled."""
    if config is None:
        prepare_to_compute()
    from mha_cli.plots.figures import shuffle_figure
    from mha_cli.preparation.prepare import prepare
    from mha_cli.preparation.scored_texts import labelled_texts, refuse_unreadable, word_order_split

    paths = [checkpoint_in(path) for path in checkpoints or []]
    options.exclusive("shuffle-test", {"checkpoints": paths, "--config": config})
    if config is not None:
        options.goes_with("checkpoints", data=given.data)
    elif not paths:
        raise MhaError("shuffle-test takes either checkpoints or --config", "see `mha shuffle-test --help` for examples")
    else:
        options.goes_with("--config", set=overrides, output=output)
    given.refuse_without_data()
    refuse_picture(plot)
    if config is None:
        read = [load_checkpoint(path)[0] for path in paths]  # all of them first: a bad one is refused at once
        sections = [given.section(path, model.config) for path, model in zip(paths, read, strict=True)]
        with progress("reading") as callbacks:
            models = [
                (run_name(path), model, labelled_texts(model, section, split or word_order_split(section), callbacks))
                for path, model, section in zip(paths, read, sections, strict=True)
            ]
            from mha_cli.analysis.shuffle import compare

            results = compare(models, shuffles, max_texts, seed, callbacks)
    else:
        settings, name = given_config(config, overrides)
        if task_of(settings.training.distribution).num_workers > 1:
            raise MhaError("shuffle-test trains in one process, not on several workers", "set training.distribution=none")
        directory = output or new_run_directory(f"{name}-shuffle-test")
        refuse_used(directory)  # before TensorFlow is imported
        refuse_unreadable(settings.data, split)
        with progress() as callbacks:
            prepared = prepare(settings, callbacks)
            callbacks.log("starting TensorFlow")
            from mha_cli.analysis.shuffle import train_and_compare

            results = train_and_compare(prepared, directory, shuffles, split, max_texts, seed, callbacks)
    if plot is not None:
        save_picture(shuffle_figure(results), plot)
    print_json(results) if as_json else render.shuffle(results)
