"""The classifiers that a user would pick instead: bags of n-grams, each trained on the official IMDB split in a process of its own.

    python benchmarks/text_peers.py nbsvm          # accuracy and seconds as JSON

The settings are those of the papers, or where these name none the best on 5,000 held-out training reviews. All three read the reviews
through our own data source and split them into the same tokens as our recipes: case folded, punctuation marks as tokens.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import TextConfig, TfdsData
from mha_cli.sources.opening import open_source
from mha_cli.system.processor import available_cores
from mha_cli.text.tokenizer import make_tokenizer

Labels = npt.NDArray[np.int64]
STARTED = time.perf_counter()
"""The job's first moment; what takes long to import is imported in the functions, and counts."""


class Peer(Protocol):
    """A classifier; classes are numbers from 0."""

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts whose tokens are separated by spaces."""

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""


class FastText:
    """fastText with hashed bigrams, 10 dimensions wide, 10 epochs.

    Source: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification"; width and bigrams are its table 1's.
    """

    def __init__(self, seed: int) -> None:
        self.options = {"dim": 10, "wordNgrams": 2, "epoch": 10, "lr": 0.5, "seed": seed, "thread": available_cores()}

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        import fasttext

        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.writelines(f"__label__{label} {text}\n" for text, label in zip(texts, labels, strict=True))
            file.flush()
            self.model = fasttext.train_supervised(file.name, verbose=0, **self.options)

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        names, _ = self.model.predict(list(texts))  # one text alone fails with NumPy 2
        return np.array([int(first.removeprefix("__label__")) for (first,) in names])


def tf_idf(seed: int) -> Peer:
    """Logistic regression on TF-IDF of all words and bigrams, term frequencies on a log scale."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32, **BY_SPACES)
    return make_pipeline(vectorizer, LogisticRegression(C=30.0, solver="liblinear", dual=True, max_iter=1000, random_state=seed))


class NbSvm:
    """Logistic regression on which words, bigrams and trigrams occur, each weighted by its naive-Bayes log-count ratio.

    For more than two classes there is one for every class against the rest, each with log-count ratios of its own.

    Source: Wang and Manning 2012, "Baselines and Bigrams", section 2.3, α = 1; with trigrams and logistic regression: Mesnil et al. 2015,
    "Ensemble of Generative and Discriminative Techniques for Sentiment Analysis of Movie Reviews", section 2.3.
    """

    def __init__(self, seed: int) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self.vectorizer = CountVectorizer(ngram_range=(1, 3), binary=True, dtype=np.float32, **BY_SPACES)
        self.seed = seed

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        occurs = self.vectorizer.fit_transform(texts)
        self.classes = np.unique(labels)
        told_apart = self.classes if len(self.classes) > 2 else self.classes[1:]
        self.log_ratios = [log_count_ratios(occurs, labels == label) for label in told_apart]
        self.models = [
            self._logistic_regression().fit(_weighted(occurs, log_ratios), labels == label)
            for label, log_ratios in zip(told_apart, self.log_ratios, strict=True)
        ]

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        occurs = self.vectorizer.transform(texts)
        pairs = zip(self.models, self.log_ratios, strict=True)
        scores = np.column_stack([model.decision_function(_weighted(occurs, log_ratios)) for model, log_ratios in pairs])
        return self.classes[scores.argmax(axis=1) if len(self.models) > 1 else (scores[:, 0] > 0).astype(int)]

    def _logistic_regression(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1.0, solver="liblinear", dual=True, max_iter=1000, random_state=self.seed)


def log_count_ratios(occurs: Any, of_class: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """How much more often every n-gram occurs in the texts of a class than in the others, as a log ratio of shares."""
    inside, outside = (1.0 + np.asarray(occurs[rows].sum(axis=0)).ravel() for rows in (of_class, ~of_class))
    return np.log(inside / inside.sum()) - np.log(outside / outside.sum())


def _weighted(occurs: Any, log_ratios: npt.NDArray[np.float64]) -> Any:
    return occurs.multiply(log_ratios.astype(np.float32)).tocsr()


BY_SPACES: dict[str, Any] = {"tokenizer": str.split, "token_pattern": None, "lowercase": False}
PEERS: dict[str, Callable[[int], Peer]] = {"fasttext": FastText, "tfidf": tf_idf, "nbsvm": NbSvm}
"""Every peer by its name on the command line."""


def read(data: TfdsData, split: str) -> tuple[list[str], Labels]:
    """The texts of a split, tokens separated by spaces, and their classes."""
    source, tokenize = open_source(data), make_tokenizer(TextConfig())
    assert source.class_names
    texts, labels = [], []
    for review in source.read(split):
        texts.append(" ".join(tokenize(review.text)))
        labels.append(source.class_names.index(review.label))
    return texts, np.array(labels)


def score(peer: Peer, data: TfdsData) -> dict[str, Any]:
    """Train on one split and score the other: accuracy and seconds."""
    texts, labels = read(data, data.train_split)
    peer.fit(texts, labels)
    trained = time.perf_counter()
    texts, labels = read(data, data.test_split)
    test_was_read = time.perf_counter()
    accuracy = float((peer.predict(texts) == labels).mean())
    return {"accuracy": accuracy, "wall_seconds": trained - STARTED, "scoring_seconds": time.perf_counter() - test_was_read}


def main() -> None:
    """Print the figures of one peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-split", default="train")
    parser.add_argument("--test-split", default="test")
    arguments = parser.parse_args()
    data = TfdsData(source="tfds", train_split=arguments.train_split, test_split=arguments.test_split)
    print(json.dumps(score(PEERS[arguments.peer](arguments.seed), data)))


if __name__ == "__main__":
    main()
