"""Additive attention: a score of query and key that is no dot product.

Axes: B batch, L query length, M key length, H heads, K key width per head, V value width per head.
"""

from typing import Any

from keras import ops

from mha_cli.layers.numerics import drop, masked_softmax


def additive_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, score_kernel_HK: Any, mask_BHLM: Any = None, dropout: float = 0.0, seed: Any = None,
    bias_HLM: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention(Q, K, V) = softmax(S) V, where S_lm = wᵀ tanh(q_l + k_m) with one vector w per head, the row of ``score_kernel_HK``.

    Other arguments are those of ``scaled_dot_product_attention``.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", section A.1.2.
    """
    sums_BHLMK = ops.expand_dims(q_BHLK, -2) + ops.expand_dims(k_BHMK, -3)
    scores_BHLM = ops.sum(ops.tanh(sums_BHLMK) * score_kernel_HK[..., None, None, :], axis=-1)
    weights_BHLM = ops.cast(masked_softmax(scores_BHLM, mask_BHLM, bias_HLM), v_BHMV.dtype)
    return ops.matmul(drop(weights_BHLM, dropout, seed), v_BHMV), weights_BHLM
