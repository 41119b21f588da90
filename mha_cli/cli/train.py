"""`mha train`."""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from typer import Option

from mha_cli.cli import options, render
from mha_cli.cli.console import print_json
from mha_cli.cli.inputs import given_config
from mha_cli.cli.progress import progress
from mha_cli.cli.stopping import stop_request
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.runs import CONFIG, RUNS, RunDirectory, has_state, new_run_directory, run_directory
from mha_cli.system.callbacks import SILENT
from mha_cli.system.cluster import task_of
from mha_cli.system.memory import settings_for_less_memory


def train(
    config: options.ConfigOption = "",
    base: Annotated[Path | None, Option("--from", metavar="RUN", help="Train on: a run whose texts, words and weights come first.")] = None,
    classes: options.ClassesOption = None,
    overrides: options.SetOption = None,
    output: Annotated[Path | None, options.output_option("Run directory to write.", "runs/NAME of the config or the data")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the interrupted run in --output from its last saved step.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Train a classifier from a YAML config; the best epoch on validation is kept."""
    if resume and output is None:
        raise MhaError("--resume needs --output", "name the run directory to go on with")
    options.exclusive("mha train", {"--config": config, "--from": base})
    options.exclusive("mha train", {"--classes": classes, "--from": base})
    if base:
        from mha_cli.preparation.training_on import config_to_train_on  # NumPy: keep `mha --help` fast

        settings, name = config_to_train_on(base, overrides or []), base.resolve().name
        first, _, number = name.rpartition("-")
        name = first if number.isdecimal() and (RUNS / first).exists() else name  # after few-2 comes few-3
    elif config:
        settings, name = given_config(config, overrides, classes)
    else:
        raise MhaError("no config", "give --config RECIPE, or --from RUN to train on")
    task = task_of(settings.training.distribution)
    if task.num_workers > 1 and output is None:
        raise MhaError("training on several workers needs --output", "name the run directory, which the chief writes")
    folder = output or new_run_directory(name)

    from mha_cli.preparation.prepare import prepare

    def after_a_stop() -> str:
        if not task.is_chief:
            return "; the chief says how to go on"
        if not has_state(folder):
            return " before there was anything to keep; start again"
        again = shlex.join(["mha", "train", "--config", f"{folder}/{CONFIG}", "--output", f"{folder}", "--resume"])
        return f"; {folder} keeps what was learnt; go on with: {again}"

    with settings_for_less_memory(), progress() as shown, stop_request(shown.log, after_a_stop) as request:
        callbacks = shown if task.is_chief else SILENT
        with run_directory(folder, settings, resume) if task.is_chief else nullcontext(RunDirectory(folder)) as run:
            # With other workers later: TensorFlow has to know them before it reads a set of TensorFlow Datasets.
            data = prepare(settings, callbacks) if task.num_workers == 1 else None
            callbacks.log("starting TensorFlow")
            from mha_cli.training.run import train as run_training

            summary = run_training(settings if data is None else data.config, run, request.watched(callbacks), data)
    if not task.is_chief:
        return
    print_json(summary) if as_json else render.training(summary, scoring_command(folder, settings))


def scoring_command(folder: Path, config: Config) -> str:
    """The command that evaluates a run on texts outside its training; FILE if its config names none."""
    untested = config.data.source == "files" and not (config.data.test_paths or config.data.test_share)
    unseen = ["--data", "FILE"] if config.learns_from_validation else ["--split", "validation"]
    return shlex.join(["mha", "evaluate", f"{folder}", *(unseen if untested else [])])
