"""How well a score tells texts of no class from texts of the classes; prints only.

    python benchmarks/none_of_these.py FOLDER --runs RUNS                                        # recipe text
    MHA_MINILM=encoder python benchmarks/none_of_these.py FOLDER --runs RUNS --recipes frozen    # or pretrained, which is fine-tuned

FOLDER holds NAME_train.csv and NAME_test.csv. A draw of classes per seed is left out of the training: their test texts are "none". With
--with-none, half of these classes are in the training, together as the one class `none`, and the other half is in the test. RUNS keeps
the trained models. `caught` is the share of texts of no class with a lower score than 95 % of the test texts of the classes. `answered`
and `caught (held-out)` are by the threshold of the checkpoint's held-out texts.
"""

import argparse
import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
from file_peers import read_csv

from mha_cli.arrays import Array, Floats
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.runtime.forward import ForwardPass, linear_part
from mha_cli.runtime.none_of_these import none_of_these
from mha_cli.runtime.probabilities import Scorer

LEFT_OUT = {"banking77": 26, "trec50": 17, "trec6": 1, "ag": 1}
"""Classes that are left out of each set."""

NONE, ANSWERED, NEIGHBOURS, HEAT = "none", 0.95, 5, 3
RECIPES = {"text": ("text", []), "pretrained": ("pretrained", []), "frozen": ("pretrained", ["training.trainable_blocks=0"])}


def divide(train: Path, name: str, seed: int, with_none: bool) -> tuple[set[str], set[str]]:
    """The classes that are left out, and those of them whose texts are `none` in the training."""
    classes = sorted(set(read_csv(train)[1]))
    drawn = np.random.default_rng(seed).permutation(classes)[: LEFT_OUT[name]].tolist()
    return set(drawn), set(drawn[::2]) if with_none else set()


def write_part(texts: Sequence[str], labels: Sequence[str], path: Path) -> Path:
    """A training file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    return path


def logits_of(tokens: Array, weights: Any, config: Any, encoder: Any = None, pieces: Any = None) -> Array:
    """The composed logits, (B, U)."""
    forward = ForwardPass(weights, config)
    features = forward.features(tokens if pieces is None else pieces, encoder)
    if config.linear:
        features = np.concatenate([features, forward.linear_logits(tokens)], axis=1)
    return features @ forward.weights["classifier/kernel"] + forward.weights["classifier/bias"]


class Scores:
    """All scores of texts by a checkpoint; a high score is a text of the classes.

    Args:
        train: texts of the training and their classes, for distances.
    """

    def __init__(self, checkpoint: Checkpoint, train: tuple[Sequence[str], Sequence[str]]) -> None:
        self.checkpoint, self.scorer = checkpoint, Scorer(checkpoint)
        self.real = np.array([name != NONE for name in checkpoint.class_names])
        self.train, labels = self.features(train[0]), np.array(train[1])
        self.means = np.stack([self.train[labels == name].mean(axis=0) for name in np.unique(labels)])
        within = self.train - self.means[np.unique(labels, return_inverse=True)[1]]
        covariance = np.cov(within.T) + 1e-3 * np.trace(np.cov(within.T)) / within.shape[1] * np.eye(within.shape[1])
        self.whitening = np.linalg.cholesky(np.linalg.inv(covariance))

    def features(self, texts: Sequence[str]) -> Floats:
        """Pooled features, (N, D)."""
        return self.scorer.features(self.checkpoint.text_pipeline.encode_all(texts))

    def __call__(self, texts: Sequence[str]) -> dict[str, Floats]:
        """Scores by their names, (N,) each."""
        encoded = self.checkpoint.text_pipeline.encode_all(texts)
        lengths = np.array([text.input_length for text in encoded], np.int64)

        def score(forward: Callable[..., Any], width: int) -> Floats:
            return self.scorer._score(lengths, lambda row: (encoded[row].tokens, encoded[row].pieces), forward=forward, width=width)

        units = len(self.checkpoint.weights["classifier/bias"])
        logits, linear = score(logits_of, units).astype(np.float64), score(linear_part, units).astype(np.float64)
        linear += self.checkpoint.weights["classifier/bias"]
        given = self.scorer.score_each(encoded).astype(np.float64)
        ranked = np.sort(given[:, self.real], axis=1)
        none = given[:, ~self.real].sum(axis=1)
        features, whitened_means = self.features(texts), self.means @ self.whitening
        unit, train = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (features, self.train))
        mahalanobis = np.min(np.sum(((features @ self.whitening)[:, None] - whitened_means) ** 2, axis=2), axis=1)
        entropy = (given * np.log(np.maximum(given, 1e-12))).sum(axis=1)
        energies = {f"energy, temperature {t:g}": partial(np.logaddexp.reduce, logits[:, self.real] / t, axis=1) for t in (1, HEAT)}
        heated = given ** (1 / HEAT)
        return {
            "largest probability": ranked[:, -1],
            f"largest probability, temperature {HEAT}": heated[:, self.real].max(axis=1) / heated.sum(axis=1),
            **{name: energy() for name, energy in energies.items()},
            "largest logit": logits[:, self.real].max(axis=1),
            "largest linear logit": linear[:, self.real].max(axis=1),
            "sum of linear sigmoids": (1 / (1 + np.exp(-linear[:, self.real]))).sum(axis=1),
            "entropy": entropy,
            "generalized entropy": -(given**0.1 * (1 - given) ** 0.1).sum(axis=1),
            "margin": ranked[:, -1] - ranked[:, -2],
            "class distance (Mahalanobis)": -mahalanobis,
            f"distance to text {NEIGHBOURS}": np.sort(unit @ train.T, axis=1)[:, -NEIGHBOURS],
            **({"probability of none": 1 - none} if none.any() else {}),
        }


def area(of_classes: Floats, of_none: Floats) -> float:
    """AUROC, in [0, 1]: the share of pairs in which the text of a class scores higher."""
    ranks = np.searchsorted(np.sort(of_none), of_classes, "left") + np.searchsorted(np.sort(of_none), of_classes, "right")
    return float(ranks.mean() / 2 / len(of_none))


def print_rules(checkpoint: Checkpoint, of_classes: Sequence[str], learnt: Sequence[str], others: Sequence[str]) -> None:
    """Shares without a label, by mha's rule, and by the entropy alone after the probability of none is spread over the classes."""
    kept, scorer = none_of_these(replace(checkpoint, config=checkpoint.config.changed(data={"none_label": NONE}))), Scorer(checkpoint)
    assert kept and checkpoint.held_out

    def entropy(given: Floats) -> Floats:
        spread = given[:, kept.is_class] + given[:, ~kept.is_class].sum(axis=1, keepdims=True) / kept.is_class.sum()
        return -(spread * np.log(np.maximum(spread, 1e-12))).sum(axis=1)

    most = np.quantile(entropy(checkpoint.held_out.probabilities[kept.is_class[checkpoint.held_out.labels]]), ANSWERED)
    for name, texts in (("of the classes", of_classes), ("of no class, as learnt", learnt), ("of no class, others", others)):
        given = scorer.score_each(checkpoint.text_pipeline.encode_all(texts))
        print(f"{name:24}{100 * kept.are_none(given).mean():6.1f} {100 * (entropy(given) > most).mean():6.1f} % without a label")


