"""Shares and sets of labels on test files: how far shares are from the truth, and how often intervals and sets hold it; prints only.

python benchmarks/trust.py FOLDER trec6 ag                    # NAME_train.csv and NAME_test.csv, recipe `text`
python benchmarks/trust.py FOLDER ag --config recipe.yaml     # a copy of the recipe `pretrained` that names an encoder
python benchmarks/trust.py FOLDER ag --seeds 3 --runs RUNS    # three trainings; keep them in the folder RUNS, or take them from there

Shares: mixtures of 500 test texts, whose shares are drawn from a flat Dirichlet distribution, and texts from each class with replacement.
Sets: all test texts; and 20 times a random half of them as held-out texts, for the other half. With `pip install --no-deps quapy mapie`,
QuaPy's EMQ and MAPIE's smallest sets read the same probabilities.
"""

import argparse
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import harness
import numpy as np
from file_peers import read_csv

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.checkpoint.held_out import HeldOut, rounded
from mha_cli.runs import checkpoint_in
from mha_cli.runtime import shares
from mha_cli.runtime.label_sets import fit_label_sets
from mha_cli.runtime.probabilities import Scorer

MIXTURES, TEXTS, HALVES = 100, 500, 20
COVERAGES = (0.8, 0.9, 0.95)


def trained(name: str, seed: int, arguments: argparse.Namespace, runs: Path) -> Checkpoint:
    """The checkpoint of a run, which is trained unless it is there."""
    run = runs / f"{name}-{seed}"
    if not (run / "metrics.json").exists():
        options = ["--config", arguments.config, "--output", str(run), "--set", f"seed={seed}"]
        harness.run_command(harness.mha_command("train", *options, "--set", f"data.train={arguments.folder / f'{name}_train.csv'}"))
    return read_checkpoint(checkpoint_in(run))


def emq(probabilities: np.ndarray, prior: np.ndarray) -> np.ndarray | None:
    """QuaPy's shares, or None without QuaPy."""
    with suppress(ImportError):
        from quapy.method.aggregative import EMQ

        return np.asarray(EMQ.EM(prior, probabilities, epsilon=1e-7)[0])
    return None


def score_shares(name: str, model: Checkpoint, probabilities: np.ndarray, truth: np.ndarray) -> None:
    """Print the mean absolute errors of shares, in points, and how often their intervals hold the truth."""
    rng, classes = np.random.default_rng(0), probabilities.shape[1]
    rows_of = [np.flatnonzero(truth == label) for label in range(classes)]
    errors, held, widths, from_quapy = dict[str, list[float]](), [], [], [0.0]
    for _ in range(MIXTURES):
        wanted = rng.dirichlet(np.ones(classes)) * [len(rows) > 0 for rows in rows_of]
        numbers = rng.multinomial(TEXTS, wanted / wanted.sum())
        rows = np.concatenate([rng.choice(of_class, number) for of_class, number in zip(rows_of, numbers, strict=True) if number])
        real, given = numbers / TEXTS, probabilities[rows]
        estimator = shares.ShareEstimator(model)
        estimator.add(given)
        found = {each.name: each for each in estimator.groups()[0].classes}
        each_class = [found[label] for label in model.class_names]
        ours = np.array([each.share for each in each_class])
        low, high = np.array([each.interval for each in each_class]).T
        counted = np.array([each.counted for each in each_class]) / TEXTS
        for way, shown in (("counting", counted), ("mean probability", given.mean(axis=0)), ("ours", ours)):
            errors.setdefault(way, []).append(100 * float(np.abs(shown - real).mean()))
        held.append(((low <= real + 1e-9) & (real <= high + 1e-9)).mean())
        widths.append((high - low).mean())
        known = shares._probabilities(shares._logits(model.held_out.probabilities))
        prior = shares._prior(known, np.ones(len(known)))
        if (theirs := emq(shares._probabilities(shares._logits(rounded(given))), prior)) is not None:
            from_quapy.append(float(np.abs(theirs - ours).max()))
    means = {way: np.mean(values) for way, values in errors.items()}
    print(
        f"{name}: shares, error in points: {', '.join(f'{way} {mean:.2f}' for way, mean in means.items())} "
        f"({means['ours'] / means['counting']:.2f} of counting); intervals hold {np.mean(held):.1%}, "
        f"{100 * np.mean(widths):.1f} points wide; largest difference from QuaPy {max(from_quapy):.1e}",
        flush=True,
    )


