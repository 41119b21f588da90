"""How much of a training epoch goes into its input: the epoch, and making its batches alone, in turn.

    python benchmarks/inputs.py                                                   # the IMDB recipes and the book's: table and inputs.json
    python benchmarks/inputs.py --reviews 64 --rounds 1 --results /tmp/try        # a try-out

What the batches take alone is what the steps would have to wait for if nothing were made ahead, and nothing is.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import harness
import numpy as np
import tables

from mha_cli.config.loading import load_config

RECIPES = ("imdb-fast", "imdb", "book")
WITHOUT_SCORES = ("model.score_ngrams=0", "model.score_buckets=0", "model.score_ending=0", "model.score_windows=[]")
"""They have no part in the steps."""


def measure(recipe: str, num_texts: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of an epoch of so many reviews, and of its batches, round by round."""
    from mha_cli.data.preparation import prepare
    from mha_cli.training.loop import run_epoch
    from mha_cli.training.trainer import Trainer

    config = load_config(harness.ROOT / "configs" / f"{recipe}.yaml", WITHOUT_SCORES)
    data = prepare(config)
    rows = np.random.default_rng(0).permutation(len(data.train))[:num_texts]
    trainer = Trainer(config, dataclasses.replace(data, train=data.train.subset(rows), targets=data.targets[rows]))
    run_epoch(trainer, 1, lambda _: None)  # traces the step
    seconds: dict[str, list[float]] = {"epoch": [], "batches": []}
    for epoch in range(2, rounds + 2):
        started = time.perf_counter()
        run_epoch(trainer, epoch, lambda _: None)
        between = time.perf_counter()
        for _ in trainer.inputs.steps(epoch, trainer.inputs.batches(epoch)):
            pass
        seconds["epoch"].append(between - started)
        seconds["batches"].append(time.perf_counter() - between)
    return seconds


def main() -> None:
    """Measure the recipes."""
    parser = harness.parser(__doc__)
    parser.add_argument("--reviews", type=int, default=2000, help="training reviews, drawn at random (2,000)")
    parser.add_argument("--rounds", type=int, default=3, help="times that both are measured (3)")
    arguments = parser.parse_args()
    busy, seconds = harness.busy_share(), {}
    for recipe in RECIPES:
        seconds[recipe] = measure(recipe, arguments.reviews, arguments.rounds)
        print(f"{recipe}: {seconds[recipe]}", file=sys.stderr)
    settings = {"reviews": arguments.reviews, "rounds": arguments.rounds}
    record = harness.record(settings, {"seconds": seconds}, busy)
    harness.write_record(arguments.results / "inputs.json", record)
    tables.show(tables.inputs(record))


if __name__ == "__main__":
    main()
