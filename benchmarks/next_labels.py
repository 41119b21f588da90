"""How many labels are saved by the choice of `mha data`; prints only.

    python benchmarks/next_labels.py FOLDER trec6 ag banking77    # NAME_train.csv to choose from, NAME_test.csv to score

After 100 texts drawn at random, each training has 50 more, which the model before it would have labelled next, or 100 more at random.
"""

import argparse
from pathlib import Path

import harness  # noqa: F401 (first: it settles whose mha_cli is imported)
import numpy as np
from file_peers import read_csv

import mha_cli as mha

FIRST, MOST = 100, 600
STEPS = {"random": 100, "next": 50}


def accuracies(folder: Path, name: str, system: str, draw: int) -> list[float]:
    """Accuracy on the test file after each training, in [0, 1]."""
    (texts, labels), (test_texts, truth) = (read_csv(folder / f"{name}_{part}.csv") for part in ("train", "test"))
    order, found = np.random.default_rng(draw).permutation(len(texts)).tolist(), list[float]()
    rows, others = order[:FIRST], order[FIRST:]
    while True:
        model = mha.train("text", [texts[row] for row in rows], [labels[row] for row in rows], seed=draw)
        found.append(float(np.mean([one.label == label for one, label in zip(model.predict(test_texts), truth, strict=True)])))
        if len(rows) >= MOST:
            return found
        chosen = list(range(STEPS[system]))
        if system == "next":
            chosen = mha.next_texts(model, [texts[row] for row in others], STEPS[system], known=[texts[row] for row in rows])
        rows = rows + [others[at] for at in chosen]
        others = [row for row in others if row not in set(rows)]


def main() -> None:
    """Choose both ways on the sets that the arguments name, draw by draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--draws", type=int, default=5, help="how often the first texts are drawn (5)")
    arguments = parser.parse_args()
    for name in arguments.sets:
        means = {}
        for system, step in STEPS.items():
            found = np.array([accuracies(arguments.folder, name, system, draw) for draw in range(arguments.draws)])
            sizes, means[system] = range(FIRST, MOST + 1, step), found.mean(axis=0)
            rows = zip(sizes, means[system], found.std(axis=0, ddof=1), strict=True)
            print(f"{name}, {system}, {', '.join(f'{size}: {mean:.1%} ± {spread:.1%}' for size, mean, spread in rows)}", flush=True)
        goal = means["random"][-1]
        needed = np.interp(goal, np.maximum.accumulate(means["next"]), sizes, right=np.inf)
        print(f"{name}: {needed:.0f} labels chosen with --next give the {goal:.1%} of {MOST} at random", flush=True)


if __name__ == "__main__":
    main()
