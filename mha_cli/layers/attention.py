"""Multi-head attention from scratch: pure functions for the formulas, one layer that projects and reshapes.

Axes: B batch, L query length, M key length, H heads, K key width per head, V value width per head, D width of an input, O output width.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import check_choice, check_shares, check_sizes
from mha_cli.layers.blockwise import blockwise_attention
from mha_cli.layers.folded import fold_output, fold_scores, folded_attention
from mha_cli.layers.masks import (
    broadcast_mask,
    check_fits,
    combine_masks,
    look_ahead_mask,
    masked_softmax,
    padding_mask,
    valid_lengths_mask,
)
from mha_cli.layers.numerics import dot_products

SCORINGS = ("dot_product", "additive")
FORMS = ("auto", "fused", "per_head", "blockwise", "folded")
MOST_WEIGHTS = 2**27
"""Attention weights of a call, B·H·L·M, up to which the form ``auto`` computes them all at once: 512 MiB in float32."""


def scaled_dot_product_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any = None, dropout: Any = None, scaled: bool = True
) -> tuple[Any, Any]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √K) V.

    Args:
        q_BHLK: queries, per head.
        k_BHMK: keys, per head.
        v_BHMV: values, per head.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
        dropout: function applied to the weights before they mix the values.
        scaled: False leaves out 1/√K, to show what it is there for.

    Returns:
        Mixed values (B, H, L, V) and attention weights (B, H, L, M); every row of the weights that may look anywhere sums to 1,
        and a row that may look nowhere is all zeros. The softmax is computed in float32 whatever the type of the arguments.

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1.
    """
    if scaled:
        q_BHLK = q_BHLK * q_BHLK.shape[-1] ** -0.5
    return mix_values(dot_products(q_BHLK, k_BHMK), v_BHMV, mask_BHLM, dropout)


def additive_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, score_kernel_HK: Any, mask_BHLM: Any = None, dropout: Any = None
) -> tuple[Any, Any]:
    """Attention(Q, K, V) = softmax(S) V, where S_lm = wᵀ tanh(q_l + k_m) with one vector w a head.

    Args:
        q_BHLK: queries, per head.
        k_BHMK: keys, per head.
        v_BHMV: values, per head.
        score_kernel_HK: w of every head.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
        dropout: function applied to the weights before they mix the values.

    Returns:
        As ``scaled_dot_product_attention``.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", section A.1.2.
    """
    sums_BHLMK = ops.expand_dims(q_BHLK, 3) + ops.expand_dims(k_BHMK, 2)
    scores_BHLM = ops.sum(ops.tanh(sums_BHLMK) * score_kernel_HK[:, None, None, :], axis=-1)
    return mix_values(scores_BHLM, v_BHMV, mask_BHLM, dropout)


def form_of_auto(number_of_weights: int) -> str:
    """The form that ``auto`` takes for a call with so many attention weights, B·H·L·M."""
    return "fused" if number_of_weights <= MOST_WEIGHTS else "blockwise"


def number_of_weights(q_BHLK: Any, k_BHMK: Any) -> Any:
    """B·H·L·M: an integer, or an int64 scalar where a size is known only when the function runs (an int32 could run over)."""
    sizes = (*ops.shape(q_BHLK)[:3], ops.shape(k_BHMK)[2])
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return math.prod(ops.cast(size, "int64") for size in sizes)


def mix_values(scores_BHLM: Any, v_BHMV: Any, mask_BHLM: Any = None, dropout: Any = None) -> tuple[Any, Any]:
    """softmax(scores) V, and the softmax itself, in the type of V."""
    weights_BHLM = ops.cast(masked_softmax(scores_BHLM, mask_BHLM), v_BHMV.dtype)
    dropped_BHLM = weights_BHLM if dropout is None else dropout(weights_BHLM)
    return ops.matmul(dropped_BHLM, v_BHMV), weights_BHLM


def split_heads(x_BLD: Any, kernel_DHK: Any, bias_HK: Any = None) -> Any:
    """Project to every head at once: x W_i + b_i for all heads i, as (B, H, L, K)."""
    width, heads, head_width = kernel_DHK.shape
    batch, length = ops.shape(x_BLD)[:2]
    projected = ops.matmul(x_BLD, ops.reshape(kernel_DHK, (width, heads * head_width)))
    projected_BLHK = ops.reshape(projected, (batch, length, heads, head_width))
    if bias_HK is not None:
        projected_BLHK = projected_BLHK + bias_HK
    return ops.transpose(projected_BLHK, (0, 2, 1, 3))


