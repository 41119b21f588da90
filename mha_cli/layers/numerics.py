"""What formulas need besides the mathematics: a gradient of their own, and numbers that neither overflow nor divide by zero.

Axes: B batch, H heads, L query length, M key length, K key width per head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def custom_gradient(function: Callable[..., tuple[Any, Callable[[Any], Any]]]) -> Callable[..., Any]:
    """A function with a gradient of its own, alike on Keras's three backends.

    Args:
        function: gives its value, and the function from the gradient that comes back to the value to those of its arguments.
    """

    @ops.custom_gradient
    def with_gradient(*inputs: Any) -> Any:
        value, gradients = function(*inputs)

        def hand_over(*arguments: Any, upstream: Any = None) -> Any:
            if upstream is None:  # TensorFlow and JAX hand over the gradient alone, PyTorch the inputs, and the gradient by name
                return gradients(*arguments)
            import torch

            # PyTorch computes the value without a graph; where the gradient itself will be differentiated, it is computed anew with one.
            return function(*arguments)[1](upstream) if torch.is_grad_enabled() else gradients(upstream)

        return value, hand_over

    return with_gradient


def dot_products(q_BHLK: Any, k_BHMK: Any) -> Any:
    """Q Kᵀ, (B, H, L, M): of float16, which ends at 65,504, in float32."""
    if keras.backend.standardize_dtype(q_BHLK.dtype) == "float16":
        q_BHLK, k_BHMK = ops.cast(q_BHLK, "float32"), ops.cast(k_BHMK, "float32")
    # As an einsum, so that neither it nor its gradient writes the keys down transposed; with all axes named, Keras would.
    return ops.einsum("...lk,...mk->...lm", q_BHLK, k_BHMK)


def at_least_one(size: Any) -> Any:
    """The size, or 1 for 0: an integer, or a scalar where the size is known only when the function runs."""
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)
