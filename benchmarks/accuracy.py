"""Test accuracy on the official IMDB split against wall time: our recipes and what a user would pick instead.

    python benchmarks/accuracy.py                                    # everything; accuracy.json, accuracy.png and a table
    python benchmarks/accuracy.py nbsvm configs/imdb.yaml            # these only; the results of the others stay
    python benchmarks/accuracy.py --reviews 500 --results /tmp/try   # a try-out

Ours are trained by `mha train`, scored by `mha evaluate` and taken apart by `parts.py`, a run per seed; every peer has a process of its
own. The wall time is that of the whole job: starting, reading, training.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
import plots
import tables
from texts import jobs

PEERS = {"fasttext": "fastText, bigrams", "tfidf": "TF-IDF, 1–2-grams", "nbsvm": "NB-SVM, 1–3-grams"}
"""Names on the command line of `text_peers.py`, and in tables."""

RECIPES = ("imdb-fast", "imdb", "imdb-semi", "imdb-encoder", "imdb-encoder-semi")


def score_peer(peer: str, seed: int | None, num_texts: int | None) -> dict[str, Any]:
    """Figures of a peer, trained and scored in a process of its own."""
    splits = [] if num_texts is None else ["--train-split", f"train[:{num_texts}]", "--test-split", f"test[:{num_texts}]"]
    done = harness.run_command(harness.script_command(Path(__file__).with_name("text_peers.py"), peer, "--seed", str(seed or 0), *splits))
    return json.loads(done.stdout.splitlines()[-1]) | {"peak_megabytes": done.peak_megabytes}


def score_recipe(recipe: str, seed: int, num_texts: int | None, folder: Path) -> dict[str, Any]:
    """Figures of one of our recipes: `mha train`, then `mha evaluate`, then its parts by themselves."""
    changes = [f"seed={seed}"]
    if num_texts is not None:
        changes += [f"data.train_split=train[:{num_texts}]", f"data.test_split=test[:{num_texts}]", "training.epochs=1"]
    run = folder / f"{Path(recipe).stem}-{seed}"
    trained = harness.train(recipe, run, changes)
    scored = harness.run_command(harness.mha_command("evaluate", str(run / "checkpoint.keras"), "--json"))
    taken_apart = harness.run_command(harness.script_command(Path(__file__).with_name("parts.py"), str(run)))
    return {
        "accuracy": json.loads(scored.stdout)["accuracy"],
        "parts": json.loads(taken_apart.stdout.splitlines()[-1]),
        "wall_seconds": trained.seconds,
        "peak_megabytes": trained.peak_megabytes,
    }


def main() -> None:
    """Run the systems that the arguments name."""
    parser = harness.parser(__doc__)
    parser.add_argument("systems", nargs="*", help=f"{', '.join(PEERS)} or the path of a recipe; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of every system that depends on chance (0 1 2)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep our run directories here")
    parser.add_argument("--reviews", type=int, help="a try-out on so many reviews of each split, one epoch; needs --results")
    arguments = parser.parse_args()
    systems = arguments.systems or [*PEERS, *(f"configs/{name}.yaml" for name in RECIPES)]
    for system in systems:
        if system not in PEERS and not Path(system).exists() and not (harness.ROOT / system).exists():
            parser.error(f"{system} is neither a recipe nor one of {', '.join(PEERS)}")
    if arguments.reviews is not None and arguments.results == harness.RESULTS:
        parser.error("--reviews makes figures that are no results; give --results FOLDER as well")
    path = arguments.results / "accuracy.json"
    with tempfile.TemporaryDirectory() as scratch:
        for system, seed in jobs(systems, arguments.seeds):
            name, busy = PEERS.get(system) or f"mha {Path(system).stem}", harness.busy_share()
            if system in PEERS:
                figures = score_peer(system, seed, arguments.reviews)
            else:
                recipe = str(Path(system).resolve()) if Path(system).exists() else system
                figures = score_recipe(recipe, seed or 0, arguments.reviews, (arguments.keep or Path(scratch)).resolve())
            made = harness.record({"system": name, "seed": seed}, figures, busy)
            records = harness.merge_records(path, [made])
            print(f"{name}, seed {seed}: {figures['accuracy']:.2%} in {tables.duration(figures['wall_seconds'])}", file=sys.stderr)
    plots.draw_accuracy(records, arguments.results / "accuracy.png")
    tables.show(tables.accuracy(records))


if __name__ == "__main__":
    main()