def merge_heads(mixed_BHLV: Any, kernel_HVO: Any) -> Any:
    """Concat(head_1, …, head_H) W^O, as (B, L, O)."""
    heads, head_width, output_width = kernel_HVO.shape
    batch, _, length, _ = ops.shape(mixed_BHLV)
    concatenated = ops.reshape(ops.transpose(mixed_BHLV, (0, 2, 1, 3)), (batch, length, heads * head_width))
    return ops.matmul(concatenated, ops.reshape(kernel_HVO, (heads * head_width, output_width)))


@keras.saving.register_keras_serializable(package="mha")
class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Called like ``keras.layers.MultiHeadAttention``, with (query, value, key) and not the (q, k, v) of the formula; its weights have the
    same shapes in the same order.

    Args:
        num_heads: number of heads, H.
        key_dim: width of queries and keys per head, K.
        value_dim: width of values per head, V; ``key_dim`` by default.
        output_dim: width of the output, O; the width of the query by default.
        use_bias: whether the four projections add a bias.
        dropout: share of the attention weights zeroed in training, in [0, 1).
        scoring: ``dot_product`` (Vaswani) or ``additive`` (Bahdanau, one more weight vector of width K a head).
        use_scale: whether dot products are multiplied by 1/√K.
        form: how it is computed, never what. ``fused`` does all heads in one product; ``per_head`` loops over the heads, the form to
            read; ``blockwise`` does a block of queries at a time, so that memory grows linearly with length; ``folded`` multiplies
            W^Q W^Kᵀ and W^V W^O first, which halves the projections where a head is as wide as the input; ``auto`` is ``folded``
            there, unless dropout is active, and ``fused`` elsewhere, and ``blockwise`` where there would be more than 2²⁷ attention
            weights at once, B·H·L·M.

    Masks: a query looks at a key only where every mask given allows it; a query that ``query_mask`` leaves out looks nowhere.
    A query that may look nowhere gets zeros, plus the output bias.

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
        scoring: str = "dot_product",
        use_scale: bool = True,
        form: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(num_heads=num_heads, key_dim=key_dim, value_dim=value_dim, output_dim=output_dim)
        check_shares(dropout=dropout)
        check_choice("scoring", scoring, SCORINGS)
        check_choice("form", form, FORMS)
        if form in ("blockwise", "folded") and scoring == "additive":
            raise ValueError(f"form '{form}' computes dot products only; take form 'fused'")
        if form == "folded" and dropout:
            raise ValueError("form 'folded' computes no dropout; take form 'fused'")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.output_dim = output_dim
        self.use_bias = use_bias
        self.dropout = dropout
        self.scoring = scoring
        self.use_scale = use_scale
        self.form = form
        self.seed_generator = keras.random.SeedGenerator() if dropout else None
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
        if self.scoring == "additive":
            self.score_kernel = self.add_weight(name="score_kernel", shape=(heads, head_key), initializer="glorot_uniform")

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
        valid_lengths: Any = None,
        head_mask: Any = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
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
            attention_mask: bool (L, M), (B, L, M) or (B, H, L, M), broadcastable, True where a query may look at a key.
            valid_lengths: int (B,) or (B, L): how many of the first keys an entry, or a query, may look at.
            head_mask: (H,) or (B, H): a number a head that multiplies what the head gives; 0 silences it.
            return_attention_scores: also return the attention weights, after softmax and before dropout.
            use_causal_mask: whether a query looks only at its own place and those before it.
            training: whether dropout is active.

        Returns:
            (B, L, O), and with ``return_attention_scores`` also the weights (B, H, L, M).
        """
        query_mask = mask if query_mask is None else query_mask
        if value is None:
            value, value_mask = query, query_mask if value_mask is None else value_mask
        key = value if key is None else key
        self._check_inputs(query, value, key)
        query_length, key_length = ops.shape(query)[1], ops.shape(key)[1]
        masks = {
            "value_mask": None if value_mask is None else padding_mask(value_mask),
            "key_mask": None if key_mask is None else padding_mask(key_mask),
            "attention_mask": None if attention_mask is None else broadcast_mask(attention_mask),
            "valid_lengths": None if valid_lengths is None else valid_lengths_mask(valid_lengths, key_length),
            "use_causal_mask": look_ahead_mask(query_length, key_length) if use_causal_mask else None,
        }
        looks_B1L1 = None if query_mask is None else ops.cast(ops.swapaxes(padding_mask(query_mask), 2, 3), self.compute_dtype)
        heads_BH11 = None if head_mask is None else head_gate(ops.cast(head_mask, self.compute_dtype), self.num_heads)
        for name, mask in {**masks, "query_mask": looks_B1L1, "head_mask": heads_BH11}.items():
            if mask is not None:
                check_fits(name, mask, (query.shape[0], self.num_heads, query.shape[1], key.shape[1]))
        mask_BHLM = combine_masks(*masks.values())
        gates = [gate for gate in (looks_B1L1, heads_BH11) if gate is not None]
        gate_BHL1 = math.prod(gates[1:], start=gates[0]) if gates else None
        rate = self.dropout if training else 0.0

        def attend(heads: slice) -> tuple[Any, Any]:
            """What some of the heads give, times their rows of W^O, and their attention weights."""
            q_BHLK = split_heads(query, self.query_kernel[:, heads], self.query_bias[heads] if self.use_bias else None)
            k_BHMK = split_heads(key, self.key_kernel[:, heads], self.key_bias[heads] if self.use_bias else None)
            v_BHMV = split_heads(value, self.value_kernel[:, heads], self.value_bias[heads] if self.use_bias else None)
            mask = of_heads(mask_BHLM, heads)
            mixed_BHLV, weights_BHLM = self._mix(heads, q_BHLK, k_BHMK, v_BHMV, mask, rate, self.use_scale, return_attention_scores)
            if gate_BHL1 is not None:
                mixed_BHLV = mixed_BHLV * of_heads(gate_BHL1, heads)
            return merge_heads(mixed_BHLV, self.output_kernel[heads]), weights_BHLM

        folds = self._folds and not rate
        if folds:
            output_BLO, weights_BHLM = self._attend_folded((query, key, value), mask_BHLM, gate_BHL1, return_attention_scores)
        elif self.form == "per_head":
            # Concat(head_1, …, head_H) W^O is the sum over the heads of each one times its own rows of W^O.
            parts = [attend(slice(head, head + 1)) for head in range(self.num_heads)]
            output_BLO = sum(output for output, _ in parts)
            weights_BHLM = ops.concatenate([weights for _, weights in parts], axis=1) if return_attention_scores else None
        else:
            output_BLO, weights_BHLM = attend(slice(None))
        if self.use_bias and not folds:  # which adds it to the biases of the values first
            output_BLO = output_BLO + self.output_bias
        if not return_attention_scores:
            return output_BLO
        return output_BLO, weights_BHLM if looks_B1L1 is None else weights_BHLM * looks_B1L1

    def _check_inputs(self, query: Any, value: Any, key: Any) -> None:
        given = {"query": (query, self.query_kernel), "value": (value, self.value_kernel), "key": (key, self.key_kernel)}
        for name, (x, kernel) in given.items():
            if len(x.shape) != 3 or x.shape[-1] not in (None, kernel.shape[0]):
                raise ValueError(f"{name} has shape {tuple(x.shape)}; it takes (batch, length, {kernel.shape[0]})")
        for one, other, axis, what in (("query", "value", 0, "entries"), ("value", "key", 0, "entries"), ("value", "key", 1, "places")):
            sizes = given[one][0].shape[axis], given[other][0].shape[axis]
            if sizes[0] != sizes[1] and None not in sizes:
                raise ValueError(f"{one} has {sizes[0]} {what} and {other} has {sizes[1]}; both need the same number")

    @property
    def _folds(self) -> bool:
        """Whether the form is ``folded``, or ``auto`` with heads as wide as what they project."""
        wide = self.query_kernel.shape[2] >= self.key_kernel.shape[0] and self.value_kernel.shape[2] >= self.value_kernel.shape[0]
        return self.form == "folded" or (self.form == "auto" and self.scoring == "dot_product" and wide)

    def _attend_folded(self, inputs: tuple[Any, Any, Any], mask_BHLM: Any, gate_BHL1: Any, return_weights: bool) -> tuple[Any, Any]:
        """What all heads give together, and their attention weights."""
        # The key bias drops out; times zero it still has a gradient, zero, where an optimizer looks for one.
        query_bias = self.query_bias + 0.0 * self.key_bias if self.use_bias else None
        scores_kernel_DHE = fold_scores(self.query_kernel, query_bias, self.key_kernel, self.use_scale)
        output_kernel_HFO = fold_output(self.value_kernel, self.value_bias, self.output_kernel)

        def attend(q_B1QE: Any, k_B1ME: Any, v_B1MF: Any, mask_B1QM: Any) -> tuple[Any, Any]:
            return self._mix(slice(None), q_B1QE, k_B1ME, v_B1MF, mask_B1QM, 0.0, False, return_weights)

        return folded_attention(*inputs, scores_kernel_DHE, output_kernel_HFO, attend, mask_BHLM, gate_BHL1, self.output_bias)

    def _mix(
        self,
        heads: slice,
        q_BHLK: Any,
        k_BHMK: Any,
        v_BHMV: Any,
        mask_BHLM: Any,
        dropout: float,
        scaled: bool,
        return_weights: bool,
    ) -> tuple[Any, Any]:
        """The attention function that scoring and form ask for; the weights may be None where they are not asked for."""
        drop = (lambda weights: keras.random.dropout(weights, dropout, seed=self.seed_generator)) if dropout else None
        if self.scoring == "additive":
            return additive_attention(q_BHLK, k_BHMK, v_BHMV, self.score_kernel[heads], mask_BHLM, drop)

        def at_once() -> tuple[Any, Any]:
            return scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, drop, scaled)

        def by_blocks() -> Any:
            seed = self.seed_generator.next() if self.seed_generator is not None and dropout else None
            return blockwise_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, seed, scaled=scaled)

        if return_weights or self.form in ("fused", "per_head", "folded"):
            return at_once()
        if self.form == "blockwise":
            return by_blocks(), None
        weights = number_of_weights(q_BHLK, k_BHMK)
        if isinstance(weights, int):
            return at_once() if form_of_auto(weights) == "fused" else (by_blocks(), None)
        # In this order: with the branches swapped, TensorFlow 2.21's graph optimizer makes a whole model give nothing, shape (0,).
        return ops.cond(weights > MOST_WEIGHTS, by_blocks, lambda: at_once()[0]), None

    def compute_mask(self, query: Any, query_mask: Any = None, **_: Any) -> Any:
        """The output keeps the query's mask."""
        return query_mask

    def compute_output_shape(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> tuple[Any, ...]:
        """(B, L, O)."""
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def compute_output_spec(self, query: Any, value: Any = None, key: Any = None, return_attention_scores: bool = False, **_: Any) -> Any:
        """What a symbolic call gives: (B, L, O), and the weights (B, H, L, M) where they are asked for."""
        output = keras.KerasTensor(self.compute_output_shape(query.shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        keys = next(tensor for tensor in (key, value, query) if tensor is not None)
        return output, keras.KerasTensor((query.shape[0], self.num_heads, query.shape[1], keys.shape[1]), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = ("num_heads", "key_dim", "value_dim", "output_dim", "use_bias", "dropout", "scoring", "use_scale", "form")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def head_gate(head_mask: Any, num_heads: int) -> Any:
    """(1, H, 1, 1) or (B, H, 1, 1) from a number a head, (H,) or (B, H).

    Raises:
        ValueError: naming the shape found and the shapes that fit.
    """
    shape = tuple(head_mask.shape)
    if len(shape) not in (1, 2) or shape[-1] not in (None, num_heads):
        raise ValueError(f"head_mask has shape {shape}; it takes ({num_heads},) or (batch, {num_heads}), a number a head")
    return ops.reshape(head_mask, (-1, num_heads, 1, 1))


def of_heads(x_BHLM: Any, heads: slice) -> Any:
    """The part of a mask or gate that belongs to some of the heads; one that is the same for all of them stays whole."""
    return x_BHLM if x_BHLM is None or x_BHLM.shape[1] == 1 else x_BHLM[:, heads]
