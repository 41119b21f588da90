"""How many labels are saved by the choice of `mha data`; prints only.

    python benchmarks/next_labels.py FOLDER trec6 ag banking77    # NAME_train.csv to choose from, NAME_test.csv to score
    python benchmarks/next_labels.py FOLDER trec6 ag banking77 mr --first

After 100 texts drawn at random, each training has 50 more, which the model before it would have labelled next, or 100 more at random.
With --first no model is there: the texts that are labelled first, against texts drawn at random. A logistic regression of words learns
from both, or the recipe `text` with --recipe.
"""

import argparse
from pathlib import Path

import harness  # noqa: F401 (first: it settles whose mha_cli is imported)
import numpy as np
from file_peers import read_csv
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import mha_cli as mha
from mha_cli.config.settings import TextConfig
from mha_cli.labelling.first_texts import typical_texts
from mha_cli.text.tokenizer import make_tokenizer

FIRST, MOST = 100, 600
FIRST_SIZES = (24, 50, 100)
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


def first_accuracies(folder: Path, name: str, system: str, draw: int, with_recipe: bool) -> list[list[float]]:
    """Accuracy on the test file in [0, 1], and the number of classes found, for each of ``FIRST_SIZES``."""
    (texts, labels), (test_texts, truth) = (read_csv(folder / f"{name}_{part}.csv") for part in ("train", "test"))
    if system == "first":
        rows = typical_texts(texts, max(FIRST_SIZES), seed=draw)  # it chooses fewer texts as the first of more
    else:
        rows = np.random.default_rng(draw).permutation(len(texts)).tolist()
    tfidf, found = TfidfVectorizer(analyzer=make_tokenizer(TextConfig()), min_df=2, sublinear_tf=True).fit(texts), list[list[float]]()
    for size in FIRST_SIZES:
        given, answers = [texts[row] for row in rows[:size]], [labels[row] for row in rows[:size]]
        if with_recipe:
            predicted = [one.label for one in mha.train("text", given, answers, seed=draw).predict(test_texts)]
        else:
            model = LogisticRegression(C=10, class_weight="balanced", max_iter=1_000).fit(tfidf.transform(given), answers)
            predicted = model.predict(tfidf.transform(test_texts)).tolist()
        found.append([float(np.mean([one == label for one, label in zip(predicted, truth, strict=True)])), len(set(answers))])
    return found


def print_first(arguments: argparse.Namespace) -> None:
    """Mean and standard deviation of the accuracies with the first labels."""
    for name in arguments.sets:
        for system in ("random", "first"):
            found = np.array([first_accuracies(arguments.folder, name, system, draw, arguments.recipe) for draw in range(arguments.draws)])
            rows = zip(FIRST_SIZES, found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)
            shown = (f"{size}: {mean:.1%} ± {spread:.1%} ({classes:.1f} classes)" for size, (mean, classes), (spread, _) in rows)
            print(f"{name}, {system}, {', '.join(shown)}", flush=True)


def main() -> None:
    """Choose both ways on the sets that the arguments name, draw by draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--draws", type=int, default=5, help="how often the first texts are drawn (5)")
    parser.add_argument("--first", action="store_true", help="compare the texts that are labelled first, without a model")
    parser.add_argument("--recipe", action="store_true", help="with --first: train the recipe `text`")
    arguments = parser.parse_args()
    if arguments.first:
        return print_first(arguments)
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
