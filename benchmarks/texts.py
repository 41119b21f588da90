"""Accuracy on any labelled texts: one recipe of ours, unchanged, and what a user would pick instead.

    python benchmarks/texts.py FOLDER --part held-out    # a fifth of every training file; what choices are made on
    python benchmarks/texts.py FOLDER --part test        # the test files: texts.json, texts.png and a table

FOLDER holds NAME_train.csv and NAME_test.csv with columns `text` and `label`. Ours are trained by `mha train` and scored by `mha evaluate`,
a run per seed; every peer has a process of its own. Each run is written down as soon as it is over, and not run again unless the code, the
recipe or the texts have changed.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
import plots
import tables
from file_peers import PEERS, read_csv
from paired import compared_sets, packed

OURS = "mha"
SYSTEMS = {
    "svm-words": "LinearSVC, words",
    "svm-characters": "LinearSVC, characters",
    "svm-both": "LinearSVC, words and characters",
    "nbsvm": "NB-SVM, 1–3-grams",
    "fasttext-5": "fastText, 5 epochs",
    "fasttext-25": "fastText, 25 epochs",
}
"""Names on the command line of `file_peers.py`, and in tables; the family of a peer stands before the comma."""

SEEDED = (OURS, "fasttext-5", "fasttext-25")
"""Systems whose result depends on chance; the others run once."""

RESULTS = {"test": "texts.json", "held-out": "texts-held-out.json"}

HELD_OUT = 5
"""One text in so many of each class is held out of a training file."""

LARGEST_GAP = 0.005
"""Between the accuracies of `mha evaluate` and of `mha predict`, which round differently."""


def hold_out(path: Path, folder: Path) -> tuple[Path, Path]:
    """A training file in two parts, to learn from and to score, drawn class by class; every class keeps a text to learn from."""
    texts, labels = read_csv(path)
    order = np.random.default_rng(0).permutation(len(texts))
    members = {label: [row for row in order if labels[row] == label] for label in sorted(set(labels))}
    scored = {row for rows in members.values() for row in rows[: len(rows) // HELD_OUT]}
    parts = folder / "train.csv", folder / "test.csv"
    for part, is_scored in zip(parts, (False, True), strict=True):
        with part.open("w", encoding="utf-8", newline="") as file:
            rows = ((text, label) for row, (text, label) in enumerate(zip(texts, labels, strict=True)) if (row in scored) == is_scored)
            csv.writer(file).writerows([("text", "label"), *rows])
    return parts


def digest(paths: Iterable[Path]) -> str:
    """A short hash of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def sources(system: str, recipe: Path) -> list[Path]:
    """The files on which a system's result depends, besides the texts."""
    if system == OURS:
        return [recipe, *sorted((harness.ROOT / "mha_cli").rglob("*.py"))]
    return [Path(__file__).with_name(name) for name in ("file_peers.py", "text_peers.py")]


def score_peer(peer: str, train: Path, test: Path, seed: int) -> dict[str, Any]:
    """Figures of a peer, trained and scored in a process of its own."""
    script = Path(__file__).with_name("file_peers.py")
    done = harness.run_command(harness.script_command(script, peer, str(train), str(test), "--seed", str(seed)))
    return json.loads(done.stdout.splitlines()[-1])


