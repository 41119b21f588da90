"""Accuracy on any labelled texts: one recipe of ours, unchanged, and what a user would pick instead.

    python benchmarks/texts.py FOLDER --part held-out    # a fifth of every training file; what choices are made on
    python benchmarks/texts.py FOLDER --part test        # the test files: texts.json, texts.png and a table
    python benchmarks/texts.py FOLDER --part few         # the test files after 8 and 50 texts per class, another draw per seed

FOLDER holds NAME_train.csv and NAME_test.csv with columns `text` and `label`. Ours are trained by `mha train` and scored by `mha predict`,
a run per seed; every peer has a process of its own. Each run is written down as soon as it is over, and not run again unless the code, the
recipe or the texts have changed.
"""

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
from file_peers import compared, read_csv
from paired import compared_sets

OURS = "mha"
SYSTEMS = {
    "svm-words": "LinearSVC, words",
    "svm-characters": "LinearSVC, characters",
    "svm-both": "LinearSVC, words and characters",
    "nbsvm": "NB-SVM, 1–3-grams",
    "fasttext-5": "fastText, 5 epochs",
    "fasttext-25": "fastText, 25 epochs",
    "frozen": "MiniLM frozen, logistic regression",
    "fine-tuned": "MiniLM fine-tuned, torch",
    "setfit": "SetFit on MiniLM",
    "model2vec": "model2vec of MiniLM",
}
"""Names on the command line of `file_peers.py` or `sentence_peers.py`, and in tables; the family of a peer stands before the comma."""

SENTENCE_PEERS = ("setfit", "model2vec")  # peers of `sentence_peers.py`
ENCODERS = ("frozen", "fine-tuned", *SENTENCE_PEERS)  # peers that read a folder that the environment names (``MHA_MINILM``)
ONCE = ("svm-words", "svm-characters", "svm-both", "tfidf", "nbsvm", "frozen")
"""Peers that run once: their result does not depend on chance."""

RESULTS = {"test": "texts.json", "held-out": "texts-held-out.json", "few": "few-labels.json"}

HELD_OUT = 5  # one text in so many of each class is held out of a training file


