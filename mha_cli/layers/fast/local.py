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
    taken_NW = ops.where(ops.logical_and(key_NW >= 0, key_NW < keys), key_NW, keys)  # those take one more, which is masked
    k_BHNWK, v_BHNWV = (ops.take(ops.pad(x, [[0, 0], [0, 0], [0, 1], [0, 0]]), taken_NW, axis=2) for x in (k_BHMK, v_BHMV))
    real_BHM = ops.ones((1, 1, keys), "bool")
    real_BHM = real_BHM if mask_BH1M is None else ops.logical_and(mask_BH1M[:, :, 0], real_BHM)
    real_BHNW = ops.take(ops.pad(real_BHM, [[0, 0], [0, 0], [0, 1]]), taken_NW, axis=2)
    near_QW = ops.abs(ops.expand_dims(ops.arange(queries), 1) + max_distance - ops.arange(width)) <= max_distance
    mask_BHNQW = ops.logical_and(ops.expand_dims(real_BHNW, 3), near_QW)
    mixed_BHNQV, _ = scaled_dot_product_attention(q_BHNQK, k_BHNWK, v_BHNWV, mask_BHNQW, dropout, seed, scaled)
    return ops.reshape(mixed_BHNQV, (batch, heads, blocks * queries, v_BHMV.shape[3]))[:, :, :length]
