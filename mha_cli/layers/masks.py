"""Which query may look at which key.

Every mask is boolean, True where looking is allowed, and broadcasts to (B, H, L, M); masks compose by logical and. None is no mask.

Axes: B batch, H heads, L query length, M key length.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from keras import ops


def allowed_keys(
    sizes: Sequence[int | None],
    query_BLD: Any,
    key_BMD: Any,
    value_mask: Any = None,
    key_mask: Any = None,
    attention_mask: Any = None,
    valid_lengths: Any = None,
    use_causal_mask: bool = False,
) -> tuple[Any, bool]:
    """The logical and of a call's masks, and whether it is the causal mask alone; ``sizes`` are B, H, L and M, None if not known yet."""
    query_length, key_length = ops.shape(query_BLD)[1], ops.shape(key_BMD)[1]
    causal_11LM = look_ahead_mask(query_length, key_length) if use_causal_mask else None
    mask_BHLM = combine(
        sizes,
        value_mask=padding_mask(value_mask),
        key_mask=padding_mask(key_mask),
        attention_mask=broadcast_mask(attention_mask),
        valid_lengths=valid_lengths_mask(valid_lengths, key_length),
        use_causal_mask=causal_11LM,
    )
    return mask_BHLM, use_causal_mask and mask_BHLM is causal_11LM


def blank_padding(query_mask: Any, sizes: Sequence[int | None], output_BLO: Any, weights_BHLM: Any, bias_O: Any) -> tuple[Any, Any]:
    """Output and weights, with the output bias and zeros for queries whose ``query_mask``, bool (B, L), is False."""
    if query_mask is None:
        return output_BLO, weights_BHLM
    real_B1L1 = combine(sizes, query_mask=ops.swapaxes(padding_mask(query_mask), 2, 3))
    output_BLO = ops.where(real_B1L1[:, 0], output_BLO, 0.0 if bias_O is None else ops.convert_to_tensor(bias_O))
    return output_BLO, None if weights_BHLM is None else ops.where(real_B1L1, weights_BHLM, 0.0)


def padding_mask(real_BM: Any) -> Any:
    """(B, 1, 1, M) from the padding mask of the keys, bool (B, M), True at real positions."""
    if real_BM is None:
        return None
    real_BM = ops.cast(real_BM, "bool")
    if len(real_BM.shape) != 2:
        raise ValueError(f"a padding mask has {len(real_BM.shape)} axes; it takes 2, (batch, length)")
    return ops.expand_dims(real_BM, (1, 2))


def look_ahead_mask(query_length: Any, key_length: Any) -> Any:
    """(1, 1, L, M): a query looks at its own position and at earlier ones, never ahead.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3.
    """
    return (ops.arange(key_length)[None, :] <= ops.arange(query_length)[:, None])[None, None]


def valid_lengths_mask(valid_lengths: Any, key_length: Any) -> Any:
    """(B, 1, 1, M) or (B, 1, L, M): True for the first keys, as many as ``valid_lengths``, int (B,) or (B, L)."""
    if valid_lengths is None:
        return None
    valid_lengths = ops.cast(valid_lengths, "int32")
    axes = len(valid_lengths.shape)
    if axes not in (1, 2):
        raise ValueError(f"valid_lengths has {axes} axes; it takes 1 (one number per entry) or 2 (one number per query)")
    lengths = valid_lengths[:, None, None, None] if axes == 1 else valid_lengths[:, None, :, None]
    return ops.arange(key_length, dtype="int32") < lengths


def broadcast_mask(mask: Any) -> Any:
    """A mask (L, M), (B, L, M) or (B, H, L, M) with all four axes."""
    if mask is None:
        return None
    mask = ops.cast(mask, "bool")
    axes = len(mask.shape)
    if axes not in (2, 3, 4):
        raise ValueError(f"attention_mask has {axes} axes; it takes (L, M), (B, L, M) or (B, H, L, M)")
    if axes == 4:
        return mask
    return mask[:, None] if axes == 3 else mask[None, None]


def head_gate(head_mask: Any, sizes: Sequence[int | None], dtype: str) -> Any:
    """The factor of each head, (1, H, 1, 1) or (B, H, 1, 1), from (H,) or (B, H); ``sizes`` are B, H, L and M."""
    if head_mask is None:
        return None
    head_mask = ops.cast(head_mask, dtype)
    shape, num_heads = tuple(head_mask.shape), sizes[1]
    if len(shape) not in (1, 2) or shape[-1] not in (None, num_heads):
        raise ValueError(f"head_mask has shape {shape}; it takes ({num_heads},) or (batch, {num_heads}), one number per head")
    return combine(sizes, head_mask=ops.reshape(head_mask, (-1, num_heads, 1, 1)))


def combine(sizes: Sequence[int | None], **masks: Any) -> Any:
    """The logical and of the masks that are not None, each of which must broadcast to ``sizes``; None if there are none.

    Args:
        sizes: B, H, L and M; None for a size not known yet.
        masks: masks by their names in errors.
    """
    given = {name: mask for name, mask in masks.items() if mask is not None}
    for name, mask in given.items():
        for axis, mask_size, size in zip(("entries", "heads", "queries", "keys"), mask.shape, sizes, strict=True):
            if mask_size not in (size, 1, None) and size is not None:
                raise ValueError(f"{name} is for {mask_size} {axis}; it takes {size}, or 1 for all alike")
    return reduce(ops.logical_and, given.values()) if given else None


def of_head(x_BHLM: Any, i: int) -> Any:
    """The mask or factor of head i, (B, L, M)."""
    return None if x_BHLM is None else x_BHLM[:, 0 if x_BHLM.shape[1] == 1 else i]
