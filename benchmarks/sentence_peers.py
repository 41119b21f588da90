"""SetFit and model2vec on an encoder of sentence-transformers; a script like ``file_peers.py``, with these two peers.

SetFit reads the folder that ``MHA_MINILM`` names; model2vec reads vectors in the folder ``MHA_MODEL2VEC``, made of the encoder once:

    python -c "from model2vec.distill import distill; distill('encoder', pca_dims=384).save_pretrained('vectors')"

model2vec[distill] needs transformers before 5.4, so use another environment. Measured with setfit 1.2.0, model2vec[distill,train] 0.10.0,
sentence-transformers 6.2.0, transformers 5.3.0 and torch 2.13.0.
"""

import os
import tempfile
from collections.abc import Sequence

import file_peers
import numpy as np
from text_peers import Labels

ITERATIONS = 20  # pairs of one class per text, and as many of two classes, as in the paper
MOST_PAIRS = 6400  # 400 steps; all pairs of 616 texts in 77 classes take 23,400
FEWEST_TO_COMPARE = 20  # texts per class from which model2vec's two classifiers are compared


class SetFit:
    """One epoch of pairs of texts at SetFit's own rate and batch size, then a logistic regression (Tunstall et al. 2022)."""

    def __init__(self, seed: int) -> None:
        from setfit import SetFitModel

        self.seed, self.model = seed, SetFitModel.from_pretrained(os.environ["MHA_MINILM"], local_files_only=True)

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        from datasets import Dataset
        from setfit import Trainer, TrainingArguments

        iterations = max(1, min(ITERATIONS, MOST_PAIRS // (2 * len(texts))))
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(folder, seed=self.seed, num_iterations=iterations, save_strategy="no", report_to="none")
            Trainer(self.model, arguments, Dataset.from_dict({"text": list(texts), "label": labels.tolist()})).train()

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return np.asarray(self.model.predict(list(texts)))


class Model2Vec:
    """A logistic regression of model2vec's vectors; from 20 texts per class on its own network, if better in cross-validation."""

    def __init__(self, seed: int) -> None:
        from model2vec import StaticModel

        self.seed, self.model = seed, StaticModel.from_pretrained(os.environ["MHA_MODEL2VEC"])

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        from model2vec.train import StaticModelForClassification
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, StratifiedKFold

        def network(rows: Labels) -> StaticModelForClassification:
            made = StaticModelForClassification.from_static_model(model=self.model)
            return made.fit(lines[rows].tolist(), labels[rows].tolist(), random_seed=self.seed, device="cpu")

        lines, grid = np.array(texts, object), {"C": [0.1, 1.0, 10.0, 100.0]}
        self.network, folds = None, list(StratifiedKFold(3, shuffle=True, random_state=self.seed).split(lines, labels))
        self.regression = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds).fit(self.model.encode(list(texts)), labels)
        if np.bincount(labels).min() >= FEWEST_TO_COMPARE:
            rights = [network(own).predict(lines[held].tolist()) == labels[held] for own, held in folds]
            self.network = network(np.arange(len(lines))) if np.concatenate(rights).mean() > self.regression.best_score_ else None

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return self.network.predict(list(texts)) if self.network else self.regression.predict(self.model.encode(list(texts)))


file_peers.PEERS |= {"setfit": lambda _, seed: SetFit(seed), "model2vec": lambda _, seed: Model2Vec(seed)}

if __name__ == "__main__":
    file_peers.main()
