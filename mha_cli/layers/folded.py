"""Attention with its kernels multiplied first: two projections instead of four, for heads as wide as their input.

With x̃ = (x, 1) and W̃ = (W; b), a projection is x W + b = x̃ W̃, and a head

    softmax((x W^Q + b^Q) (x W^K + b^K)ᵀ / √K) (x W^V + b^V) W^O  =  softmax(x̃ A x̃ᵀ) x̃ B   with   A = W̃^Q W̃^Kᵀ / √K,   B = W̃^V W^O

so that all heads have the inputs themselves for keys and values. What is left of a head, A and B, says where it looks and what it writes.

Axes: B batch, L query length, M key length, H heads, K key width per head, V value width per head, D, E and F widths of x̃ for queries, keys
and values, O output width.

Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", section "Attention Heads are Independent and Additive".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops


def with_ones(x_BLD: Any) -> Any:
    """x̃ = (x, 1): (B, L, D + 1)."""
    return ops.concatenate([x_BLD, ops.ones_like(x_BLD[:, :, :1])], axis=-1)


def with_bias(kernel_DHK: Any, bias_HK: Any) -> Any:
    """W̃ = (W; b): (D + 1, H, K)."""
    return ops.concatenate([kernel_DHK, ops.expand_dims(bias_HK, 0)], axis=0)


def fold_kernels(
    query_kernel_DHK: Any, key_kernel_EHK: Any, value_kernel_FHV: Any, output_kernel_HVO: Any, scaled: bool
) -> tuple[Any, Any]:
    """A of every head, (D, H, E), and B, (H, F, O).

    Args:
        query_kernel_DHK: W^Q, or W̃^Q.
        key_kernel_EHK: W^K, or W̃^K.
        value_kernel_FHV: W^V, or W̃^V.
        output_kernel_HVO: W^O.
        scaled: whether A has the factor 1/√K.
    """
    scores_kernel_DHE = ops.einsum("dhk,ehk->dhe", query_kernel_DHK, key_kernel_EHK)
    if scaled:
        scores_kernel_DHE = scores_kernel_DHE * query_kernel_DHK.shape[-1] ** -0.5
    return scores_kernel_DHE, ops.einsum("fhv,hvo->hfo", value_kernel_FHV, output_kernel_HVO)


def folded_attention(
    query_BLD: Any,
    key_BME: Any,
    value_BMF: Any,
    scores_kernel_DHE: Any,
    output_kernel_HFO: Any,
    attend: Callable[[Any, Any, Any, Any], tuple[Any, Any]],
    mask_BHLM: Any = None,
    gate_BH11: Any = None,
) -> tuple[Any, Any]:
    """The sum over the heads of softmax(x̃ A x̃ᵀ) x̃ B.

    As all heads have the same keys and values, the H queries of each of the L places are taken for L·H queries of one head.

    Args:
        query_BLD: x̃ of the queries.
        key_BME: x̃ of the keys.
        value_BMF: x̃ of the values.
        scores_kernel_DHE: A of every head.
        output_kernel_HFO: B of every head.
        attend: softmax(Q Kᵀ) V from Q, K, V and a mask, each with an axis of heads; also gives the weights, or None.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
        gate_BH11: a number a head that multiplies what the head gives.

    Returns:
        (B, L, O), and the weights (B, H, L, M) if ``attend`` gives them.
    """
    width, heads, key_width = scores_kernel_DHE.shape
    _, value_width, output_width = output_kernel_HFO.shape
    (batch, length), keys = ops.shape(query_BLD)[:2], ops.shape(key_BME)[1]
    q_BLE = ops.matmul(query_BLD, ops.reshape(scores_kernel_DHE, (width, heads * key_width)))
    q_B1QE = ops.reshape(q_BLE, (batch, 1, length * heads, key_width))
    mask_B1QM = as_one_head(mask_BHLM, heads, length)
    mixed_B1QF, weights_B1QM = attend(q_B1QE, ops.expand_dims(key_BME, 1), ops.expand_dims(value_BMF, 1), mask_B1QM)
    mixed_BLHF = ops.reshape(mixed_B1QF, (batch, length, heads, value_width))
    if gate_BH11 is not None:
        mixed_BLHF = mixed_BLHF * ops.swapaxes(gate_BH11, 1, 2)
    joined = ops.reshape(mixed_BLHF, (batch, length, heads * value_width))
    output_BLO = ops.matmul(joined, ops.reshape(output_kernel_HFO, (heads * value_width, output_width)))
    if weights_B1QM is None:
        return output_BLO, None
    return output_BLO, ops.transpose(ops.reshape(weights_B1QM, (batch, length, heads, keys)), (0, 2, 1, 3))


def as_one_head(mask_BHLM: Any, num_heads: int, length: Any) -> Any:
    """The mask for the queries of all heads, a place's one after the other, as if they were of one head: (B, 1, L·H, M)."""
    if mask_BHLM is None or (mask_BHLM.shape[1] == 1 and mask_BHLM.shape[2] == 1):
        return mask_BHLM  # the same for all of them
    batch, _, _, keys = ops.shape(mask_BHLM)
    mask_BLHM = ops.transpose(ops.broadcast_to(mask_BHLM, (batch, num_heads, length, keys)), (0, 2, 1, 3))
    return ops.reshape(mask_BLHM, (batch, 1, length * num_heads, keys))
