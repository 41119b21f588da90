"""The attention layers of models: the numbers of ``MultiHeadAttention`` in less time or memory.

Axes: B batch, H heads, L query length, M key length, K key width per head, V value width per head.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import ops

from mha_cli.layers.attention import MultiHeadAttention
from mha_cli.layers.fast.blockwise import blockwise_attention
from mha_cli.layers.fast.folded import folded_attention
from mha_cli.layers.fast.fused import merge_heads, project_heads, softmax
from mha_cli.layers.fast.kernels import kernel_attention, kernel_takes
from mha_cli.layers.fast.local import local_attention
from mha_cli.layers.numerics import dot_products, drop
from mha_cli.layers.since_2017 import within
from mha_cli.system.working_memory import MOST_SCORES_AT_ONCE, QUERIES_OF_A_BLOCK


@keras.saving.register_keras_serializable(package="mha")
class FusedAttention(MultiHeadAttention):
    """``MultiHeadAttention`` with all heads in one product of two matrices; subclasses mix the values in other ways."""

    def attend(self, query: Any, key: Any, value: Any, mask: Any, gate: Any, dropout: float, *hints: bool) -> tuple[Any, Any]:
        """Output and, if they are needed, weights."""
        if self.head_by_head:
            return super().attend(query, key, value, mask, gate, dropout)
        needs_weights, causal = hints
        needs_formula = needs_weights or self.attention_score == "additive" or self.linear_biases
        same_keys = gate is None and (mask is None or tuple(mask.shape[1:3]) == (1, 1))  # for all heads and queries
        if same_keys and not dropout and not needs_formula and self.compares_inputs() and self.folds():
            return folded_attention(self, query, key, value, mask, self.mix), None
        q_BHLK, k_BHMK, v_BHMV = self.project(query, key, value, project_heads)
        if needs_formula:
            mixed_BHLV, weights_BHLM = self.formula(q_BHLK, k_BHMK, v_BHMV, mask, gate, dropout)
        else:
            mixed_BHLV, weights_BHLM = self.mix(q_BHLK, k_BHMK, v_BHMV, mask, dropout, self.use_scale, causal), None
            mixed_BHLV = mixed_BHLV if gate is None else mixed_BHLV * gate
        return merge_heads(mixed_BHLV, self.output_kernel, self.output_bias), weights_BHLM

    def compares_inputs(self) -> bool:
        """Whether a score depends on two inputs alone, so that kernels can be multiplied first; see ``folded.py``."""
        parts = self.query_key_norm, self.rotary_base, self.max_distance
        return parts == (None, None, None) and self.num_key_value_heads in (None, self.num_heads)

    def folds(self) -> bool:
        """Whether calls are folded if their arguments allow it."""
        return False

    def mix(self, q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any, dropout: float, scaled: bool, causal: bool = False) -> Any:
        """The mixed values, (B, H, L, V); ``causal`` says that the mask is ``look_ahead_mask`` alone."""
        q_BHLK = q_BHLK * q_BHLK.shape[-1] ** -0.5 if scaled else q_BHLK
        mask_BHLM = within(self.max_distance, mask_BHLM, ops.shape(q_BHLK)[2], ops.shape(k_BHMK)[2])
        weights_BHLM = ops.cast(softmax(dot_products(q_BHLK, k_BHMK), mask_BHLM), v_BHMV.dtype)
        return ops.matmul(drop(weights_BHLM, dropout, self.seed_generator), v_BHMV)


@keras.saving.register_keras_serializable(package="mha")
class BlockwiseAttention(FusedAttention):
    """``MultiHeadAttention``, always in blocks of queries."""

    def mix(self, q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any, dropout: float, scaled: bool, causal: bool = False) -> Any:
        """The mixed values, a block of queries at a time."""
        seed = self.seed_generator.next() if dropout else None
        distance, keys = self.max_distance, k_BHMK.shape[2]
        most = QUERIES_OF_A_BLOCK if keys is None else min(QUERIES_OF_A_BLOCK, keys - 1)  # with more scores, blocks take less memory
        if distance and 4 * distance <= most and (mask_BHLM is None or mask_BHLM.shape[2] == 1):
            return local_attention(q_BHLK, k_BHMK, v_BHMV, distance, mask_BHLM, dropout, seed, scaled=scaled)
        mask_BHLM = within(self.max_distance, mask_BHLM, ops.shape(q_BHLK)[2], ops.shape(k_BHMK)[2])
        return blockwise_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, seed, scaled=scaled)


@keras.saving.register_keras_serializable(package="mha")
class FastAttention(BlockwiseAttention):
    """``MultiHeadAttention``: folded if heads are wide, by a kernel on a GPU, and in blocks beyond ``MOST_SCORES_AT_ONCE`` weights."""

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        """Create the weights of ``MultiHeadAttention``."""
        super().build(query_shape, value_shape, key_shape)
        self.supports_jit = keras.backend.backend() != "tensorflow"  # XLA cannot compile the gradient of the choice in ``mix``

    def folds(self) -> bool:
        """Whether heads are at least as wide as their inputs: then folding saves more than it costs."""
        _, _, key_dim = self.query_kernel.shape
        value_width, _, value_dim = self.value_kernel.shape
        return bool(key_dim >= self.key_kernel.shape[0] and value_dim >= value_width)

    def mix(self, q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any, dropout: float, scaled: bool, causal: bool = False) -> Any:
        """The mixed values, in the fastest way that the memory allows."""
        if not dropout and self.max_distance is None and kernel_takes(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, causal):
            return kernel_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, causal, scaled)
        arguments = self, q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, scaled
        in_blocks, at_once = partial(BlockwiseAttention.mix, *arguments), partial(FusedAttention.mix, *arguments)
        too_many = number_of_weights(q_BHLK, k_BHMK) > MOST_SCORES_AT_ONCE
        if isinstance(too_many, bool):
            return in_blocks() if too_many else at_once()
        # In this order: with the branches swapped, TensorFlow 2.21's graph optimizer makes a whole model give nothing, shape (0,).
        return ops.cond(too_many, in_blocks, at_once)


@keras.saving.register_keras_serializable(package="mha")
class FoldedAttention(FastAttention):
    """``MultiHeadAttention``, folded in every call whose arguments allow it."""

    def folds(self) -> bool:
        """Always."""
        return True


IMPLEMENTATIONS: dict[str, Callable[..., MultiHeadAttention]] = {  # by the values of ``TransformerEncoder.attention_implementation``
    "auto": FastAttention,
    "fused": FusedAttention,
    "per_head": partial(MultiHeadAttention, head_by_head=True),
    "blockwise": BlockwiseAttention,
    "folded": FoldedAttention,
}


def number_of_weights(q_BHLK: Any, k_BHMK: Any) -> Any:
    """B·H·L·M: an integer, or an int64 scalar if a size is known only at run time (an int32 could overflow)."""
    sizes = (*ops.shape(q_BHLK)[:3], ops.shape(k_BHMK)[2])
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return math.prod(ops.cast(size, "int64") for size in sizes)
