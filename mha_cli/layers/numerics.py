"""Products and a softmax that neither overflow nor divide by zero.

Axes: B batch, H heads, L query length, M key length, K key width per head.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

LOWEST = float(np.finfo(np.float32).min)  # the score of a key that a query may not look at


def dot_products(q_BHLK: Any, k_BHMK: Any) -> Any:
    """Q Kᵀ, (B, H, L, M); in float32 if the arguments are float16, whose largest number is 65,504."""
    if keras.backend.standardize_dtype(q_BHLK.dtype) == "float16":
        q_BHLK, k_BHMK = ops.cast(q_BHLK, "float32"), ops.cast(k_BHMK, "float32")
    # An einsum, so that neither it nor its gradient stores transposed keys; with all axes named, Keras would store them.
    return ops.einsum("...lk,...mk->...lm", q_BHLK, k_BHMK)


def masked_softmax(scores_BHLM: Any, mask_BHLM: Any = None, bias_HLM: Any = None) -> Any:
    """Softmax in float32 of scores, plus a bias, over the keys that the mask allows; a row with no such key is all zeros."""
    scores_BHLM = ops.cast(scores_BHLM, "float32")
    if bias_HLM is not None:
        scores_BHLM = scores_BHLM + bias_HLM
    if mask_BHLM is not None:
        scores_BHLM = ops.where(mask_BHLM, scores_BHLM, LOWEST)
    single = scores_BHLM.shape[-1] == 1  # one key has weight 1, and Keras's softmax would warn
    weights_BHLM = ops.exp(scores_BHLM - scores_BHLM) if single else ops.softmax(scores_BHLM, axis=-1)
    return weights_BHLM if mask_BHLM is None else ops.where(mask_BHLM, weights_BHLM, 0.0)


def drop(weights_BHLM: Any, dropout: float, seed: Any) -> Any:
    """The weights with dropout: a share is zeroed, and the others are scaled up."""
    return keras.random.dropout(weights_BHLM, dropout, seed=seed) if dropout else weights_BHLM
