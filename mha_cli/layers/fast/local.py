"""Attention to neighbours only, in time and memory that grow linearly with length.

Queries are cut into blocks of 2d, and each block meets the 4d keys from d before it to d after it: 4d scores a query instead of M. The
formula stays the plain one, over one more axis.

Axes: B batch, H heads, L query length, M key length, N blocks, Q queries of a block, W keys around it, K key width per head, V value width
per head.
"""

from typing import Any

from keras import ops

from mha_cli.layers.attention import scaled_dot_product_attention


def local_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, max_distance: int, mask_BH1M: Any = None, dropout: float = 0.0, seed: Any = None,
    scaled: bool = True,
) -> Any:  # fmt: skip
    """softmax(Q Kᵀ / √d_k) V over the keys with |l - m| ≤ max_distance that the mask allows, (B, H, L, V).

    Source: Beltagy et al. 2020, "Longformer", section 3.1 and appendix A.
    """
    batch, heads, length, _ = ops.shape(q_BHLK)
    keys, queries, width = ops.shape(k_BHMK)[2], 2 * max_distance, 4 * max_distance
    blocks = (length + queries - 1) // queries
    q_BHNQK = ops.pad(q_BHLK, [[0, 0], [0, 0], [0, blocks * queries - length], [0, 0]])
    q_BHNQK = ops.reshape(q_BHNQK, (batch, heads, blocks, queries, q_BHLK.shape[3]))
    key_NW = ops.expand_dims(ops.arange(blocks) * queries, 1) - max_distance + ops.arange(width)  # positions; some are no keys
    near_QW = ops.abs(ops.expand_dims(ops.arange(queries), 1) + max_distance - ops.arange(width)) <= max_distance
    taken_NW = ops.clip(key_NW, 0, keys - 1)
    mask_NQW = ops.logical_and(ops.expand_dims(key_NW == taken_NW, 1), near_QW)
    if mask_BH1M is not None:
        mask_NQW = ops.logical_and(mask_NQW, ops.expand_dims(ops.take(mask_BH1M[:, :, 0], taken_NW, axis=2), 3))
    k_BHNWK, v_BHNWV = ops.take(k_BHMK, taken_NW, axis=2), ops.take(v_BHMV, taken_NW, axis=2)
    mixed_BHNQV, _ = scaled_dot_product_attention(q_BHNQK, k_BHNWK, v_BHNWV, mask_NQW, dropout, seed, scaled)
    return ops.reshape(mixed_BHNQV, (batch, heads, blocks * queries, v_BHMV.shape[3]))[:, :, :length]
