"""Two processes of one core against one of two; and what a step's exchange would cost with many workers.

    TFDS_DATA_DIR=… python benchmarks/distribution.py                           # the book's model and the imdb recipe, on IMDB reviews
    python benchmarks/distribution.py --recipes sample --reviews 200 --rounds 1  # a try-out

Both have the same global batch. The exchange is calculated, for 32 reviews a worker: dense gradients go round a ring, 2 (n - 1) / n times
their bytes out of every worker; the rows of embedding tables that a worker touches go to all others, (n - 1) times their bytes with their
numbers. Time is bytes over bandwidth and 20 µs a message; nothing overlaps with computing.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

import harness
import numpy as np
from rich.console import Console
from rich.table import Table

from mha_cli.config.loading import load_config
from mha_cli.config.parameters import parameter_table
from mha_cli.config.settings import Config
from mha_cli.runtime.subwords import ids_of
from mha_cli.text.ngrams import ngram_buckets

WORKERS, GBITS, MESSAGE_SECONDS = (8, 64, 512), (10, 100), 20e-6
PART, BATCHES = 32, 50
"""Reviews of a worker's part of a batch, and parts on which touched rows are counted."""

WITHOUT_SCORES = ("model.score_ngrams=0", "model.score_buckets=0", "model.score_ending=0", "model.score_windows=[]")
"""They have no part in the steps."""


def recipe_config(recipe: str, num_texts: int | None = None) -> Config:
    """The config of a recipe; on so many reviews of the training split, or on all."""
    config = load_config(harness.ROOT / "configs" / f"{recipe}.yaml", WITHOUT_SCORES)
    fewer = {"train_split": f"train[:{num_texts}]"} if config.data.source == "tfds" else {"num_texts": num_texts}
    changed = {"data": config.data.model_copy(update=fewer if num_texts else {})}
    return config.model_copy(update={**changed, "training": config.training.model_copy(update={"distribution": "auto"})})


# Measured


def work(recipe: str, num_texts: int, rounds: int) -> None:
    """Train epochs, the first of which traces the step, and print the reviews per second of the others."""
    from mha_cli.data.preparation import prepare
    from mha_cli.training.distribution import distributed
    from mha_cli.training.loop import run_epoch
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


# Calculated


def exchange(recipe: str) -> dict[str, Any]:
    """Bytes of a recipe's dense gradients, of the rows that a part of a batch touches, and of whole tables."""
    from mha_cli.data.preparation import prepare
    from mha_cli.training.epoch import EpochInputs
    from mha_cli.training.trainer import EMBEDDING_TABLES

    config = recipe_config(recipe)
    config = config.model_copy(update={"training": config.training.model_copy(update={"batch_size": PART})})
    data, model = prepare(config), config.model
    parameters = parameter_table(config, len(data.vocabulary), len(data.class_names))
    sizes = {parameter.path: int(np.prod(parameter.shape)) for parameter in parameters}
    inputs, touched = EpochInputs(config, data), []
    for _, tokens in inputs.steps(1, inputs.batches(1)[:BATCHES]):
        ids = ids_of(tokens)
        rows = len(np.unique(ids))
        if model.max_ngram > 1:
            buckets = [ngram_buckets(ids, n, model.ngram_buckets) for n in range(2, model.max_ngram + 1)]
            rows += len(np.unique(np.concatenate(buckets)))
        touched.append(rows)
    return {
        "dense_bytes": 4 * sum(size for path, size in sizes.items() if path not in EMBEDDING_TABLES),
        "rows": float(np.mean(touched)),
        "row_bytes": 4 * model.embed_dim + 4,
        "table_bytes": 4 * sum(size for path, size in sizes.items() if path in EMBEDDING_TABLES),
    }


def seconds(found: dict[str, Any], workers: int, gbits: int) -> tuple[float, float, float]:
    """Of a step: the ring of the dense gradients, the rows gathered, and what a ring of whole tables would take instead."""
    rate, ring = gbits * 1e9 / 8, 2 * (workers - 1)
    dense = ring / workers * found["dense_bytes"] / rate + ring * MESSAGE_SECONDS
    rows = (workers - 1) * (found["rows"] * found["row_bytes"] / rate + 3 * MESSAGE_SECONDS)  # lengths, rows and their numbers
    return dense, rows, ring / workers * found["table_bytes"] / rate + ring * MESSAGE_SECONDS


def main() -> None:
    """Measure, calculate, and print two tables."""
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
    measured, calculated = Table(title="Reviews per second in training, median"), Table(title=f"A step's exchange, {PART} reviews a worker")
    for column in ("recipe", "one process, two cores", "two processes, one core each", "×"):
        measured.add_column(column)
    for column in ("recipe", "workers", "Gbit/s", "dense, ms", "rows, ms", "whole tables instead, ms"):
        calculated.add_column(column)
    for recipe in arguments.recipes:
        rates = {workers: measure(recipe, arguments.reviews, arguments.rounds, workers) for workers in (1, 2)}
        found = exchange(recipe)
        figures[recipe] = {"reviews_per_second": rates, **found}
        one, two = (float(np.median(rates[workers])) for workers in (1, 2))
        measured.add_row(recipe, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
        for workers in WORKERS:
            for gbits in GBITS:
                calculated.add_row(recipe, f"{workers}", f"{gbits}", *(f"{1000 * part:,.1f}" for part in seconds(found, workers, gbits)))
        print(f"{recipe}: {figures[recipe]}", file=sys.stderr)
    settings = {"reviews": arguments.reviews, "rounds": arguments.rounds, "recipes": arguments.recipes}
    harness.write_record(arguments.results / "distribution.json", harness.record(settings, figures, busy))
    for table in (measured, calculated):
        Console(highlight=False, width=120).print(table)


if __name__ == "__main__":
    main()
