"""A checkpoint put to use: texts in, class probabilities out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint import Checkpoint
from mha_cli.runtime.forward import class_probabilities
from mha_cli.text.encoder import TextEncoder

BATCH_TOKENS = 4_096
"""Tokens of a batch, padding included: enough to keep the cores busy, few enough for their caches."""


@dataclass(frozen=True)
class Prediction:
    """What the classifier says about one text.

    Args:
        text: as it came in.
        label: the most probable class.
        probability: of that class, in [0, 1].
        probabilities: of every class, by name, in [0, 1]; they sum to 1.
        num_tokens: tokens of the whole text.
        num_unknown: tokens among those read that the vocabulary does not have.
        truncated: whether the text was cut to the model's length.
    """

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]
    num_tokens: int
    num_unknown: int
    truncated: bool


class Classifier:
    """Classifies texts with a checkpoint's weights.

    Args:
        checkpoint: from ``read_checkpoint``.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.encoder = TextEncoder(checkpoint.config.text, checkpoint.vocabulary)

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """One prediction a text, in order. Texts of similar length are computed together."""
        encoded = [self.encoder.encode(text) for text in texts]
        probabilities = probabilities_of([code.token_ids for code in encoded], self.checkpoint)
        names = self.checkpoint.class_names
        return [
            Prediction(
                text=text,
                label=names[int(row.argmax())],
                probability=float(row.max()),
                probabilities=dict(zip(names, map(float, row), strict=True)),
                num_tokens=code.num_tokens,
                num_unknown=code.num_unknown,
                truncated=code.truncated,
            )
            for text, code, row in zip(texts, encoded, probabilities, strict=True)
        ]

    def predict_stream(self, batches: Iterable[Sequence[str]]) -> Iterator[Prediction]:
        """Predictions in order, batch by batch."""
        for batch in batches:
            yield from self.predict(batch)


def probabilities_of(reviews: Sequence[Sequence[int]], checkpoint: Checkpoint) -> npt.NDArray[np.float32]:
    """Probabilities of all classes, (N, C), for reviews given as token ids. Reviews of similar length are computed together."""
    probabilities = np.zeros((len(reviews), len(checkpoint.class_names)), dtype=np.float32)
    for rows in _batches([len(review) for review in reviews]):
        padded = np.zeros((len(rows), max(1, *(len(reviews[row]) for row in rows))), dtype=np.int32)
        for target, row in zip(padded, rows, strict=True):
            target[: len(reviews[row])] = reviews[row]
        probabilities[rows] = class_probabilities(padded, checkpoint.weights, checkpoint.config.model)
    return probabilities


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in batches of similar length."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * max(1, lengths[row]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
