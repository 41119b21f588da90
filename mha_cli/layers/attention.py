"""Multi-head attention from scratch: one pure function for the formula, one layer that projects and reshapes.

Axes: B batch, L query length, M key length, H heads, K key width per head, V value width per head, D model width, O output width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

MASKED = -1e9
"""Added to the score of a key that a query may not look at: its exponential is exactly 0 in float32."""


def scaled_dot_product_attention(q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any = None, dropout: Any = None) -> tuple[Any, Any]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √K) V.

    The softmax is computed in float32 whatever the type of the arguments.

    Args:
        q_BHLK: queries, per head.
        k_BHMK: keys, per head.
        v_BHMV: values, per head.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
        dropout: function applied to the weights before they mix the values.

    Returns:
        Mixed values (B, H, L, V) and attention weights (B, H, L, M); every row of the weights that may look anywhere sums to 1,
        and a row that may look nowhere is all zeros.

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1.
    """
    scale = q_BHLK.shape[-1] ** -0.5
    scores_BHLM = ops.matmul(q_BHLK * scale, ops.swapaxes(k_BHMK, -1, -2))
    weights_BHLM = ops.cast(masked_softmax(scores_BHLM, mask_BHLM), v_BHMV.dtype)
    dropped_BHLM = weights_BHLM if dropout is None else dropout(weights_BHLM)
    return ops.matmul(dropped_BHLM, v_BHMV), weights_BHLM


