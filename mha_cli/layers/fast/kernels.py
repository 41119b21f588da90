"""Attention by a fused GPU kernel of JAX (cuDNN's) or PyTorch, which reads the keys once and stores no weights.

``auto`` takes it for 16-bit numbers on a GPU; docs/scale.md, "One GPU", says what it saves. TensorFlow has no such kernel.

Axes: B batch, H heads, L query length, M key length, K width per head of queries, keys and values.
"""

from typing import Any, Literal

import keras
from keras import ops

HEAD_WIDTHS = range(8, 129, 8)  # widths that the kernels support, forward and backward, from Ampere GPUs on


def kernel_takes(q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, mask_BHLM: Any, causal: bool) -> bool:
    """Whether the backend has a kernel for these arguments on this device, without dropout; see ``kernel_attention``."""
    if keras.backend.standardize_dtype(q_BHLK.dtype) not in ("bfloat16", "float16"):
        return False
    if keras.backend.backend() == "torch":
        on_gpu = bool(q_BHLK.is_cuda)
    else:  # JAX computes gradients of even lengths only
        on_gpu = keras.backend.backend() == "jax" and on_nvidia() and q_BHLK.shape[2] % 2 == k_BHMK.shape[2] % 2 == 0
    mask_fits = causal or mask_BHLM is None or tuple(mask_BHLM.shape[1:3]) == (1, 1)
    widths_fit = q_BHLK.shape[3] == v_BHMK.shape[3] and q_BHLK.shape[3] in HEAD_WIDTHS
    return on_gpu and mask_fits and widths_fit and 0 not in (*q_BHLK.shape, *k_BHMK.shape)


def on_nvidia() -> bool:
    """Whether JAX computes on an NVIDIA GPU."""
    import jax

    return jax.default_backend() == "gpu" and "NVIDIA" in jax.devices()[0].device_kind


def kernel_attention(q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, mask_BHLM: Any = None, causal: bool = False, scaled: bool = True) -> Any:
    """softmax(Q Kᵀ / √d_k) V; arguments as of ``scaled_dot_product_attention``.

    The mask is (B, 1, 1, M), or with ``causal`` ``look_ahead_mask`` alone. The mixed values, (B, H, L, K), are zeros for texts whose
    queries may look nowhere.

    Source: Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness".
    """
    attend = torch_kernel if keras.backend.backend() == "torch" else jax_kernel
    scale = q_BHLK.shape[3] ** -0.5 if scaled else 1.0
    if causal or mask_BHLM is None:
        return attend(q_BHLK, k_BHMK, v_BHMK, None, causal, scale)
    mask_BM = ops.broadcast_to(mask_BHLM[:, 0, 0], (q_BHLK.shape[0], k_BHMK.shape[2]))
    anywhere_B1 = ops.any(mask_BM, axis=1, keepdims=True)
    mask_BM = ops.logical_or(mask_BM, ops.logical_not(anywhere_B1))  # if nowhere: all keys, times zero
    return attend(q_BHLK, k_BHMK, v_BHMK, mask_BM, False, scale) * ops.cast(anywhere_B1[..., None, None], v_BHMK.dtype)


def torch_kernel(q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, mask_BM: Any, causal: bool, scale: float) -> Any:
    """PyTorch's fastest kernel for these arguments."""
    import torch

    mask_B11M = None if mask_BM is None else mask_BM[:, None, None]
    return torch.nn.functional.scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMK, mask_B11M, is_causal=causal, scale=scale)


def jax_kernel(q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, mask_BM: Any, causal: bool, scale: float) -> Any:
    """JAX's kernel, which on a GPU is cuDNN's.

    It takes a mask as a number of first keys. Attention does not depend on the order of the keys, so the allowed keys are moved first.
    """
    import jax

    q_BLHK, k_BMHK, v_BMHK = (ops.transpose(x, (0, 2, 1, 3)) for x in (q_BHLK, k_BHMK, v_BHMK))
    lengths_B = None
    if mask_BM is not None:
        lengths_B = ops.sum(mask_BM, axis=1)
        order_BM = ops.argsort(ops.logical_not(mask_BM), axis=1)
        k_BMHK, v_BMHK = in_order(k_BMHK, order_BM), in_order(v_BMHK, order_BM)
    implementation: Literal["cudnn", "xla"] = "cudnn" if on_nvidia() else "xla"
    mixed_BLHK = jax.nn.dot_product_attention(
        q_BLHK, k_BMHK, v_BMHK, scale=scale, is_causal=causal, key_value_seq_lengths=lengths_B, implementation=implementation
    )
    return ops.transpose(mixed_BLHK, (0, 2, 1, 3))


def in_order(x_BMHK: Any, order_BM: Any) -> Any:
    """The keys or values in another order; the gradient is reordered by a gather, since a scatter takes longer than the kernel."""

    @ops.custom_gradient
    def moved(x_BMHK: Any) -> Any:
        return _taken(x_BMHK, order_BM), lambda upstream: _taken(upstream, ops.argsort(order_BM, axis=1))

    return moved(x_BMHK)


def _taken(x_BMHK: Any, order_BM: Any) -> Any:
    return ops.take_along_axis(x_BMHK, order_BM[:, :, None, None], axis=1)
