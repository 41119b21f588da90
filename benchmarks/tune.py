"""What `mha tune` brings: the recipe as it is, and with the settings that a search found, on texts that neither has seen.

    python benchmarks/tune.py FOLDER                                              # banking77, ten minutes: table, tune.json, tune.png
    python benchmarks/tune.py FOLDER --minutes 0.1 --seeds 0 --results /tmp/try   # a try-out

FOLDER holds NAME_train.csv with columns `text` and `label`. A fifth of it is held out as `texts.py` does. The search sees the rest, once;
with the settings that it found, and with the recipe as it is, a model per seed learns from the rest and is scored on the fifth.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import harness
import tables
from file_peers import read_csv
from texts import hold_out, score_recipe


def main() -> None:
    """Search on the set that the arguments name, and score both configs."""
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=Path, help="of NAME_train.csv")
    parser.add_argument("--set", default="banking77", metavar="NAME", help="set of texts (banking77)")
    parser.add_argument("--minutes", type=float, default=10.0, help="time of the search (10)")
    parser.add_argument("--search-seed", type=int, default=0, help="seed of the search (0)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the trainings that are scored (0 1 2)")
    parser.add_argument("--config", type=Path, default=harness.ROOT / "configs" / "text.yaml", help="recipe (configs/text.yaml)")
    arguments = parser.parse_args()
    recipe = arguments.config.resolve()
    arguments.results.mkdir(parents=True, exist_ok=True)
    settings = {"set": arguments.set, "minutes": arguments.minutes, "search_seed": arguments.search_seed, "recipe": recipe.stem}
    busy = harness.busy_share()
    with tempfile.TemporaryDirectory() as scratch:
        train, test = hold_out(arguments.folder.resolve() / f"{arguments.set}_train.csv", Path(scratch))
        given = ["--config", str(recipe), "--set", f"data.train={train}", "--set", f"seed={arguments.search_seed}"]
        run = ["--minutes", str(arguments.minutes), "--output", f"{scratch}/tuned", "--json"]
        search = json.loads(harness.run_command(harness.mha_command("tune", *given, *run)).stdout)
        print(f"{len(search['trials'])} trials, best {search['best']}", file=sys.stderr)
        shutil.copy(Path(scratch, "tuned", "study.png"), arguments.results / "tune.png")
        kept = {name: search[name] for name in ("recipe", "best", "standard_error", "num_validation", "seconds", "importance", "trials")}
        scored: dict[str, list[object]] = {"recipe": [], "tuned": []}
        for seed in arguments.seeds:
            for name, config in (("recipe", recipe), ("tuned", Path(scratch, "tuned", "best.yaml"))):
                figures = score_recipe(config, train, test, seed)
                scored[name].append({**figures, "test_texts": len(read_csv(test)[1])})
                print(f"{name}, seed {seed}: {figures['accuracy']:.2%}", file=sys.stderr)
            made = harness.record(settings, {"search": kept, "scored": scored}, busy)  # after every seed, since a long run may be cut off
            records = harness.merge_records(arguments.results / "tune.json", [made])
    tables.show(tables.tuning(records))


if __name__ == "__main__":
    main()
