"""None of these: texts that belong to no class of a model.

Axes: N texts, C classes.
"""

from dataclasses import dataclass, replace

import numpy as np

from mha_cli.arrays import Bools, Float64s, Floats, Int32s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import lowest_kept, rounded
from mha_cli.errors import MhaError
from mha_cli.sources.labels import name_of


@dataclass(frozen=True)
class NoneOfThese:
    """When a text belongs to no class: its score is below a threshold, or the class of such texts is the most probable one."""

    label: str  # label of such texts
    is_class: Bools  # False for the class of such texts, if the model has one, (C,)
    threshold: float = -np.inf  # lowest score of a text that gets a label

    def scores(self, probabilities_NC: Floats) -> Float64s:
        """Minus the entropy of the classes, in nats, (N,): high for a text of a class; -∞ where none is the most probable class."""
        kept_NC = rounded(probabilities_NC).astype(np.float64)
        scores_N = np.sum(kept_NC * np.log(np.maximum(kept_NC, 1e-9)), axis=1)
        return np.where(self.is_class[kept_NC.argmax(axis=1)], scores_N, -np.inf)

    def are_of_classes(self, labels_N: Int32s) -> Bools:
        """Which labelled texts belong to a class, (N,); a text of no class has the id of their class, or without one an id after all."""
        return np.append(self.is_class, False)[labels_N]

    def are_none(self, probabilities_NC: Floats) -> Bools:
        """Which texts belong to no class, (N,)."""
        scores_N = self.scores(probabilities_NC)
        return np.asarray((scores_N < self.threshold) | np.isneginf(scores_N))


def none_of_these(checkpoint: Checkpoint) -> NoneOfThese | None:
    """The rule of a checkpoint, by which a new text of the classes gets a label with a probability of ``none_answered``.

    It is None without ``data.none_label``.
    """
    data, held_out = checkpoint.config.data, checkpoint.held_out
    if data.none_label is None:
        return None
    if held_out is None:
        fault = f"{checkpoint.name or 'this model'}: data.none_label needs the probabilities of held-out texts, which it does not carry"
        raise MhaError(fault, "train it anew, on labelled texts")
    label = name_of(data.none_label)
    rule = NoneOfThese(label, np.array([name != label for name in checkpoint.class_names]))
    scores = rule.scores(held_out.probabilities[rule.is_class[held_out.labels]])
    return replace(rule, threshold=lowest_kept(scores, 1 - data.none_answered))
