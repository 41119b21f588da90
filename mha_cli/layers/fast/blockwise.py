"""Attention whose memory grows linearly with length: a block of queries at a time, its weights computed anew in the backward pass.

The numbers are those of ``scaled_dot_product_attention``. That function keeps H·L·M weights for the backward pass; this one keeps only
queries, keys and values and never holds more than one block of weights, H·Q·M. Forward and backward over 8,192 tokens take 627 MB instead
of 3,426 (docs/benchmarks.md). It computes the scores twice.

Axes: N blocks, B batch, H heads, L query length, Q queries of a block, M key length, K key width per head, V value width per head.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.numerics import custom_gradient, dot_products, number_of_weights, softmax_of_allowed
from mha_cli.system.working_memory import MOST_SCORES_AT_ONCE, QUERIES_OF_A_BLOCK

BLOCK_SEED_STEP = 1_000_003
"""Between the seeds of one block and the next, so that no block draws the dropout of another call's block."""


def attend_within_memory(
    layer: Any, q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any, dropout: float = 0.0, scaled: bool | None = None
) -> Any:
    """The mixed values of an attention layer, block by block if it asks for that, or beyond ``MOST_SCORES_AT_ONCE`` weights.

    Args:
        layer: ``MultiHeadAttention`` with dot products.
        scaled: whether dot products are multiplied by 1/√d_k; None for the setting of the layer.
    """

    def at_once() -> Any:
        return layer.attend(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, scaled)[0]

    def by_blocks() -> Any:
        seed = layer.seed_generator.next() if dropout else None
        scale = layer.use_scale if scaled is None else scaled
        return blockwise_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, seed, scaled=scale)

    too_many = layer.implementation == "blockwise" or number_of_weights(q_BHLK, k_BHMK) > MOST_SCORES_AT_ONCE
    if isinstance(too_many, bool):
        return by_blocks() if too_many else at_once()
    # In this order: with the branches swapped, TensorFlow 2.21's graph optimizer makes a whole model give nothing, shape (0,).
    return ops.cond(too_many, by_blocks, at_once)


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
    """softmax(Q Kᵀ / √d_k) V, a block of queries at a time.

    With P the weights of a block, Z its dropout mask and dO the gradient that comes back to its output:

        dV = Σ (P∘Z)ᵀ dO      dP = (dO Vᵀ)∘Z      dS = P ∘ (dP - rowsum(P ∘ dP))      dQ = dS K / √d_k      dK = Σ dSᵀ Q / √d_k

    Every one of these is differentiable itself, which gives second derivatives; rowsum(dO ∘ O), the same number as rowsum(P ∘ dP),
    would spare a pass, but leave out how O changes.

    Args:
        q_BHLK: queries, per head.
        k_BHMK: keys, per head.
        v_BHMV: values, per head.
        mask_BHLM: bool, broadcastable, True where a query may look at a key; a row that may look nowhere gives zeros.
        dropout: share of the weights zeroed, in [0, 1).
        seed: state from ``SeedGenerator.next``, out of which forward and backward pass draw the same dropout mask.
        block_length: most queries of a block; all blocks have the same number of them, Q.
        scaled: False leaves out 1/√d_k.

    Returns:
        Mixed values (B, H, L, V).

    Source: Rabe and Staats 2021, "Self-attention Does Not Need O(n²) Memory"; backward pass: Dao et al. 2022, "FlashAttention",
    appendix B.2.
    """
    scale = q_BHLK.shape[-1] ** -0.5 if scaled else 1.0
    while mask_BHLM is not None and len(mask_BHLM.shape) < 4:
        mask_BHLM = mask_BHLM[None]
    # A mask that is the same for every query is used whole; another is cut into blocks like the queries.
    one_mask_for_all = mask_BHLM is None or mask_BHLM.shape[2] == 1

    # Sizes are worked out where they are used: inside a condition XLA gives the backward pass no size that the forward pass has found.
    def count_blocks() -> Any:
        blocks = (ops.shape(q_BHLK)[2] + block_length - 1) // block_length
        return max(blocks, 1) if isinstance(blocks, int) else ops.maximum(blocks, 1)

    def count_queries() -> Any:
        return (ops.shape(q_BHLK)[2] + count_blocks() - 1) // count_blocks()

    def to_blocks(x_BHLX: Any) -> Any:
        batch, heads, length, width = ops.shape(x_BHLX)
        padded = ops.pad(x_BHLX, [[0, 0], [0, 0], [0, count_blocks() * count_queries() - length], [0, 0]])
        return ops.transpose(ops.reshape(padded, (batch, heads, count_blocks(), count_queries(), width)), (2, 0, 1, 3, 4))

    def from_blocks(x_NBHQX: Any) -> Any:
        _, batch, heads, _, width = ops.shape(x_NBHQX)
        joined = ops.reshape(ops.transpose(x_NBHQX, (1, 2, 0, 3, 4)), (batch, heads, count_blocks() * count_queries(), width))
        return joined[:, :, : ops.shape(q_BHLK)[2]]

    def masks_and_numbers() -> tuple[Any, Any]:
        numbers_N = ops.arange(count_blocks(), dtype="int32")
        if one_mask_for_all:
            return numbers_N, numbers_N
        batch, heads, _, keys = ops.shape(mask_BHLM)
        return to_blocks(ops.broadcast_to(mask_BHLM, (batch, heads, ops.shape(q_BHLK)[2], keys))), numbers_N

    def weights_and_dropout(q_BHQK: Any, k_BHMK: Any, mask: Any, number: Any) -> tuple[Any, Any]:
        scores_BHQM = dot_products(q_BHQK, k_BHMK)
        weights_BHQM = ops.cast(softmax_of_allowed(scores_BHQM, mask_BHLM if one_mask_for_all else mask), k_BHMK.dtype)
        return weights_BHQM, dropout_mask(weights_BHQM, dropout, seed, number)

    @custom_gradient
    def attend(q_BHLK: Any, k_BHMK: Any, v_BHMV: Any) -> Any:
        # Although the backward pass is given, TensorFlow's tape would keep the weights of every block, except of what has no gradient.
        # JAX has no tape, and for second derivatives it differentiates these very operations.
        let_go = ops.stop_gradient if keras.backend.backend() == "tensorflow" else ops.convert_to_tensor

        def forward(block: Any) -> Any:
            q_BHQK, mask, number = block
            weights_BHQM, kept_BHQM = weights_and_dropout(q_BHQK * scale, let_go(k_BHMK), mask, number)
            return ops.matmul(weights_BHQM * kept_BHQM, let_go(v_BHMV))

        output_BHLV = from_blocks(ops.map(forward, (to_blocks(let_go(q_BHLK)), *masks_and_numbers())))

        def gradients(d_output_BHLV: Any) -> tuple[Any, Any, Any]:
            q_NBHQK, d_output_NBHQV = to_blocks(q_BHLK), to_blocks(d_output_BHLV)
            masks_N, numbers_N = masks_and_numbers()

            def backward(number: Any, sums: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
                d_q_NBHQK, d_k_BHMK, d_v_BHMV = sums
                q_BHQK, d_output_BHQV = q_NBHQK[number] * scale, d_output_NBHQV[number]
                weights_BHQM, kept_BHQM = weights_and_dropout(q_BHQK, k_BHMK, masks_N[number], number)
                d_weights_BHQM = ops.einsum("...qv,...mv->...qm", d_output_BHQV, v_BHMV) * kept_BHQM
                mean_BHQ1 = ops.sum(weights_BHQM * d_weights_BHQM, axis=-1, keepdims=True)
                d_scores_BHQM = weights_BHQM * (d_weights_BHQM - mean_BHQ1)
                d_q_BHQK = ops.matmul(d_scores_BHQM, k_BHMK) * scale
                return (
                    # By selection: an update of a slice has no gradient in TensorFlow, a scatter takes nothing empty.
                    ops.where(ops.reshape(numbers_N == number, (-1, 1, 1, 1, 1)), d_q_BHQK[None], d_q_NBHQK),
                    d_k_BHMK + ops.einsum("bhqm,bhqk->bhmk", d_scores_BHQM, q_BHQK),
                    d_v_BHMV + ops.einsum("bhqm,bhqv->bhmv", weights_BHQM * kept_BHQM, d_output_BHQV),
                )

            start = (ops.zeros_like(q_NBHQK), ops.zeros_like(k_BHMK), ops.zeros_like(v_BHMV))
            d_q_NBHQK, d_k_BHMK, d_v_BHMV = ops.fori_loop(0, count_blocks(), backward, start)
            return from_blocks(d_q_NBHQK), d_k_BHMK, d_v_BHMV

        return output_BHLV, gradients

    return attend(q_BHLK, k_BHMK, v_BHMV)


def dropout_mask(weights: Any, dropout: float, seed: Any, number: Any) -> Any:
    """The factor of each weight of a block: 0 if it is dropped, 1 / (1 - dropout) if it is kept; 1 without dropout."""
    if not dropout:
        return 1.0
    noise = keras.random.uniform(ops.shape(weights), seed=_BlockSeed(seed, number))
    return ops.cast(noise >= dropout, weights.dtype) / (1.0 - dropout)


class _BlockSeed(keras.random.SeedGenerator):
    """A seed that is drawn again alike: that of a call, with the number of the block in it."""

    def __init__(self, seed: Any, number: Any) -> None:
        # The base class would make a variable; this one is only a value, which Keras's random functions take from ``next``.
        # Times a large number: PyTorch's seed is the sum of the two, of which the second counts the calls.
        self._value = seed + ops.stack([ops.cast(number, seed.dtype) * BLOCK_SEED_STEP, ops.zeros((), seed.dtype)])

    def next(self, ordered: bool = True) -> Any:
        return self._value
