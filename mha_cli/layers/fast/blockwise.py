"""Attention whose memory grows linearly with length: a block of queries at a time, its weights computed again in the backward pass.

The numbers are those of ``scaled_dot_product_attention``, which keeps H·L·M weights for the backward pass. This function keeps only
queries, keys and values, and holds one block of weights at a time, H·Q·M; so it computes the scores twice. Forward and backward pass over
8,192 tokens take 627 MB instead of 3,426 (docs/benchmarks.md).

Axes: N blocks, B batch, H heads, L query length, Q queries of a block, M key length, K key width per head, V value width per head.
"""

from typing import Any

import keras
from keras import ops

from mha_cli.layers.fast.fused import softmax
from mha_cli.layers.numerics import dot_products
from mha_cli.system.working_memory import QUERIES_OF_A_BLOCK

BLOCK_SEED_STEP = 1_000_003  # difference between the seeds of two blocks, so that no block draws the dropout of another call's block


def blockwise_attention(
    q_BHLK: Any,
    k_BHMK: Any,
    v_BHMV: Any,
    mask_BHLM: Any = None,
    dropout: float = 0.0,
    seed: Any = None,
    block_length: int = QUERIES_OF_A_BLOCK,
    scaled: bool = True,
) -> Any:
    """softmax(Q Kᵀ / √d_k) V, a block of queries at a time; arguments as of ``scaled_dot_product_attention``.

    Forward and backward pass draw the same dropout mask from ``seed``, a state from ``SeedGenerator.next``. ``block_length`` is the maximum
    of queries in a block; all blocks have equally many, Q. Under TensorFlow the mixed values, (B, H, L, V), have no second derivatives.

    Source: Rabe and Staats 2021, "Self-attention Does Not Need O(n²) Memory".
    """
    batch, heads, length, key_width = ops.shape(q_BHLK)
    blocks = (length + block_length - 1) // block_length
    blocks = max(blocks, 1) if isinstance(blocks, int) else ops.maximum(blocks, 1)
    queries = (length + blocks - 1) // blocks
    scale = key_width**-0.5 if scaled else 1.0

    def to_blocks(x_BHLX: Any) -> Any:
        batch, heads, _, width = ops.shape(x_BHLX)
        padded = ops.pad(x_BHLX, [[0, 0], [0, 0], [0, blocks * queries - length], [0, 0]])
        return ops.transpose(ops.reshape(padded, (batch, heads, blocks, queries, width)), (2, 0, 1, 3, 4))

    def mix(block: tuple[Any, Any, Any]) -> Any:
        q_BHQK, mask_BHQM, number = block

        @keras.remat
        def attend(q_BHQK: Any, k_BHMK: Any, v_BHMV: Any) -> Any:
            scores_BHQM = dot_products(q_BHQK * scale, k_BHMK)
            weights_BHQM = ops.cast(softmax(scores_BHQM, mask_BHLM if one_mask_for_all else mask_BHQM), v_BHMV.dtype)
            return ops.matmul(weights_BHQM * dropout_mask(weights_BHQM, dropout, seed, number), v_BHMV)

        return attend(q_BHQK, k_BHMK, v_BHMV)

    numbers_N = masks_N = ops.arange(blocks, dtype="int32")
    while mask_BHLM is not None and len(mask_BHLM.shape) < 4:
        mask_BHLM = mask_BHLM[None]
    # A mask that differs between queries is cut into blocks like them.
    one_mask_for_all = mask_BHLM is None or mask_BHLM.shape[2] == 1
    if not one_mask_for_all:
        mask_batch, mask_heads, _, keys = ops.shape(mask_BHLM)
        masks_N = to_blocks(ops.broadcast_to(mask_BHLM, (mask_batch, mask_heads, length, keys)))
    mixed_NBHQV = ops.map(mix, (to_blocks(q_BHLK), masks_N, numbers_N))
    joined = ops.reshape(ops.transpose(mixed_NBHQV, (1, 2, 0, 3, 4)), (batch, heads, blocks * queries, v_BHMV.shape[-1]))
    return joined[:, :, :length]


def dropout_mask(weights: Any, dropout: float, seed: Any, number: Any) -> Any:
    """The factors of a block's weights: 0 for a dropped one, 1 / (1 - dropout) for others; 1 without dropout."""
    if not dropout:
        return 1.0
    noise = keras.random.uniform(ops.shape(weights), seed=_BlockSeed(seed, number))
    return ops.cast(noise >= dropout, weights.dtype) / (1.0 - dropout)


class _BlockSeed(keras.random.SeedGenerator):
    """A seed that gives the same numbers in both passes: the seed of the call plus the number of the block."""

    def __init__(self, seed: Any, number: Any) -> None:
        # The base class would create a variable; Keras's random functions only call ``next``.
        # PyTorch's seed is the sum of both numbers, of which the second counts calls; so block numbers are far apart.
        self._value = seed + ops.stack([ops.cast(number, seed.dtype) * BLOCK_SEED_STEP, ops.zeros((), seed.dtype)])

    def next(self, ordered: bool = True) -> Any:
        return self._value
