"""What an export costs in accuracy: it and its checkpoint, scored on the same labelled texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.data.batches import scoring_batches
from mha_cli.data.preparation import LabelledTexts
from mha_cli.runtime.classifier import forward_of
from mha_cli.system.callbacks import SILENT, Callbacks


@dataclass(frozen=True)
class Accuracy:
    """How a checkpoint and its export score.

    Args:
        data: source and split, in words.
        num_texts: labelled texts scored.
        checkpoint: accuracy of the checkpoint, in [0, 1].
        export: accuracy of the export, in [0, 1].
        num_changed: texts to which the export gives another class.
    """

    data: str
    num_texts: int
    checkpoint: float
    export: float
    num_changed: int


def compare(
    run: Callable[[npt.NDArray[np.int32]], Any], checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT
) -> Accuracy:
    """Score an export beside its checkpoint.

    Args:
        run: export as a function from tokens to the probabilities of all classes (B, C).
        checkpoint: model that was exported.
        labelled: texts to score both on, at least one.
    """
    texts, forward = labelled.texts, forward_of(checkpoint)
    answers = np.zeros((2, len(texts)), dtype=np.int64)
    scored = 0
    for rows in scoring_batches(texts.lengths, checkpoint.memory_estimate):
        tokens = texts.padded(rows)
        answers[:, rows] = [np.asarray(probabilities(tokens)).argmax(axis=1) for probabilities in (forward, run)]
        scored += len(rows)
        callbacks.on_reviews(scored, len(texts))
    ours, exported = (answers == texts.labels).mean(axis=1)
    return Accuracy(
        f"{labelled.data}, split {labelled.split}", len(texts), float(ours), float(exported), int((answers[0] != answers[1]).sum())
    )
