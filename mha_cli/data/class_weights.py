"""How much each text's loss counts, so that rare classes are learnt as well as frequent ones."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def loss_weights(class_weights: Literal["none", "balanced"], targets: Floats) -> Floats:
    """Weights of the texts' losses, (N,), with a mean of 1 where every class occurs; a part of the texts may lack one.

    Balanced, all classes weigh the same: with n_c texts of class c, each of them counts N / (C · n_c), as in scikit-learn. A text with
    probabilities of several classes, a row of ``targets`` (N, C), has the mean of their weights, and adds these probabilities to n_c.
    """
    num_texts, num_classes = targets.shape
    if class_weights == "none":
        return np.ones(num_texts, np.float32)
    sizes = num_classes * targets.sum(axis=0, dtype=np.float64)
    weights_of_classes = np.divide(num_texts, sizes, out=np.zeros(num_classes), where=sizes > 0)
    weights: Floats = targets @ weights_of_classes.astype(np.float32)
    return weights