def hold_out(path: Path, folder: Path) -> tuple[Path, Path]:
    """A training file in two parts, to learn from and to score, drawn class by class; every class keeps a text to learn from."""
    members = rows_by_class(path, seed=0)
    scored = {row for rows in members for row in rows[: len(rows) // HELD_OUT]}
    learnt = {row for rows in members for row in rows} - scored
    return copy_rows(path, learnt, folder / "train.csv"), copy_rows(path, scored, folder / "test.csv")


def draw(path: Path, size: int, seed: int, folder: Path) -> Path:
    """A training file of ``size`` texts per class, or all of a smaller class, from a larger file."""
    return copy_rows(path, {row for rows in rows_by_class(path, seed) for row in rows[:size]}, folder / "train.csv")


def rows_by_class(path: Path, seed: int) -> list[list[int]]:
    """The rows of every class of a file, in random order."""
    labels = read_csv(path)[1]
    order = np.random.default_rng(seed).permutation(len(labels)).tolist()
    return [[row for row in order if labels[row] == label] for label in sorted(set(labels))]


def copy_rows(path: Path, rows: set[int], part: Path) -> Path:
    """A file of some rows of another."""
    with part.open("w", encoding="utf-8", newline="") as file:
        kept = (pair for row, pair in enumerate(zip(*read_csv(path), strict=True)) if row in rows)
        csv.writer(file).writerows([("text", "label"), *kept])
    return part


def digest(paths: Iterable[Path]) -> str:
    """A short hash of files."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()[:16]


def sources(system: str | Path) -> list[Path]:
    """The files on which the result of a peer or of a recipe depends, besides the texts."""
    if isinstance(system, Path):
        return [system, *sorted((harness.ROOT / "mha_cli").rglob("*.py"))]
    own = "sentence_peers" if system in SENTENCE_PEERS else "encoder_peers"
    return [Path(__file__).with_name(f"{name}.py") for name in ("file_peers", "text_peers", own)]


def score_peer(peer: str, train: Path, test: Path, seed: int) -> dict[str, Any]:
    """Figures of a peer, trained and scored in a process of its own."""
    script = Path(__file__).with_name("sentence_peers.py" if peer in SENTENCE_PEERS else "file_peers.py")
    done = harness.run_command(harness.script_command(script, peer, str(train), str(test), "--seed", str(seed)))
    return json.loads(done.stdout.splitlines()[-1])


def score_recipe(recipe: Path, train: Path, test: Path, seed: int) -> dict[str, Any]:
    """Figures of our recipe: `mha train`, and `mha predict` for the answer to every text."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        trained = harness.train(recipe, run, ["data.source=files", f"data.train={train}", f"seed={seed}"])
        answered = harness.run_command(harness.mha_command("predict", "--checkpoint", str(run), "--input", str(test), "--json"))
    answers = [json.loads(line)["label"] for line in answered.stdout.rstrip("\n").split("\n")]
    return compared(read_csv(test)[1], answers) | {"wall_seconds": trained.seconds}


def jobs(systems: Sequence[str | Path], seeds: Sequence[int], is_drawn: bool = False) -> list[tuple[str | Path, int | None]]:
    """The runs on a set, seed by seed; systems that do not depend on chance run once, unless the texts are drawn by the seed."""
    seeded = [system for system in systems if is_drawn or system not in ONCE]
    return [*((system, None) for system in systems if system not in seeded), *((system, seed) for seed in seeds for system in seeded)]


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
    usual = [*(peer for peer in SYSTEMS if peer not in ENCODERS), OURS]
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, OURS], default=usual, help="all without an encoder by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of every system that depends on chance (0 1 2)")
    parser.add_argument("--per-class", type=int, nargs="+", default=[8, 50], metavar="N", help="texts per class of --part few (8 50)")
    recipes = [harness.ROOT / "configs" / "text.yaml"]
    parser.add_argument("--config", type=Path, nargs="+", default=recipes, help="our recipes (configs/text.yaml)")
    arguments = parser.parse_args()
    recipes, path = [recipe.resolve() for recipe in arguments.config], arguments.results / RESULTS[arguments.part]
    systems: list[str | Path] = [*(peer for peer in arguments.systems if peer != OURS), *(recipes if OURS in arguments.systems else [])]
    there = sorted(file.name.removesuffix("_train.csv") for file in arguments.folder.glob("*_train.csv"))
    if missing := sorted(set(arguments.sets or []) - set(there)):
        parser.error(f"no {missing[0]}_train.csv in {arguments.folder}; there is {', '.join(there) or 'none'}")
    is_few = arguments.part == "few"
    for name, size in ((name, size) for size in (arguments.per_class if is_few else [0]) for name in arguments.sets or there):
        whole, scored = (arguments.folder.resolve() / f"{name}_{part}.csv" for part in ("train", "test"))
        part = f"{size} per class" if is_few else arguments.part
        for system, seed in jobs(systems, arguments.seeds, is_few):
            title = f"{OURS} {system.stem}" if isinstance(system, Path) else SYSTEMS[system]
            settings = {"set": name, "part": part, "system": title, "seed": seed}
            made_of = digest([*sources(system), whole, scored])
            if any(done["settings"] == settings for done in without_outdated(path, settings, made_of)):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                train, test = whole, scored
                if is_few:
                    train = draw(whole, size, seed or 0, Path(scratch))
                elif part == "held-out":
                    train, test = hold_out(whole, Path(scratch))
                labels, busy = read_csv(train)[1], harness.busy_share()
                about = {"made_of": made_of, "classes": len(set(labels)), "train_texts": len(labels), "test_texts": len(read_csv(test)[1])}
                score = score_recipe if isinstance(system, Path) else score_peer
                figures = score(system, train, test, seed or 0)  # type: ignore[arg-type]
            harness.merge_records(path, [harness.record(settings, about | figures, busy)])
            told = f"{figures['accuracy']:.2%} in {tables.duration(figures['wall_seconds'])}"
            print(f"{name}, {part}, {title}, seed {seed}: {told}", file=sys.stderr)
    records, ours = harness.read_json(path), f"{OURS} {recipes[0].stem}"
    if is_few:
        tables.show(tables.few_labels(records))
    elif results := compared_sets(records, ours):
        plots.draw_texts(results, ours, path.with_suffix(".png"))
        tables.show(tables.texts(records, ours))


if __name__ == "__main__":
    main()
