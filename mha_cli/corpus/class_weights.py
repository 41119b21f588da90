"""How much each text's loss counts, so that rare classes are learnt as well as frequent ones; and a warning about classes that are not."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mha_cli.arrays import Floats, Int32s
from mha_cli.config.settings import Config
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.errors import listed, plural, printable
from mha_cli.sources.labels import NAMED_CLASSES
from mha_cli.sources.targets import one_hot

LEAST_TEXTS = 5  # of a class whose absence from the answers is no matter of luck
WAYS_OUT = {"none": "training.class_weights=balanced gives rare classes more weight", "balanced": "give more texts of rare classes"}


def loss_weights(config: Config, texts: EncodedTexts, num_classes: int) -> Floats:
    """Weights of the losses, (N,): a text's weight times its class's weight. Some classes may have no text here.

    Balanced, all classes weigh the same: with n_c texts of class c, each of them counts N / (C · n_c), as in scikit-learn. A text of
    several classes has the sum of their weights, and one of weight 2 counts as two.
    """
    weights = texts.weights_or_ones
    if config.training.class_weights == "none":
        return weights
    of_classes = one_hot(texts.labels, num_classes)
    sizes = num_classes * (weights.astype(np.float64) @ of_classes)
    weights_of_classes = np.divide(weights.sum(dtype=np.float64), sizes, out=np.zeros(num_classes), where=sizes > 0)
    balanced: Floats = weights * (of_classes @ weights_of_classes.astype(np.float32))
    return balanced


def never_answered(class_weights: Literal["none", "balanced"], names: Sequence[str], labels: Int32s, answers: Any) -> str:
    """A warning about classes with texts that are never the answer, from class ids, (N,); it names a setting that may help."""
    sizes, answered = (np.bincount(ids, minlength=len(names)) for ids in (labels, answers))
    missing = np.flatnonzero((sizes >= LEAST_TEXTS) & (answered == 0)).tolist()
    named = listed([f"{printable(names[class_id])} ({plural(int(sizes[class_id]), 'text')})" for class_id in missing], NAMED_CLASSES)
    return f"classes that are never the answer: {named}; {WAYS_OUT[class_weights]}" if named else ""
