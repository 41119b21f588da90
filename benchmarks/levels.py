"""Labels in levels: accuracy of each level beside a model of the coarse labels alone, and hierarchical F1; prints only.

python benchmarks/levels.py FOLDER trec50:":" sections:">"       # NAME_train.csv and NAME_test.csv, and what separates the levels
"""

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import harness
from file_peers import read_csv


def scored(train: Path, test: Path, seed: int, *settings: str) -> dict[str, Any]:
    """The figures of the recipe `text` on a test file."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        options = [part for setting in (f"data.train={train}", f"seed={seed}", *settings) for part in ("--set", setting)]
        harness.run_command(harness.mha_command("train", "--config", "text", "--output", run, *options))
        return dict(json.loads(harness.run_command(harness.mha_command("evaluate", run, "--data", str(test), "--json")).stdout))


def coarse(path: Path, separator: str, folder: Path) -> Path:
    """A copy of a file with the first level of each label."""
    copy = folder / path.name
    with copy.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [("text", "label"), *((text, label.split(separator)[0]) for text, label in zip(*read_csv(path), strict=True))]
        )
    return copy


def main() -> None:
    """Compare the sets that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME:SEPARATOR")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    for name, _, separator in (given.partition(":") for given in arguments.sets):
        files = [arguments.folder / f"{name}_{part}.csv" for part in ("train", "test")]
        for seed in arguments.seeds:
            found = scored(*files, seed, f"data.label_levels={separator}")["levels"]
            with tempfile.TemporaryDirectory() as folder:
                alone = scored(*(coarse(path, separator, Path(folder)) for path in files), seed)["accuracy"]
            by_level = ", ".join(f"level {level}: {accuracy:.2%}" for level, accuracy in enumerate(found["accuracy"], 1))
            f1 = f"hierarchical F1 {found['f1']:.4f} from {found['threshold']:.0%} on, of classes {found['f1_of_classes']:.4f}"
            print(f"{name}, seed {seed}, {by_level}; coarse labels alone {alone:.2%}; {f1}", flush=True)


if __name__ == "__main__":
    main()
