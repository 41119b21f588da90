"""The classifiers that a user would pick instead, on CSV files of any language: each in a process of its own.

    python benchmarks/file_peers.py svm-both TRAIN.csv TEST.csv       # right answers, macro F1 and seconds as JSON

They read columns `text` and `label`. What a word is follows from the script, so that each gets the tokens that suit it. LinearSVC
chooses its C; fastText runs with few epochs and with many, at a learning rate without which few teach it nothing.
"""

import argparse
import csv
import json
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from paired import packed
from text_peers import FastText, Labels, NbSvm, Peer

STARTED = time.perf_counter()
"""The job's first moment; what takes long to import is imported in the functions, and counts."""

LETTERS, SPACES, CHARACTERS = r"[^\W_]+|[^\w\s]", r"\S+", r"\S"
"""What a word can be: a run of letters and digits, or one mark; what stands between spaces; a character."""

WITHOUT_SPACES = ("CJK ", "HIRAGANA ", "KATAKANA ", "THAI ", "LAO ", "KHMER ", "MYANMAR ")
"""How the Unicode names of characters begin in scripts that do not put spaces between words."""

MOST_CLASSES_TO_VALIDATE = 20
"""Classes up to which C is chosen by cross-validation."""


def words_pattern(texts: Sequence[str]) -> str:
    """The regular expression of a word in the script that most of the texts are in.

    Where letters carry combining marks, as in Devanagari, runs of letters would break words apart: these are told by spaces.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    letters = {character: count for character, count in counts.items() if character.isalpha()}
    unspaced = sum(count for character, count in letters.items() if unicodedata.name(character, "").startswith(WITHOUT_SPACES))
    marks = sum(count for character, count in counts.items() if unicodedata.category(character) in ("Mn", "Mc"))
    if 2 * unspaced > sum(letters.values()):
        return CHARACTERS
    return SPACES if 20 * marks > sum(letters.values()) else LETTERS


class LinearSvc:
    """Linear support vectors on TF-IDF, term frequencies on a log scale; C by threefold cross-validation where classes are few.

    Args:
        features: ``words`` (1- and 2-grams), ``characters`` (2- to 5-grams inside words; 1- to 3-grams in scripts without spaces) or
            ``both``.
        pattern: regular expression of a word.
    """

    def __init__(self, features: str, pattern: str) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_union

        words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=pattern, sublinear_tf=True)
        analyzer, lengths = ("char", (1, 3)) if pattern == CHARACTERS else ("char_wb", (2, 5))
        characters = TfidfVectorizer(analyzer=analyzer, ngram_range=lengths, sublinear_tf=True)
        self.vectorizer = {"words": words, "characters": characters, "both": make_union(words, characters)}[features]

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        from sklearn.model_selection import GridSearchCV
        from sklearn.svm import LinearSVC

        self.model: Any = LinearSVC(C=1.0)
        # In this process alone: starting others costs more than they save on so little.
        if len(np.unique(labels)) <= MOST_CLASSES_TO_VALIDATE:
            self.model = GridSearchCV(self.model, {"C": [0.1, 0.3, 1.0, 3.0]}, cv=3)
        self.model.fit(self.vectorizer.fit_transform(texts), labels)

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return self.model.predict(self.vectorizer.transform(texts))


class SubwordFastText(FastText):
    """fastText with hashed word bigrams and character 2- to 5-grams, its width and table by default.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information".
    """

    def __init__(self, seed: int, epochs: int) -> None:
        super().__init__(seed)
        del self.options["dim"]
        self.options |= {"minn": 2, "maxn": 5, "epoch": epochs}

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts, in an order drawn at random: fastText keeps that of the file, and unlearns in one that is sorted by class."""
        order = np.random.default_rng(self.options["seed"]).permutation(len(texts))
        super().fit([texts[row] for row in order], labels[order])


class OfWords:
    """A peer that reads tokens separated by spaces, on texts as they are written."""

    def __init__(self, peer: Peer, pattern: str) -> None:
        self.peer, self.find_all = peer, re.compile(pattern).findall

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        self.peer.fit(self._spaced(texts), labels)

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return self.peer.predict(self._spaced(texts))

    def _spaced(self, texts: Sequence[str]) -> list[str]:
        return [" ".join(self.find_all(text.lower())) for text in texts]


PEERS: dict[str, Callable[[str, int], Peer]] = {
    "svm-words": lambda pattern, _: LinearSvc("words", pattern),
    "svm-characters": lambda pattern, _: LinearSvc("characters", pattern),
    "svm-both": lambda pattern, _: LinearSvc("both", pattern),
    "nbsvm": lambda pattern, seed: OfWords(NbSvm(seed), pattern),
    "fasttext-5": lambda pattern, seed: OfWords(SubwordFastText(seed, 5), pattern),
    "fasttext-25": lambda pattern, seed: OfWords(SubwordFastText(seed, 25), pattern),
    "frozen": lambda _, seed: import_module("encoder_peers").Frozen(seed),  # torch: for these alone
    "fine-tuned": lambda _, seed: import_module("encoder_peers").FineTuned(seed),
}
"""Every peer by its name on the command line, from the pattern of words and a seed."""


def read_csv(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def compared(truth: Sequence[str], answers: Sequence[str]) -> dict[str, Any]:
    """Which answers are right, accuracy and macro F1."""
    from sklearn.metrics import f1_score

    right = np.array(truth) == np.array(answers)
    macro_f1 = float(f1_score(truth, answers, average="macro", zero_division=0.0))
    return {"accuracy": float(right.mean()), "macro_f1": macro_f1, "right": packed(right)}


def score(name: str, train: Path, test: Path, seed: int) -> dict[str, Any]:
    """Train a peer on one file and score the other: the same, and seconds of reading and training."""
    texts, label_names = read_csv(train)
    class_names, labels = np.unique(label_names, return_inverse=True)
    peer = PEERS[name](words_pattern(texts), seed)
    peer.fit(texts, labels)
    seconds = time.perf_counter() - STARTED
    texts, truth = read_csv(test)
    return compared(truth, class_names[peer.predict(texts)]) | {"wall_seconds": seconds}


def main() -> None:
    """Print the figures of one peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(json.dumps(score(arguments.peer, arguments.train, arguments.test, arguments.seed)))


if __name__ == "__main__":
    main()
