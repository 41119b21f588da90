"""`mha tune`."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from mha_cli.cli import options, render
from mha_cli.cli.console import print_json
from mha_cli.cli.inputs import given_config
from mha_cli.cli.output import save_picture
from mha_cli.cli.progress import training_progress
from mha_cli.cli.stopping import stop_request
from mha_cli.cli.train import scoring_command
from mha_cli.errors import MhaError
from mha_cli.runs import METRICS, RUNS
from mha_cli.system.cluster import refuse_several_workers
from mha_cli.system.memory import settings_for_less_memory
from mha_cli.tuning.space import default_search, space_of, trial_config

EXAMPLES = """mha tune --config text --set data.train=reviews.csv
mha tune --config sample --minutes 2 \\
    --search training.learning_rate=0.0005..0.01 --search model.num_blocks=1,2"""


def tune(
    config: options.ConfigOption,
    overrides: options.SetOption = None,
    minutes: Annotated[float, Option("--minutes", "-m", min=0.01, max=100_000, help="Time for all trials, earlier calls included.")] = 10.0,
    trials: Annotated[int | None, Option("--trials", "-n", min=1, help="Maximum number of trials.", show_default="any number")] = None,
    search: Annotated[
        list[str] | None,
        Option(
            "--search",
            metavar="KEY.PATH=VALUES",
            help="Setting to search: LOW..HIGH, or A,B,C; can be repeated.",
            show_default="those that depend most on the texts",
        ),
    ] = None,
    output: Annotated[
        Path | None, options.output_option("Run directory to write, or to continue.", "runs/NAME-tuned of the config or the data")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Search for better settings by short trainings on part of the texts, then train with the best.

    The first trial is the unchanged recipe; if none is better, nothing is trained. The same command continues an interrupted search.
    """
    from mha_cli.tuning.study import STUDY, held_study

    settings, name = given_config(config, overrides)
    refuse_several_workers(settings.training.distribution, "tune")
    if settings.training.base:
        raise MhaError("training.base fixes the settings that `mha tune` tries", "take training.base=null, or train on without a search")
    folder = output or RUNS / f"{name}-tuned"
    tried = trial_config(settings)
    space_of(search or [], tried)  # refused before the texts are read

    from mha_cli.plots.figures import search_figure
    from mha_cli.preparation.prepare import prepare

    def after_a_stop() -> str | None:
        return f"; {folder} keeps what was tried; the same command goes on" if (folder / STUDY).is_file() else None

    with (
        settings_for_less_memory(),
        stop_request(after_a_stop) as request,
        held_study(folder, settings, search or [], minutes, trials) as study,
        training_progress() as callbacks,
    ):
        request.log = callbacks.log
        data = prepare(tried, callbacks)
        space = space_of(search or default_search(data.config), data.config)
        callbacks.log("starting TensorFlow")
        from mha_cli.tuning.search import tune as run_search

        summary = run_search(settings, study, space, data, request.watched(callbacks))
    save_picture(search_figure(summary), folder / "study.png")
    plain = shlex.join(["mha", "train", "--config", config, *(part for one in overrides or [] for part in ("--set", one))])
    following = scoring_command(folder, settings) if (folder / METRICS).is_file() else plain
    print_json(summary) if as_json else render.tuning(summary, following)
