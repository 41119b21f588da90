"""What attention has learned since 2017, a function each, and the arguments of the layer that add them.

The formula of attention stays as it is: the parts change what goes into it. docs/attention-since-2017.md draws them and computes each by
hand.

Axes: B batch, L length, H heads, G heads of keys and values, M key length, K key width per head.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from mha_cli.layers.arguments import AttentionLayer, check_choice, check_sizes


@keras.saving.register_keras_serializable(package="mha")
class RMSNormalization(keras.layers.RMSNormalization):
    """Keras's layer, which passes the mask on."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True


NORMS = {"layer": keras.layers.LayerNormalization, "rms": RMSNormalization}
"""Normalizations by name. RMS(x) = γ x / √(mean(x²) + ε): without the mean of layer normalization, and without its β.

Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4; of queries and keys: Henry et al. 2020, "Query-Key
Normalization for Transformers", section 3.
"""


def rotary_positions(x_BHLK: Any, base: float = 10_000.0) -> Any:
    """Queries or keys, turned by their positions: the pair (x_i, x_(i + K/2)) at position l by the angle l / base^(2i/K).

    The dot product of a query at l and a key at m then depends on l - m, and not on l and m themselves. K is even. Angles are float32.

    Source: Su et al. 2021, "RoFormer", eq. 34; with the pairs of halves, not of neighbours, as most models pair them.
    """
    half = x_BHLK.shape[-1] // 2
    rate_I = ops.convert_to_tensor(base ** (-np.arange(half, dtype=np.float64) / half), "float32")
    angle_LI = ops.expand_dims(ops.arange(ops.shape(x_BHLK)[-2], dtype="float32"), 1) * rate_I
    cos_LI, sin_LI = ops.cast(ops.cos(angle_LI), x_BHLK.dtype), ops.cast(ops.sin(angle_LI), x_BHLK.dtype)
    a, b = x_BHLK[..., :half], x_BHLK[..., half:]
    return ops.concatenate([a * cos_LI - b * sin_LI, b * cos_LI + a * sin_LI], axis=-1)


def linear_biases(num_heads: int, query_length: Any, key_length: Any) -> Any:
    """-2^(-8h/H) |l - m|, what head h = 1, …, H adds to the score of a query at l and a key at m, float32 (H, L, M).

    Source: Press et al. 2022, "Train Short, Test Long" (ALiBi), section 3, where queries look back only.
    """
    slope_H11 = (2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads))[:, None, None]
    return ops.convert_to_tensor(-slope_H11, "float32") * ops.cast(distances(query_length, key_length), "float32")


def within(max_distance: int | None, mask_BHLM: Any, query_length: Any, key_length: Any) -> Any:
    """The mask, and where there is a ``max_distance``, only for keys at most so far from the query: |l - m| ≤ max_distance.

    Source: Beltagy et al. 2020, "Longformer", section 3.1, sliding window.
    """
    if max_distance is None:
        return mask_BHLM
    near_LM = distances(query_length, key_length) <= max_distance
    return near_LM if mask_BHLM is None else ops.logical_and(mask_BHLM, near_LM)


def distances(query_length: Any, key_length: Any) -> Any:
    """|l - m|, int (L, M)."""
    return ops.abs(ops.expand_dims(ops.arange(query_length), 1) - ops.arange(key_length))


def shared_heads(x_BGMK: Any, num_heads: int) -> Any:
    """Keys or values of G heads for H heads, (B, H, M, K): each group of H / G neighbouring heads of queries shares one of them.

    Source: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models", section 2.2; G = 1: Shazeer 2019, "Fast
    Transformer Decoding: One Write-Head is All You Need", section 3.
    """
    group = num_heads // x_BGMK.shape[1]
    return x_BGMK if group == 1 else ops.repeat(x_BGMK, group, axis=1)


class PartsSince2017(AttentionLayer):
    """The parts as arguments of an attention layer, all of them off by default.

    Args:
        num_heads, key_dim: heads of queries, H, and their width, K.
        num_key_value_heads: heads of keys and values, G; ``num_heads`` by default.
        rotary_base: base of rotary positions; None for none.
        linear_biases: whether linear biases are added to scores.
        max_distance: number of positions to either side that a query looks at; None for all.
        query_key_norm: normalization of queries and keys, per head, in ``NORMS``; None for none.
        norm_epsilon: number that this normalization adds to variances.
    """

    def __init__(
        self, num_heads: int, key_dim: int, num_key_value_heads: int | None = None, rotary_base: float | None = None,
        linear_biases: bool = False, max_distance: int | None = None, query_key_norm: str | None = None, norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        check_sizes(num_heads=num_heads, key_dim=key_dim, num_key_value_heads=num_key_value_heads, max_distance=max_distance)
        if num_heads % (num_key_value_heads or 1):
            raise ValueError(f"num_key_value_heads {num_key_value_heads} does not divide num_heads {num_heads}")
        if rotary_base is not None and key_dim % 2:
            raise ValueError(f"key_dim is {key_dim}; rotary positions turn pairs, so it must be even")
        self.num_heads, self.key_dim = num_heads, key_dim
        self.num_key_value_heads, self.rotary_base, self.linear_biases = num_key_value_heads, rotary_base, linear_biases
        self.max_distance, self.query_key_norm, self.norm_epsilon = max_distance, query_key_norm, norm_epsilon
        if query_key_norm is not None:
            check_choice("query_key_norm", query_key_norm, [*NORMS])
            norm, policy = NORMS[query_key_norm], self.dtype_policy
            self.query_norm = norm(epsilon=norm_epsilon, dtype=policy, name="query_norm")
            self.key_norm = norm(epsilon=norm_epsilon, dtype=policy, name="key_norm")

    def build_norms(self, key_dim: int) -> None:
        """Create the weights of the normalizations of queries and keys."""
        if self.query_key_norm is not None:
            self.query_norm.build((None, None, None, key_dim))
            self.key_norm.build((None, None, None, key_dim))

    def to_compare(self, q_BHLK: Any, k_BGMK: Any) -> tuple[Any, Any]:
        """Queries and keys, normalized and turned by their positions where the arguments say so."""
        if self.query_key_norm is not None:
            q_BHLK, k_BGMK = self.query_norm(q_BHLK), self.key_norm(k_BGMK)
        if self.rotary_base is not None:
            q_BHLK, k_BGMK = rotary_positions(q_BHLK, self.rotary_base), rotary_positions(k_BGMK, self.rotary_base)
        return q_BHLK, k_BGMK

    def of_distances(self, q_BHLK: Any, k_BHMK: Any, mask_BHLM: Any, head: Any) -> tuple[Any, Any]:
        """The mask within ``max_distance``, and the linear biases of all heads or one; None for none."""
        lengths = ops.shape(q_BHLK)[-2], ops.shape(k_BHMK)[-2]
        bias = linear_biases(self.num_heads, *lengths)[head] if self.linear_biases else None
        return within(self.max_distance, mask_BHLM, *lengths), bias
