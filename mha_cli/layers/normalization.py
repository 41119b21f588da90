"""Layer normalization.

Axes: D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import Layer


@keras.saving.register_keras_serializable(package="mha")
class LayerNormalization(Layer):
    """Every position shifted and scaled to mean 0 and variance 1 over its features, then scaled by γ and shifted by β, which are learnt.

    Computed in float32 at least, whatever the type of the layers around it.

    Args:
        epsilon: added to the variance.

    Source: Ba et al. 2016, "Layer Normalization", eq. 4.
    """

    def __init__(self, epsilon: float = 1e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.supports_masking = True
        self.autocast = False  # inputs and weights come as they are

    def build(self, input_shape: Any) -> None:
        """Create γ and β."""
        self.gamma = self.add_weight(name="gamma", shape=input_shape[-1:], initializer="ones")
        self.beta = self.add_weight(name="beta", shape=input_shape[-1:], initializer="zeros")

    def call(self, inputs: Any) -> Any:
        """Normalize (..., D)."""
        dtype = keras.backend.result_type(inputs.dtype, "float32")
        x = ops.cast(inputs, dtype)
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        normal = centred * ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + self.epsilon)
        return ops.cast(normal * ops.cast(self.gamma, dtype) + ops.cast(self.beta, dtype), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The same."""
        return input_shape
