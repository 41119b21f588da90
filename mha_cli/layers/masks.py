"""Which query may look at which key, and the softmax that honours it.

Every mask is boolean, True where looking is allowed, and broadcasts to (B, H, L, M); masks compose by logical and.

Axes: B batch, H heads, L query length, M key length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from mha_cli.layers.numerics import custom_gradient

LOWEST = np.finfo(np.float32).min
"""The score of a key that a query may not look at."""


def padding_mask(real_BM: Any) -> Any:
    """(B, 1, 1, M) from the padding mask of the keys, bool (B, M), True at real positions."""
    real_BM = ops.cast(real_BM, "bool")
    if len(real_BM.shape) != 2:
        raise ValueError(f"a padding mask has {len(real_BM.shape)} axes; it takes 2, (batch, length)")
    return ops.expand_dims(real_BM, (1, 2))


def look_ahead_mask(query_length: Any, key_length: Any) -> Any:
    """(1, 1, L, M): a query looks at its own place and at those before it, never ahead.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3.
    """
    return (ops.arange(key_length)[None, :] <= ops.arange(query_length)[:, None])[None, None]


def valid_lengths_mask(valid_lengths: Any, key_length: Any) -> Any:
    """(B, 1, 1, M) or (B, 1, L, M): only the first keys may be looked at.

    Args:
        valid_lengths: number of keys to look at, int (B,) for a number an entry or (B, L) for a number a query.
        key_length: M.
    """
    valid_lengths = ops.cast(valid_lengths, "int32")
    axes = len(valid_lengths.shape)
    if axes not in (1, 2):
        raise ValueError(f"valid_lengths has {axes} axes; it takes 1 (a number an entry) or 2 (a number a query)")
    lengths = valid_lengths[:, None, None, None] if axes == 1 else valid_lengths[:, None, :, None]
    return ops.arange(key_length, dtype="int32") < lengths


def broadcast_mask(mask: Any) -> Any:
    """A mask (L, M) for all, (B, L, M) for all heads, or (B, H, L, M), as one of four axes."""
    mask = ops.cast(mask, "bool")
    axes = len(mask.shape)
    if axes not in (2, 3, 4):
        raise ValueError(f"attention_mask has {axes} axes; it takes (L, M), (B, L, M) or (B, H, L, M)")
    if axes == 4:
        return mask
    return mask[:, None] if axes == 3 else mask[None, None]


def check_fits(name: str, mask_BHLM: Any, sizes: Sequence[int | None]) -> None:
    """Refuse a mask that does not broadcast to the scores.

    Args:
        name: what the error calls the mask.
        mask_BHLM: any four axes.
        sizes: B, H, L and M; None for one not known yet.

    Raises:
        ValueError: naming the mask, its size and the size that fits.
    """
    for axis, found, size in zip(("entries", "heads", "queries", "keys"), mask_BHLM.shape, sizes, strict=True):
        if found != size and None not in (found, size) and found != 1:
            raise ValueError(f"{name} is for {found} {axis}; it takes {size}, or 1 for all alike")


def combine_masks(*masks: Any) -> Any:
    """True where all the given masks are; None where none is given."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def masked_softmax(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """Softmax over the keys that the mask allows, P, computed in float32; a row with no such key is all zeros.

    With dP the gradient that comes back to the weights, and S the scores:

        dS = P ∘ (dP - rowsum(P ∘ dP))

    which needs P alone, in the type of the scores, and is zero where the mask forbids looking.

    Args:
        scores_BHLM: any float type, in which the weights come back.
        mask_BHLM: bool, broadcastable.
    """
    dtype = scores_BHLM.dtype

    @custom_gradient
    def softmax(scores_BHLM: Any) -> Any:
        weights_BHLM = softmax_of_allowed(scores_BHLM, mask_BHLM)

        def gradient(d_weights_BHLM: Any) -> Any:
            p_BHLM = ops.cast(weights_BHLM, "float32")
            p_d_BHLM = p_BHLM * ops.cast(d_weights_BHLM, "float32")
            return ops.cast(p_d_BHLM - p_BHLM * ops.sum(p_d_BHLM, axis=-1, keepdims=True), dtype)

        return weights_BHLM, gradient

    return softmax(scores_BHLM)


def softmax_of_allowed(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """The numbers of ``masked_softmax``, without its gradient."""
    dtype, scores_BHLM = scores_BHLM.dtype, ops.cast(scores_BHLM, "float32")
    if mask_BHLM is None:
        return ops.cast(ops.softmax(scores_BHLM, axis=-1), dtype)
    # A ceiling over the scores and blanking whole rows touch the big (B, H, L, M) array less often than selecting in it would.
    ceiling_BHLM = ops.where(mask_BHLM, np.float32(np.inf), LOWEST)
    weights_BHLM = ops.cast(ops.softmax(ops.minimum(scores_BHLM, ceiling_BHLM), axis=-1), dtype)
    return weights_BHLM * ops.cast(ops.any(mask_BHLM, axis=-1, keepdims=True), dtype)