def measure(folder: Path, runs: Path, name: str, seed: int, recipe: str, with_none: bool) -> dict[str, list[float]]:
    """AUROC, caught, answered and caught by the held-out threshold, for each score of one run, in %."""
    texts, labels = read_csv(folder / f"{name}_train.csv")
    left_out, given = divide(folder / f"{name}_train.csv", name, seed, with_none)
    rows = [(text, NONE if label in given else label) for text, label in zip(texts, labels, strict=True) if label not in left_out - given]
    train: Any = tuple(zip(*rows, strict=True))
    run = runs / f"{name}-{recipe}-{seed}{'-none' if with_none else ''}"
    if not (run / "metrics.json").exists():
        base, settings = RECIPES[recipe]
        file = write_part(*train, runs / f"{run.name}.csv")
        encoder = [f"model.pretrained={os.environ['MHA_MINILM']}"] if base == "pretrained" else []
        harness.train(base, run, [f"data.train={file}", f"seed={seed}", *encoder, *settings])
    checkpoint = read_checkpoint(run / "checkpoint.keras")
    tested = list(zip(*read_csv(folder / f"{name}_test.csv"), strict=True))
    of_classes = [text for text, label in tested if label not in left_out]
    of_none = [text for text, label in tested if label in left_out - given]
    if given:
        print_rules(checkpoint, of_classes, [text for text, label in tested if label in given], of_none)
    score = Scores(checkpoint, train)
    inside, outside = score(of_classes), score(of_none)
    held_out = checkpoint.held_out
    assert held_out
    in_classes = held_out.probabilities[score.real[held_out.labels]].astype(np.float64)
    lowest = {
        "largest probability": np.quantile(in_classes[:, score.real].max(axis=1), 1 - ANSWERED),
        "entropy": np.quantile((in_classes * np.log(np.maximum(in_classes, 1e-12))).sum(axis=1), 1 - ANSWERED),
    }
    figures = {}
    for kind in inside:
        least = np.quantile(inside[kind], 1 - ANSWERED)
        figures[kind] = [area(inside[kind], outside[kind]), float((outside[kind] < least).mean())]
        if kind in lowest:
            figures[kind] += [float((inside[kind] >= lowest[kind]).mean()), float((outside[kind] < lowest[kind]).mean())]
    return {kind: [100 * value for value in values] for kind, values in figures.items()}


def main() -> None:
    """Train what is missing, and print the mean of the draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of NAME_train.csv and NAME_test.csv")
    parser.add_argument("--runs", type=Path, required=True, help="folder for the trained models, which are not trained again")
    parser.add_argument("--sets", nargs="+", choices=list(LEFT_OUT), default=list(LEFT_OUT), metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the draws (0 1 2)")
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=["text"])
    parser.add_argument("--with-none", action="store_true", help="train with texts of half of the classes that are left out, as none")
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    for recipe in arguments.recipes:
        for name in arguments.sets:
            draws = [measure(arguments.folder, arguments.runs, name, seed, recipe, arguments.with_none) for seed in arguments.seeds]
            print(f"\n{name}, {recipe}, seeds {arguments.seeds}: AUROC, caught, answered and caught (held-out)")
            for kind in draws[0]:
                values = np.array([draw[kind] for draw in draws])
                each = "  ".join(" ".join(f"{value:.1f}" for value in row) for row in values)
                print(f"{kind:36}{' '.join(f'{value:6.1f}' for value in values.mean(axis=0))}   ({each})", flush=True)


if __name__ == "__main__":
    main()