def masked_softmax(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """Softmax over the keys that the mask allows, in float32; a row with no such key is all zeros.

    Args:
        scores_BHLM: any float type.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
    """
    scores_BHLM = ops.cast(scores_BHLM, "float32")
    if mask_BHLM is None:
        return ops.softmax(scores_BHLM, axis=-1)
    # Adding to the scores and blanking whole rows touches the big (B, H, L, M) array less often than selecting in it would.
    allowed_BHLM = ops.cast(mask_BHLM, "float32")
    weights_BHLM = ops.softmax(scores_BHLM + (1.0 - allowed_BHLM) * MASKED, axis=-1)
    return weights_BHLM * ops.max(allowed_BHLM, axis=-1, keepdims=True)


def split_heads(x_BLD: Any, kernel_DHK: Any, bias_HK: Any = None) -> Any:
    """Project to every head at once: x W_i + b_i for all heads i, as (B, H, L, K)."""
    width, heads, head_width = kernel_DHK.shape
    projected = ops.matmul(x_BLD, ops.reshape(kernel_DHK, (width, heads * head_width)))
    projected_BLHK = ops.reshape(projected, (*ops.shape(x_BLD)[:2], heads, head_width))
    if bias_HK is not None:
        projected_BLHK = projected_BLHK + bias_HK
    return ops.transpose(projected_BLHK, (0, 2, 1, 3))


def merge_heads(mixed_BHLV: Any, kernel_HVO: Any, bias_O: Any = None) -> Any:
    """Concat(head_1, …, head_H) W^O + b, as (B, L, O)."""
    heads, head_width, output_width = kernel_HVO.shape
    mixed_BLHV = ops.transpose(mixed_BHLV, (0, 2, 1, 3))
    concatenated = ops.reshape(mixed_BLHV, (*ops.shape(mixed_BLHV)[:2], heads * head_width))
    output_BLO = ops.matmul(concatenated, ops.reshape(kernel_HVO, (heads * head_width, output_width)))
    return output_BLO if bias_O is None else output_BLO + bias_O


@keras.saving.register_keras_serializable(package="mha")
class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Called like ``keras.layers.MultiHeadAttention``, and its weights have the same shapes in the same order.

    Args:
        num_heads: number of heads H.
        key_dim: width of queries and keys per head, K.
        value_dim: width of values per head, V; ``key_dim`` by default.
        output_dim: width of the output, O; the width of the query by default.
        use_bias: whether the four projections add a bias.
        dropout: share of the attention weights zeroed in training, in [0, 1).

    Masks: a query looks at a key only where ``attention_mask``, ``key_mask`` and ``value_mask`` all allow it; a query that
    ``query_mask`` leaves out looks nowhere. A query that may look nowhere gets zeros, plus the output bias.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        output_dim: int | None = None,
        use_bias: bool = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for name, size in (("num_heads", num_heads), ("key_dim", key_dim), ("value_dim", value_dim), ("output_dim", output_dim)):
            if size is not None and size < 1:
                raise ValueError(f"{name} is {size}; it must be at least 1")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.output_dim = output_dim
        self.use_bias = use_bias
        self.dropout = dropout
        self.weights_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        """Create the four projections; widths come from the last axis of each shape."""
        query_width = query_shape[-1]
        value_width = (value_shape or query_shape)[-1]
        key_width = (key_shape or value_shape or query_shape)[-1]
        heads, head_key, head_value = self.num_heads, self.key_dim, self.value_dim or self.key_dim
        output_width = self.output_dim or query_width
        self.query_kernel, self.query_bias = self._projection("query", (query_width, heads, head_key), (heads, head_key))
        self.key_kernel, self.key_bias = self._projection("key", (key_width, heads, head_key), (heads, head_key))
        self.value_kernel, self.value_bias = self._projection("value", (value_width, heads, head_value), (heads, head_value))
        self.output_kernel, self.output_bias = self._projection("output", (heads, head_value, output_width), (output_width,))

    def _projection(self, name: str, kernel_shape: tuple[int, ...], bias_shape: tuple[int, ...]) -> tuple[Any, Any]:
        kernel = self.add_weight(name=f"{name}_kernel", shape=kernel_shape, initializer="glorot_uniform")
        bias = self.add_weight(name=f"{name}_bias", shape=bias_shape, initializer="zeros") if self.use_bias else None
        return kernel, bias

    def call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        mask: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Attend from every query position to the key positions.

        Args:
            query: (B, L, query width).
            value: (B, M, value width); the query by default, which makes it self-attention.
            key: (B, M, key width); the value by default.
            mask: the query's padding mask where query is the only argument.
            query_mask: bool (B, L), True at real positions; Keras fills it in from an Embedding's mask.
            value_mask: bool (B, M), likewise.
            key_mask: bool (B, M), likewise.
            attention_mask: bool (B, L, M) or (B, H, L, M) or broadcastable to it, True where a query may look at a key.
            return_attention_scores: also return the attention weights, after softmax and before dropout.
            training: whether dropout is active.

        Returns:
            (B, L, O), and with ``return_attention_scores`` also the weights (B, H, L, M).
        """
        query_mask = mask if query_mask is None else query_mask
        if value is None:
            value, value_mask = query, query_mask if value_mask is None else value_mask
        key = value if key is None else key
        q_BHLK = split_heads(query, self.query_kernel, self.query_bias)
        k_BHMK = split_heads(key, self.key_kernel, self.key_bias)
        v_BHMV = split_heads(value, self.value_kernel, self.value_bias)
        mixed_BHLV, weights_BHLM = scaled_dot_product_attention(
            q_BHLK,
            k_BHMK,
            v_BHMV,
            combine_masks(value_mask, key_mask, attention_mask),
            dropout=(lambda weights: self.weights_dropout(weights, training=training)) if self.dropout else None,
        )
        if query_mask is not None:
            looks_B1L1 = ops.cast(query_mask, mixed_BHLV.dtype)[:, None, :, None]
            mixed_BHLV = mixed_BHLV * looks_B1L1
            weights_BHLM = weights_BHLM * looks_B1L1
        output_BLO = merge_heads(mixed_BHLV, self.output_kernel, self.output_bias)
        return (output_BLO, weights_BHLM) if return_attention_scores else output_BLO

    def compute_mask(self, query: Any, query_mask: Any = None, **_: Any) -> Any:
        """The output keeps the query's mask."""
        return query_mask

    def compute_output_shape(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> tuple[Any, ...]:
        """(B, L, O)."""
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = ("num_heads", "key_dim", "value_dim", "output_dim", "use_bias", "dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def combine_masks(value_mask: Any, key_mask: Any, attention_mask: Any) -> Any:
    """One mask, broadcastable to (B, H, L, M), that is True where all those given are; None where none is."""
    parts = [ops.cast(mask_BM, "bool")[:, None, None, :] for mask_BM in (value_mask, key_mask) if mask_BM is not None]
    if attention_mask is not None:
        attention_mask = ops.cast(attention_mask, "bool")
        parts.append(attention_mask[:, None] if len(attention_mask.shape) == 3 else attention_mask)
    if not parts:
        return None
    combined = parts[0]
    for part in parts[1:]:
        combined = ops.logical_and(combined, part)
    return combined
