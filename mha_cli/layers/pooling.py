"""Pooling over the positions of a text.

Axes: B batch, L length, D model width.
"""

from typing import Any

import keras
from keras import ops

LOWEST = -3e38  # below every float32 and bfloat16 activation, yet finite in both


@keras.saving.register_keras_serializable(package="mha")
class GlobalMaxPooling1D(keras.layers.Layer):
    """The largest value of each feature over the real positions of a sequence.

    Masking: padding is never the maximum (in ``keras.layers.GlobalMaxPooling1D`` it can be). A sequence without real positions gives
    zeros. The output has no length axis, and no mask.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Pool (B, L, D) to (B, D); ``mask`` is bool (B, L), True at real positions."""
        if mask is None:
            return _largest(inputs)
        mask_BL1 = ops.expand_dims(ops.cast(mask, "bool"), 2)
        lowest = ops.cast(LOWEST, inputs.dtype)
        pooled_BD = _largest(ops.where(mask_BL1, inputs, lowest))
        return ops.where(ops.any(mask_BL1, axis=1), pooled_BD, ops.zeros_like(pooled_BD))

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        """No mask leaves this layer."""
        return

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, D)."""
        return (input_shape[0], input_shape[2])


@keras.saving.register_keras_serializable(package="mha")
class GlobalMeanPooling1D(GlobalMaxPooling1D):
    """The mean of each feature over the real positions of a sequence; masking like ``GlobalMaxPooling1D``.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3.
    """

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Pool (B, L, D) to (B, D); ``mask`` is bool (B, L), True at real positions."""
        if mask is None:
            return ops.mean(inputs, axis=1)
        real_BL1 = ops.expand_dims(ops.cast(mask, inputs.dtype), 2)
        return ops.sum(inputs * real_BL1, axis=1) / ops.maximum(ops.sum(real_BL1, axis=1), 1)


@keras.saving.register_keras_serializable(package="mha")
class FirstPosition(GlobalMaxPooling1D):
    """The first position of a sequence, which in BERT is ``[CLS]``.

    Source: Devlin et al. 2019, "BERT", section 3.
    """

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Take (B, D) from (B, L, D), zeros where ``mask`` has no real position."""
        return inputs[:, 0] if mask is None else inputs[:, 0] * ops.cast(ops.any(mask, axis=1, keepdims=True), inputs.dtype)


@keras.saving.register_keras_serializable(package="mha")
class LastPosition(GlobalMaxPooling1D):
    """The last real position of a sequence, which in a causal encoder is the one that looks at all others."""

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Take (B, D) from (B, L, D), zeros where there is none; padding, False in ``mask``, stands behind the real positions."""
        if mask is None:
            return inputs[:, -1]
        numbers_B = ops.sum(ops.cast(mask, "int32"), axis=1)
        last_BD = ops.take_along_axis(inputs, ops.maximum(numbers_B - 1, 0)[:, None, None], axis=1)[:, 0]
        return last_BD * ops.cast(numbers_B > 0, inputs.dtype)[:, None]


# By the values of ``model.pooling``.
POOLINGS = {"max": GlobalMaxPooling1D, "mean": GlobalMeanPooling1D, "first": FirstPosition, "last": LastPosition}


def _largest(x_BLD: Any) -> Any:
    """The largest value of every feature, (B, D).

    The gradient of a maximum goes to the positions that equal it. JAX's compiler may compute x again to find them, with another rounding,
    and then finds none or others. An argmax finds the same position.
    """
    if keras.backend.backend() == "jax":
        return ops.take_along_axis(x_BLD, ops.argmax(x_BLD, axis=1, keepdims=True), axis=1)[:, 0]
    return ops.max(x_BLD, axis=1)
