"""Held-out probabilities: what a model answered to labelled texts before it learnt from them.

A checkpoint carries them, so that shares, sets of labels and "none of these" can be computed for new texts.

Axes: N texts, C classes.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mha_cli.arrays import Array, Float64s, Floats
from mha_cli.errors import MhaError

if TYPE_CHECKING:
    from mha_cli.checkpoint.file import Checkpoint

MOST_TEXTS = 5_000  # of a larger validation part, a random part of this size is kept
FAR_FROM_ONE = 0.01  # from the sum of half-precision probabilities


@dataclass(frozen=True)
class HeldOut:
    """Probabilities in half precision, (N, C), and class ids, (N,), or the labels that each text has, (N, C)."""

    probabilities: Floats
    labels: Array

    @classmethod
    def of(cls, probabilities: Floats, labels: Array) -> "HeldOut":
        """At most ``MOST_TEXTS`` of the texts of a validation part."""
        rows = np.arange(len(labels))
        if len(labels) > MOST_TEXTS:
            rows = np.sort(np.random.default_rng(0).choice(len(labels), MOST_TEXTS, replace=False))
        return cls(rounded(probabilities[rows]), labels[rows])

    @classmethod
    def from_bytes(cls, data: memoryview, num_classes: int, is_multi_label: bool) -> "HeldOut | None":
        """The content of a file, which may hold any bytes; None for bytes that are no labels and probabilities."""
        row = _row_type(num_classes, is_multi_label)
        if not data or len(data) % row.itemsize:
            return None
        rows = np.frombuffer(data, row)
        probabilities, labels = rows["probabilities"].astype(np.float32), rows["labels"]
        fits = ((probabilities >= 0) & (probabilities <= 1)).all() and labels.max() < (2 if is_multi_label else num_classes)
        if not is_multi_label:
            fits = fits and np.abs(probabilities.sum(axis=1, dtype=np.float64) - 1).max() < FAR_FROM_ONE
        return cls(probabilities, labels.astype(bool if is_multi_label else np.int32)) if fits else None

    def to_bytes(self) -> bytes:
        """One row per text: its label, then its probabilities; all numbers little-endian."""
        rows = np.empty(len(self.labels), _row_type(self.probabilities.shape[1], self.labels.ndim == 2))
        rows["labels"], rows["probabilities"] = self.labels, self.probabilities
        return rows.tobytes()


def held_out_of(checkpoint: "Checkpoint") -> HeldOut:
    """The held-out texts of a checkpoint; one without any is refused."""
    if checkpoint.held_out is None:
        problem = f"{checkpoint.name or 'this model'}: holds no probabilities of held-out texts"
        raise MhaError(problem, "name labelled texts that it has not learnt from with --data FILE")
    return checkpoint.held_out


def rounded(probabilities: Array) -> Floats:
    """Probabilities as a checkpoint keeps them, in float32; those of new texts are rounded alike before they are compared."""
    return probabilities.astype(np.float16).astype(np.float32)


def lowest_kept(scores: Floats | Float64s, missed: float) -> float:
    """The score below which a new text falls with a probability of ``missed`` at most, by those of held-out texts, (N,); -∞ for too few.

    It is the k-th lowest of the n scores, k = ⌊(n + 1) missed⌋.

    Source: Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World", section 2.2 (p-values).
    """
    k = math.floor((len(scores) + 1) * missed + 1e-9)  # 1 - 0.9 is less than 0.1
    return float(np.sort(scores)[k - 1]) if k else -math.inf


def most_bytes(num_classes: int, is_multi_label: bool) -> int:
    """The largest size of a file's content."""
    return MOST_TEXTS * _row_type(num_classes, is_multi_label).itemsize


def _row_type(num_classes: int, is_multi_label: bool) -> np.dtype[np.void]:
    labels = ("labels", "u1", (num_classes,)) if is_multi_label else ("labels", "<u4")
    return np.dtype([labels, ("probabilities", "<f2", (num_classes,))])
