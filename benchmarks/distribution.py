"""Training on two processes of one core each, beside one process of two cores, with the same global batch.

TFDS_DATA_DIR=… python benchmarks/distribution.py                           # the book's model and the imdb recipe, on IMDB reviews
python benchmarks/distribution.py --recipes sample --reviews 200 --rounds 1  # a try-out
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import harness
import numpy as np
from rich.console import Console
from rich.table import Table

from mha_cli.config.loading import load_config
from mha_cli.config.settings import Config

WITHOUT_LINEAR = ("linear=null",)
"""They have no part in the steps."""


def recipe_config(recipe: str, num_texts: int) -> Config:
    """The config of a recipe on so many reviews of the training split."""
    config = load_config(harness.ROOT / "configs" / f"{recipe}.yaml", WITHOUT_LINEAR)
    fewer = {"train_split": f"train[:{num_texts}]"} if config.data.source == "tfds" else {"num_texts": num_texts}
    changed = {"data": config.data.model_copy(update=fewer)}
    return config.model_copy(update={**changed, "training": config.training.model_copy(update={"distribution": "auto"})})


def work(recipe: str, num_texts: int, rounds: int) -> None:
    """Train epochs, the first of which traces the step, and print the reviews per second of the others."""
    from mha_cli.data.preparation import prepare
    from mha_cli.training.distribution import distributed
    from mha_cli.training.run import run_epoch
    from mha_cli.training.trainer import Trainer

    config = recipe_config(recipe, num_texts)
    with distributed("auto") as distribution:  # first: TensorFlow Datasets reads with TensorFlow
        data = prepare(config)
        trainer, rates = Trainer(config, data, distribution), []
        for epoch in range(1, rounds + 2):
            started = time.perf_counter()
            run_epoch(trainer, epoch, lambda _: None)
            rates.append(len(data.train) / (time.perf_counter() - started))
    print(json.dumps(rates[1:]))


def measure(recipe: str, num_texts: int, rounds: int, workers: int) -> list[float]:
    """Reviews per second of so many workers, which share two cores, round by round."""
    sockets = [socket.socket() for _ in range(workers)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = []
    for index in range(workers):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        command = ["taskset", "-c", str(index) if workers > 1 else "0,1", sys.executable, __file__, "--work", recipe]
        command += ["--reviews", str(num_texts), "--rounds", str(rounds)]
        environment = harness.environment() | {"TF_CONFIG": json.dumps(task)}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    answers = [process.communicate()[0] for process in processes]
    found: list[float] = json.loads(answers[0])
    return found


def main() -> None:
    """Measure both and print a table."""
    parser = harness.parser(__doc__)
    parser.add_argument("--recipes", nargs="+", default=["book", "imdb"])
    parser.add_argument("--reviews", type=int, default=1000, help="training reviews (1,000)")
    parser.add_argument("--rounds", type=int, default=3, help="epochs measured (3)")
    parser.add_argument("--work", metavar="RECIPE", help="be one of the workers")
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.reviews, arguments.rounds)
        return
    os.environ.pop("TF_CONFIG", None)
    busy, figures = harness.busy_share(), {}
    table = Table(title="Reviews per second in training, median")
    for column in ("recipe", "one process, two cores", "two processes, one core each", "×"):
        table.add_column(column)
    for recipe in arguments.recipes:
        rates = {workers: measure(recipe, arguments.reviews, arguments.rounds, workers) for workers in (1, 2)}
        figures[recipe] = {"texts_per_second": rates}
        one, two = (float(np.median(rates[workers])) for workers in (1, 2))
        table.add_row(recipe, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
        print(f"{recipe}: {figures[recipe]}", file=sys.stderr)
    settings = {"reviews": arguments.reviews, "rounds": arguments.rounds, "recipes": arguments.recipes}
    harness.write_record(arguments.results / "distribution.json", harness.record(settings, figures, busy))
    Console(highlight=False, width=120).print(table)


if __name__ == "__main__":
    main()