def score_recipe(recipe: Path, train: Path, test: Path, seed: int) -> dict[str, Any]:
    """Figures of our recipe: `mha train`, `mha evaluate`, and `mha predict` for the answer to every text.

    Raises:
        RuntimeError: a command failed, or the last two do not agree.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        trained = harness.train(recipe, run, ["data.source=files", f"data.train={train}", f"seed={seed}"])
        scored = harness.run_command(harness.mha_command("evaluate", str(run), "--data", str(test), "--json"))
        answered = harness.run_command(harness.mha_command("predict", "--checkpoint", str(run), "--input", str(test), "--json"))
    evaluation = json.loads(scored.stdout)
    answers = [json.loads(line)["label"] for line in answered.stdout.rstrip("\n").split("\n")]
    right = np.array(answers) == np.array(read_csv(test)[1])
    if abs(right.mean() - evaluation["accuracy"]) > LARGEST_GAP:
        raise RuntimeError(f"mha predict is right on {right.mean():.2%} of {test}, mha evaluate says {evaluation['accuracy']:.2%}")
    return {
        "accuracy": evaluation["accuracy"],
        "macro_f1": evaluation["macro_f1"],
        "right": packed(right),
        "wall_seconds": trained.seconds,
        "evaluate_seconds": scored.seconds,
    }


def jobs(systems: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, int | None]]:
    """The runs on a set, seed by seed; systems that do not depend on chance run once."""
    once = [(system, None) for system in systems if system not in SEEDED]
    return [*once, *((system, seed) for seed in seeds for system in systems if system in SEEDED)]


def without_outdated(path: Path, settings: Mapping[str, Any], made_of: str) -> list[harness.Record]:
    """The records of a file, from which runs of the same system on other code or other texts are removed."""

    def is_outdated(old: harness.Record) -> bool:
        same = all(old["settings"][key] == settings[key] for key in ("set", "part", "system"))
        return same and old["figures"]["made_of"] != made_of

    records = [old for old in harness.read_json(path) or [] if not is_outdated(old)]
    harness.write_record(path, records)
    return records


def main() -> None:
    """Run the systems that the arguments name on the sets that they name."""
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=Path, help="of NAME_train.csv and NAME_test.csv")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="all in the folder by default")
    part = "what is scored: a fifth held out of each training file (held-out), or the test files"
    parser.add_argument("--part", choices=RESULTS, default="held-out", help=part)
    parser.add_argument("--systems", nargs="+", choices=[*PEERS, OURS], default=[*PEERS, OURS], help="all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of every system that depends on chance (0 1 2)")
    parser.add_argument("--config", type=Path, default=harness.ROOT / "configs" / "text.yaml", help="our recipe (configs/text.yaml)")
    arguments = parser.parse_args()
    recipe, path = arguments.config.resolve(), arguments.results / RESULTS[arguments.part]
    if OURS in arguments.systems and not recipe.exists():
        parser.error(f"{recipe}: no such file")
    there = sorted(file.name.removesuffix("_train.csv") for file in arguments.folder.glob("*_train.csv"))
    if missing := sorted(set(arguments.sets or []) - set(there)):
        parser.error(f"no {missing[0]}_train.csv in {arguments.folder}; there is {', '.join(there) or 'none'}")
    ours = f"{OURS} {recipe.stem}"
    for name in arguments.sets or there:
        with tempfile.TemporaryDirectory() as scratch:
            train, test = (arguments.folder.resolve() / f"{name}_{part}.csv" for part in ("train", "test"))
            if arguments.part == "held-out":
                train, test = hold_out(train, Path(scratch))
            labels, num_scored = read_csv(train)[1], len(read_csv(test)[1])
            for system, seed in jobs(arguments.systems, arguments.seeds):
                settings = {"set": name, "part": arguments.part, "system": SYSTEMS.get(system, ours), "seed": seed}
                about = {"made_of": digest([*sources(system, recipe), train, test])}
                if any(done["settings"] == settings for done in without_outdated(path, settings, about["made_of"])):
                    continue
                about |= {"classes": len(set(labels)), "train_texts": len(labels), "test_texts": num_scored}
                busy = harness.busy_share()
                scored = score_recipe(recipe, train, test, seed or 0) if system == OURS else score_peer(system, train, test, seed or 0)
                harness.merge_records(path, [harness.record(settings, about | scored, busy)])
                told = f"{scored['accuracy']:.2%} in {tables.duration(scored['wall_seconds'])}"
                print(f"{name}, {settings['system']}, seed {seed}: {told}", file=sys.stderr)
    records = harness.read_json(path)
    if compared := compared_sets(records, ours):
        plots.draw_texts(compared, ours, path.with_suffix(".png"))
        tables.show(tables.texts(records, ours))


if __name__ == "__main__":
    main()
