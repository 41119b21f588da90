"""Texts in two columns: test accuracy by the title, by the body, and by both, beside LinearSVC on the joined text; prints only.

python benchmarks/text_columns.py FOLDER agnews debian           # NAME_train.csv and NAME_test.csv with title, body and label
"""

import argparse
import csv
import json
import tempfile
from pathlib import Path

import harness
from texts import score_peer

WAYS = {"title": ("title",), "body": ("body",), "both": ("title", "body")}


def score(train: Path, test: Path, columns: tuple[str, ...], config: str, seed: int, *more: str) -> float:
    """Test accuracy of a recipe that reads these columns."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        settings = [f"data.train={train}", f"data.text_column=[{', '.join(columns)}]", "data.label_column=label", f"seed={seed}", *more]
        options = [part for setting in settings for part in ("--set", setting)]
        harness.run_command(harness.mha_command("train", "--config", config, "--output", run, *options))
        scored = harness.run_command(harness.mha_command("evaluate", run, "--data", str(test), "--json"))
    return float(json.loads(scored.stdout)["accuracy"])


def with_joined(path: Path, folder: Path) -> Path:
    """A copy of a file with title and body as one text."""
    copy = folder / path.name
    with path.open(encoding="utf-8", newline="") as file, copy.open("w", encoding="utf-8", newline="") as joined:
        rows = [(f"{row['title']} {row['body']}", row["label"]) for row in csv.DictReader(file)]
        csv.writer(joined).writerows([("text", "label"), *rows])
    return copy


def main() -> None:
    """Compare the sets that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--config", default="text", help="recipe (text)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.sets:
        train, test = (arguments.folder / f"{name}_{part}.csv" for part in ("train", "test"))
        for way, columns in WAYS.items():
            print(f"{name}, {way}: {score(train, test, columns, arguments.config, arguments.seed):.2%}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            files = (with_joined(path, Path(folder)) for path in (train, test))
            print(f"{name}, LinearSVC on both: {score_peer('svm-both', *files, arguments.seed)['accuracy']:.2%}", flush=True)


if __name__ == "__main__":
    main()
