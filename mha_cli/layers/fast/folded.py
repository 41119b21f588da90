"""Folded attention: kernels are multiplied first, so that heads as wide as their input need two projections instead of four.

A head is softmax((x W^Q + b^Q) (x W^K + b^K)ᵀ / √d_k) (x W^V + b^V) W^O. Softmax ignores a term that all scores of a query share, so
b^K drops out; and the weights of a query sum to 1, so b^V is added unchanged. What remains is

    softmax((x A + a) xᵀ) x B + b   with   A = W^Q W^Kᵀ / √d_k,   a = b^Q W^Kᵀ / √d_k,   B = W^V W^O,   b = b^V W^O

so the inputs themselves are the keys and values of all heads. A and a decide where a head looks, B and b what it writes.

Axes: B batch, L query length, M key length, H heads, Q queries of all heads (L·H), K key width per head, V value width per head, D, E and
F widths of queries, keys and values, O output width.

Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", section "Attention Heads are Independent and Additive".
"""

from collections.abc import Callable
from typing import Any

from keras import ops


def folded_attention(layer: Any, query_BLD: Any, key_BME: Any, value_BMF: Any, mask_B11M: Any, mix: Callable[..., Any]) -> Any:
    """The sum over the heads of softmax((x A + a) xᵀ) x B + b, plus b^O.

    All heads have the same keys and values, so the H queries of the L positions are L·H queries of one head, which ``mix`` computes.
    """
    # The key bias drops out; times zero it still has a gradient, which optimizers need.
    query_bias_HK = layer.query_bias + 0.0 * layer.key_bias if layer.use_bias else None
    key_kernel_EHK = layer.key_kernel * layer.key_dim**-0.5 if layer.use_scale else layer.key_kernel
    # With a bias, a is one more row of A, (D + 1, H, E), and b one more row of B, (H, F + 1, O).
    scores_kernel_DHE = ops.einsum("dhk,ehk->dhe", with_row(layer.query_kernel, query_bias_HK), key_kernel_EHK)
    output_kernel_HFO = ops.einsum("fhv,hvo->hfo", with_row(layer.value_kernel, layer.value_bias), layer.output_kernel)
    _, heads, key_width = scores_kernel_DHE.shape
    value_width, output_width = value_BMF.shape[2], output_kernel_HFO.shape[2]
    batch, length = ops.shape(query_BLD)[:2]
    if layer.use_bias:
        query_BLD = ops.concatenate([query_BLD, ops.ones((batch, length, 1), query_BLD.dtype)], axis=2)  # 1 times a
    queries = ops.matmul(query_BLD, ops.reshape(scores_kernel_DHE, (query_BLD.shape[2], heads * key_width)))
    q_B1QE = ops.reshape(queries, (batch, 1, length * heads, key_width))
    one_head = q_B1QE, ops.expand_dims(key_BME, 1), ops.expand_dims(value_BMF, 1), mask_B11M
    mixed_B1QF = mix(*one_head, dropout=0.0, scaled=False)  # the factor 1/√d_k is in A and a already
    joined = ops.reshape(mixed_B1QF, (batch, length, heads * value_width))
    output_BLO = ops.matmul(joined, ops.reshape(output_kernel_HFO[:, :value_width], (heads * value_width, output_width)))
    if not layer.use_bias:
        return output_BLO
    bias_B1O = ops.sum(output_kernel_HFO[:, value_width], axis=0) * ops.cast(ops.shape(key_BME)[1] > 0, output_BLO.dtype)
    if mask_B11M is not None:  # a query that may look nowhere does not get b
        bias_B1O = bias_B1O * ops.cast(ops.any(mask_B11M, axis=-1)[:, 0, :, None], output_BLO.dtype)
    return output_BLO + (layer.output_bias + bias_B1O)  # the two small arrays first


def with_row(kernel_DHK: Any, bias_HK: Any) -> Any:
    """The kernel with its bias, if there is one, as the last row."""
    return kernel_DHK if bias_HK is None else ops.concatenate([kernel_DHK, bias_HK[None]])
