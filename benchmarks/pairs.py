"""Pairs of texts, "do both ask for the same?": test accuracy of our recipes beside a threshold of the cosine; prints only.

python benchmarks/pairs.py FOLDER banking77         # NAME_train.csv and NAME_test.csv; the folder of an encoder in MHA_MINILM

Half of the pairs have one label. Pairs of the training file train, and set the thresholds; those of the test file are scored once.
"""

import argparse
import csv
import os
import random
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from file_peers import read_csv
from sklearn.feature_extraction.text import TfidfVectorizer
from text_columns import score

from mha_cli.runtime.encoder_features import EncoderFeatures

Pair = tuple[str, str, str]


def pairs_of(path: Path, number: int, rng: random.Random) -> list[Pair]:
    """Pairs of texts in random order, half of them with one label."""
    by_label = defaultdict[str, list[str]](list)
    for text, label in zip(*read_csv(path), strict=True):
        by_label[label].append(text)
    labels = sorted(label for label, texts in by_label.items() if len(texts) > 1)
    pairs = [(*rng.sample(by_label[rng.choice(labels)], 2), "same") for _ in range(number // 2)]
    for _ in range(number - len(pairs)):
        one, other = rng.sample(labels, 2)
        pairs.append((rng.choice(by_label[one]), rng.choice(by_label[other]), "different"))
    rng.shuffle(pairs)
    return pairs


def by_threshold(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> float:
    """Test accuracy of the threshold of a similarity that is the best one on the training pairs; each is similarities and truths."""
    similarities, truths = train
    best = max(np.unique(similarities), key=lambda threshold: np.mean((similarities >= threshold) == truths))
    return float(np.mean((test[0] >= best) == test[1]))


def main() -> None:
    """Compare the ways on the sets that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--pairs", type=int, nargs=2, default=[3_000, 2_000], metavar="N", help="to learn from, and to score")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, encoder = random.Random(arguments.seed), EncoderFeatures(Path(os.environ["MHA_MINILM"]))
    for name in arguments.sets:
        parts = [
            pairs_of(arguments.folder / f"{name}_{part}.csv", n, rng) for part, n in zip(("train", "test"), arguments.pairs, strict=True)
        ]
        tf_idf = TfidfVectorizer(sublinear_tf=True).fit([text for pair in parts[0] for text in pair[:2]])
        for way, features in (("TF-IDF", tf_idf.transform), ("encoder", encoder)):
            found = []
            for pairs in parts:
                ones, others, labels = zip(*pairs, strict=True)
                product = features(ones) * features(others) if way == "encoder" else features(ones).multiply(features(others))
                found.append((np.asarray(product.sum(axis=1)).ravel(), np.array(labels) == "same"))
            print(f"{name}, threshold of the cosine, {way}: {by_threshold(*found):.2%}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"{part}.csv" for part in ("train", "test")]
            for file, pairs in zip(files, parts, strict=True):
                with file.open("w", encoding="utf-8", newline="") as opened:
                    csv.writer(opened).writerows([("one", "other", "label"), *pairs])
            encoders = f"model.pretrained={os.environ['MHA_MINILM']}"
            for way, blocks in {"recipe text": "", "frozen": "0", "fine-tuned": "all"}.items():
                settings = (encoders, f"training.trainable_blocks={blocks}") if blocks else ()
                accuracy = score(*files, ("one", "other"), "pretrained" if settings else "text", arguments.seed, *settings)
                print(f"{name}, {way}: {accuracy:.2%}", flush=True)


if __name__ == "__main__":
    main()
