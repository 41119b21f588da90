"""Products and a softmax that neither overflow nor divide by zero.

Axes: B batch, H heads, L query length, M key length, K key width per head.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

LOWEST = np.finfo(np.float32).min
"""The score of a key that a query may not look at."""


def dot_products(q_BHLK: Any, k_BHMK: Any) -> Any:
    """Q Kᵀ, (B, H, L, M): of float16, which ends at 65,504, in float32."""
    if keras.backend.standardize_dtype(q_BHLK.dtype) == "float16":
        q_BHLK, k_BHMK = ops.cast(q_BHLK, "float32"), ops.cast(k_BHMK, "float32")
    # As an einsum, so that neither it nor its gradient writes the keys down transposed; with all axes named, Keras would.
    return ops.einsum("...lk,...mk->...lm", q_BHLK, k_BHMK)


def softmax_of_allowed(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """Softmax over the keys that the mask allows, computed in float32, in the type of the scores; a row with no such key is all zeros."""
    dtype, scores_BHLM = scores_BHLM.dtype, ops.cast(scores_BHLM, "float32")
    if mask_BHLM is None:
        return ops.cast(_softmax(scores_BHLM), dtype)
    # A ceiling over the scores and blanking whole rows touch the big (B, H, L, M) array less often than selecting in it would.
    ceiling_BHLM = ops.where(mask_BHLM, np.float32(np.inf), LOWEST)
    weights_BHLM = ops.cast(_softmax(ops.minimum(scores_BHLM, ceiling_BHLM)), dtype)
    return weights_BHLM * ops.cast(ops.any(mask_BHLM, axis=-1, keepdims=True), dtype)


def _softmax(scores_BHLM: Any) -> Any:
    """Softmax over the last axis; of a single key it is 1, where Keras would warn."""
    return ops.exp(scores_BHLM - scores_BHLM) if scores_BHLM.shape[-1] == 1 else ops.softmax(scores_BHLM, axis=-1)
