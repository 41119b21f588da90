"""Products and a softmax that neither overflow nor divide by zero.

Axes: B batch, H heads, L query length, M key length, K key width per head.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

LOWEST = float(np.finfo(np.float32).min)  # the score of a key that a query may not look at


def dot_products(q_BHLK: Any, k_BHMK: Any) -> Any:
    """Q Kᵀ, (B, H, L, M): of float16, which ends at 65,504, in float32."""
    if keras.backend.standardize_dtype(q_BHLK.dtype) == "float16":
        q_BHLK, k_BHMK = ops.cast(q_BHLK, "float32"), ops.cast(k_BHMK, "float32")
    # As an einsum, so that neither it nor its gradient writes the keys down transposed; with all axes named, Keras would.
    return ops.einsum("...lk,...mk->...lm", q_BHLK, k_BHMK)


def softmax_of_allowed(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """Softmax in float32 over the keys that the mask allows; a row with no such key is all zeros."""
    scores_BHLM = ops.cast(scores_BHLM, "float32")
    if mask_BHLM is not None:
        scores_BHLM = ops.where(mask_BHLM, scores_BHLM, LOWEST)
    single = scores_BHLM.shape[-1] == 1  # then 1, where Keras would warn
    weights_BHLM = ops.exp(scores_BHLM - scores_BHLM) if single else ops.softmax(scores_BHLM, axis=-1)
    return weights_BHLM if mask_BHLM is None else ops.where(mask_BHLM, weights_BHLM, 0.0)


def masked_softmax(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """``softmax_of_allowed``, P, with the gradient of its formula: dS = P ∘ (dP - rowsum(P ∘ dP)).

    It passes over the large array less often than the gradients of the single operations: a training step takes a tenth less time.
    The weights are kept in the type of the scores, so that those of bfloat16 take half the memory.
    """
    dtype = scores_BHLM.dtype

    @ops.custom_gradient
    def with_formula(scores_BHLM: Any, *mask: Any) -> Any:  # the mask as an argument: JAX lets no traced array in by closure
        p_BHLM = ops.cast(softmax_of_allowed(scores_BHLM, *mask), dtype)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            if upstream is None:  # TensorFlow and JAX hand over the gradient alone
                p, d_p = p_BHLM, arguments[0]
            else:  # PyTorch also the arguments; its p_BHLM has no graph, which second derivatives need
                p, d_p = softmax_of_allowed(*arguments), upstream
            p, d_p = ops.cast(p, "float32"), ops.cast(d_p, "float32")
            p_d_p = p * d_p
            d_scores = ops.cast(p_d_p - p * ops.sum(p_d_p, axis=-1, keepdims=True), dtype)
            return (d_scores, None) if mask else d_scores

        return p_BHLM, gradient

    return with_formula(scores_BHLM) if mask_BHLM is None else with_formula(scores_BHLM, ops.convert_to_tensor(mask_BHLM))


def number_of_weights(q_BHLK: Any, k_BHMK: Any) -> Any:
    """B·H·L·M: an integer, or an int64 scalar where a size is known only when the function runs (an int32 could run over)."""
    sizes = (*ops.shape(q_BHLK)[:3], ops.shape(k_BHMK)[2])
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return math.prod(ops.cast(size, "int64") for size in sizes)
