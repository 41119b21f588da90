"""What people do with a pretrained encoder: a logistic regression of its features, or fine-tuning, with transformers and torch.

Both read the folder that ``MHA_MINILM`` names, and take the mean of the last hidden states, as sentence-transformers does.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from text_peers import Labels
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

MOST_PIECES = 256  # sentence-transformers' limit for MiniLM


class Encoder:
    """An encoder in torch."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        folder = os.environ["MHA_MINILM"]
        self.tokenizer, self.model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def pooled(self, texts: Sequence[str]) -> Any:
        """The mean of the last hidden states of texts, (N, D)."""
        inputs = self.tokenizer(list(texts), padding=True, truncation=True, max_length=MOST_PIECES, return_tensors="pt")
        known = inputs["attention_mask"][:, :, None]
        return (self.model(**inputs).last_hidden_state * known).sum(1) / known.sum(1)

    def features(self, texts: Sequence[str]) -> Any:
        """The same of any number of texts, without dropout and without gradients."""
        self.model.eval()
        order = np.argsort([len(text) for text in texts])
        with torch.no_grad():
            parts = [self.pooled([texts[row] for row in rows]) for rows in np.array_split(order, len(order) // 64 + 1)]
        return torch.cat(parts)[np.argsort(order)]


class Frozen(Encoder):
    """Logistic regression of the normalized features; C by threefold cross-validation."""

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV

        self.classifier = GridSearchCV(LogisticRegression(max_iter=1000), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=3)
        self.classifier.fit(functional.normalize(self.features(texts)).numpy(), labels)

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return self.classifier.predict(functional.normalize(self.features(texts)).numpy())


class FineTuned(Encoder):
    """All weights learn with a linear layer on top, from all texts: AdamW, a warm-up of a tenth, then a cosine."""

    def fit(self, texts: Sequence[str], labels: Labels) -> None:
        """Learn from texts."""
        self.layer = torch.nn.Linear(self.model.config.hidden_size, len(np.unique(labels)))
        weights = [*self.model.parameters(), *self.layer.parameters()]
        optimizer = torch.optim.AdamW(weights, weight_decay=0.01)
        size, epochs = 32 if len(texts) >= 1000 else 8, max(3, min(20, round(20_000 / len(texts))))
        steps = epochs * -(-len(texts) // size)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-4, total_steps=steps + 1, pct_start=0.1, cycle_momentum=False)
        self.model.train()
        for _ in range(epochs):
            for rows in np.array_split(self.rng.permutation(len(texts)), steps // epochs):
                logits = self.layer(functional.dropout(self.pooled([texts[row] for row in rows]), 0.1))
                functional.cross_entropy(logits, torch.from_numpy(labels[rows])).backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

    def predict(self, texts: Sequence[str]) -> Labels:
        """The class of every text."""
        return self.layer(self.features(texts)).argmax(1).numpy()
