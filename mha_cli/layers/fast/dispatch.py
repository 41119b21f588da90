"""Which form computes a call of the attention layer: the one place where forms are chosen.

What it buys: ``auto`` projects half as much where heads are wide (``folded.py``), and needs memory that grows with length and not with its
square where there would be many attention weights (``blockwise.py``).

Axes: B batch, H heads, L query length, M key length, K key width per head.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from keras import ops

from mha_cli.layers.arguments import check_choice
from mha_cli.layers.fast.blockwise import blockwise_attention
from mha_cli.layers.fast.folded import attend_folded, folded

FORMS = ("auto", "fused", "per_head", "blockwise", "folded")
MOST_WEIGHTS = 2**27
"""Attention weights of a call, B·H·L·M, up to which the form ``auto`` computes them all at once: 512 MiB in float32."""


def check_form(form: str, attention_score: str, dropout: float) -> None:
    """Refuse a form that there is not, or that does not compute what the layer is to compute."""
    check_choice("form", form, FORMS)
    if form in ("blockwise", "folded") and attention_score == "additive":
        raise ValueError(f"form '{form}' computes dot products only; take form 'fused'")
    if form == "folded" and dropout:
        raise ValueError("form 'folded' computes no dropout; take form 'fused'")


def dispatch(
    layer: Any, query: Any, key: Any, value: Any, mask_BHLM: Any, gate_BHL1: Any, dropout: float, return_attention_scores: bool
) -> Any:
    """What ``MultiHeadAttention.call`` gives, from the masks and gates of the call and the dropout of its weights.

    ``auto`` folds heads as wide as what they project, unless dropout is active, and takes blocks where there would be more than
    ``MOST_WEIGHTS`` weights. Weights that are to be returned are computed at once.
    """
    folds = layer.form == "folded" or (layer.form == "auto" and not dropout and folding_pays(layer))

    def at_once(q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any) -> tuple[Any, Any]:
        if folds:
            return attend_folded(q_BHLK, k_BHMK, v_BHMV, mask_BHLM)
        return layer.attend(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout)

    def by_blocks(q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any) -> tuple[Any, Any]:
        seed = layer.seed_generator.next() if dropout else None
        return blockwise_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, seed, scaled=layer.use_scale and not folds), None

    def at_once_or_by_blocks(*inputs: Any) -> tuple[Any, Any]:
        weights = number_of_weights(*inputs[:2])
        if isinstance(weights, int):
            return (at_once if form_of_auto(weights) == "fused" else by_blocks)(*inputs)
        # In this order: with the branches swapped, TensorFlow 2.21's graph optimizer makes a whole model give nothing, shape (0,).
        return ops.cond(weights > MOST_WEIGHTS, lambda: by_blocks(*inputs)[0], lambda: at_once(*inputs)[0]), None

    if layer.form == "per_head":
        output_BLO, weights_BHLM = layer.per_head(query, key, value, mask_BHLM, gate_BHL1, dropout)
    else:
        choices = {"auto": at_once_or_by_blocks, "blockwise": by_blocks, "fused": at_once, "folded": at_once}
        attend = at_once if return_attention_scores or layer.attention_score == "additive" else choices[layer.form]
        form = partial(folded, layer) if folds else layer.fused
        output_BLO, weights_BHLM = form(query, key, value, mask_BHLM, gate_BHL1, attend)
    return (output_BLO, weights_BHLM) if return_attention_scores else output_BLO


def folding_pays(layer: Any) -> bool:
    """Whether the heads of a layer that takes dot products are as wide as what they project, or wider."""
    _, _, key_dim = layer.query_kernel.shape
    value_width, _, value_dim = layer.value_kernel.shape
    return layer.attention_score == "dot_product" and key_dim >= layer.key_kernel.shape[0] and value_dim >= value_width


def form_of_auto(number_of_weights: int) -> str:
    """The form that ``auto`` takes for a call with so many attention weights, B·H·L·M."""
    return "fused" if number_of_weights <= MOST_WEIGHTS else "blockwise"


def number_of_weights(q_BHLK: Any, k_BHMK: Any) -> Any:
    """B·H·L·M: an integer, or an int64 scalar where a size is known only when the function runs (an int32 could run over)."""
    sizes = (*ops.shape(q_BHLK)[:3], ops.shape(k_BHMK)[2])
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return math.prod(ops.cast(size, "int64") for size in sizes)
