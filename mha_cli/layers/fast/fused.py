"""Attention with all heads in one matrix product, and a softmax with an explicit gradient.

Axes: B batch, H heads, L query length, M key length, K key width per head, V value width per head, D width of an input, O output width.
"""

from typing import Any

from keras import ops

from mha_cli.layers.numerics import masked_softmax


def softmax(scores_BHLM: Any, mask_BHLM: Any = None) -> Any:
    """``masked_softmax``, P, with its gradient as a formula: dS = P ∘ (dP - rowsum(P ∘ dP)).

    It reads the large array less often than automatic differentiation: a training step takes a tenth less time. Weights are kept in the
    type of the scores, so bfloat16 takes half the memory.
    """
    dtype = scores_BHLM.dtype

    @ops.custom_gradient
    def with_formula(scores_BHLM: Any, *mask: Any) -> Any:  # the mask is an argument, since JAX refuses traced arrays from a closure
        p_BHLM = ops.cast(masked_softmax(scores_BHLM, *mask), dtype)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            if upstream is None:  # TensorFlow and JAX pass the gradient alone
                p, d_p = p_BHLM, arguments[0]
            else:  # PyTorch passes the arguments as well; second derivatives need P computed from them
                p, d_p = masked_softmax(*arguments), upstream
            p, d_p = ops.cast(p, "float32"), ops.cast(d_p, "float32")
            p_d_p = p * d_p
            d_scores = ops.cast(p_d_p - p * ops.sum(p_d_p, axis=-1, keepdims=True), dtype)
            return (d_scores, None) if mask else d_scores

        return p_BHLM, gradient

    return with_formula(scores_BHLM) if mask_BHLM is None else with_formula(scores_BHLM, ops.convert_to_tensor(mask_BHLM))


def project_heads(x_BLD: Any, kernel_DHK: Any, bias_HK: Any = None) -> Any:
    """The projections x W_i + b_i of all heads in one product of two matrices, (B, H, L, K)."""
    width, heads, head_width = kernel_DHK.shape
    batch, length = ops.shape(x_BLD)[:2]
    projected = ops.matmul(ops.reshape(x_BLD, (batch * length, width)), ops.reshape(kernel_DHK, (width, heads * head_width)))
    if bias_HK is not None:
        projected = projected + ops.reshape(bias_HK, (heads * head_width,))
    return ops.transpose(ops.reshape(projected, (batch, length, heads, head_width)), (0, 2, 1, 3))


def merge_heads(mixed_BHLV: Any, kernel_HVO: Any, bias_O: Any = None) -> Any:
    """Concat(head_1, …, head_H) W^O + b^O, (B, L, O)."""
    heads, head_width, output_width = kernel_HVO.shape
    batch, _, length, _ = ops.shape(mixed_BHLV)
    concatenated = ops.reshape(ops.transpose(mixed_BHLV, (0, 2, 1, 3)), (batch * length, heads * head_width))
    output = ops.matmul(concatenated, ops.reshape(kernel_HVO, (heads * head_width, output_width)))
    return ops.reshape(output if bias_O is None else output + bias_O, (batch, length, output_width))