class _Given:
    """A classifier for MAPIE that gives back the probabilities that it is given."""

    def __init__(self, classes: int) -> None:
        self.classes_ = np.arange(classes)

    def fit(self, probabilities: np.ndarray, labels: np.ndarray) -> "_Given":
        """Nothing to fit."""
        return self

    def predict_proba(self, probabilities: np.ndarray) -> np.ndarray:
        """The probabilities."""
        return probabilities

    def predict(self, probabilities: np.ndarray) -> np.ndarray:
        """The most probable classes."""
        return probabilities.argmax(axis=1)


def mapie_size(held_out: HeldOut, probabilities: np.ndarray, coverage: float) -> str:
    """The mean size of MAPIE's smallest sets (LAC) on the same probabilities, in words."""
    with suppress(ImportError):
        from mapie.classification import SplitConformalClassifier

        given = _Given(probabilities.shape[1])
        known = held_out.probabilities.astype(np.float64)
        made = SplitConformalClassifier(given, confidence_level=coverage, conformity_score="lac", prefit=True)
        made.conformalize(known / known.sum(axis=1, keepdims=True), held_out.labels)
        sets = made.predict_set(probabilities / probabilities.sum(axis=1, keepdims=True))[1][:, :, 0]
        return f"; MAPIE {sets.sum(axis=1).mean():.2f}"
    return ""


def score_sets(name: str, model: Checkpoint, probabilities: np.ndarray, truth: np.ndarray) -> None:
    """Print coverage and size of sets for new texts of known classes."""
    known = truth >= 0
    probabilities, truth = rounded(probabilities[known]), truth[known]
    rows, rng = np.arange(len(truth)), np.random.default_rng(0)
    for coverage in COVERAGES:
        sets = fit_label_sets(model, coverage)
        members, by_threshold = sets.members(probabilities), probabilities >= sets.thresholds
        halves = []
        for _ in range(HALVES):
            order = rng.permutation(rows)
            held_out, others = order[::2], order[1::2]
            of_half = fit_label_sets(replace(model, held_out=HeldOut(probabilities[held_out], truth[held_out])), coverage)
            halves.append((probabilities[others] >= of_half.thresholds)[np.arange(len(others)), truth[others]].mean())
        print(
            f"{name}: sets for {coverage:.0%}: covered {members[rows, truth].mean():.1%}, {members.sum(axis=1).mean():.2f} labels, "
            f"one for {(members.sum(axis=1) == 1).mean():.1%}; with empty sets covered {by_threshold[rows, truth].mean():.1%}, "
            f"{by_threshold.sum(axis=1).mean():.2f} labels{mapie_size(model.held_out, probabilities, coverage)}; "
            f"{HALVES} halves of the test file: covered {np.mean(halves):.1%}",
            flush=True,
        )


def main() -> None:
    """Train on the sets that the arguments name, and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--config", default="text", help="recipe to train (text)")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="folder of the runs, which are kept")
    parser.add_argument("--part", choices=("shares", "sets"), help="print one part only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.sets:
            texts, labels = read_csv(arguments.folder / f"{name}_test.csv")
            for seed in range(arguments.seeds):
                model = trained(name, seed, arguments, arguments.runs or Path(folder))
                truth = np.array([model.class_names.index(label) if label in model.class_names else -1 for label in labels])
                probabilities = Scorer(model).score_each(model.text_pipeline.encode_all(texts))
                accuracy, number = (probabilities.argmax(axis=1) == truth).mean(), len(model.held_out.labels)
                print(f"{name}, seed {seed}: held-out texts {number:,}, accuracy {accuracy:.2%}", flush=True)
                if arguments.part != "sets":
                    score_shares(name, model, probabilities, truth)
                if arguments.part != "shares":
                    score_sets(name, model, probabilities, truth)


if __name__ == "__main__":
    main()
