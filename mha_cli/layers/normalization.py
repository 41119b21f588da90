"""Layer normalization with the gradient of its own formula: fewer passes over the activations than the gradient of its parts.

Axes: N places, those of all texts, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.numerics import custom_gradient


@keras.saving.register_keras_serializable(package="mha")
class LayerNormalization(keras.layers.Layer):
    """Every place shifted and scaled to mean 0 and variance 1 over its features, then scaled by γ and shifted by β, which are learnt.

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
        x_ND = ops.cast(ops.reshape(inputs, (-1, inputs.shape[-1])), dtype)
        normalized_ND = layer_normalization(x_ND, ops.cast(self.gamma, dtype), ops.cast(self.beta, dtype), self.epsilon)
        return ops.cast(ops.reshape(normalized_ND, ops.shape(inputs)), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The same."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), "epsilon": self.epsilon}


def layer_normalization(x_ND: Any, gamma_D: Any, beta_D: Any, epsilon: float) -> Any:
    """γ x̂ + β with x̂ = (x - mean(x)) / σ and σ = √(var(x) + ε), mean and variance over the features of a place.

    With dy the gradient that comes back to the output:

        dγ = Σ dy x̂      dβ = Σ dy      dx = (γ dy - mean(γ dy) - x̂ mean(γ dy x̂)) / σ

    the sums over the places.

    Args:
        x_ND: activations.
        gamma_D: γ.
        beta_D: β.
        epsilon: ε.

    Returns:
        (N, D).
    """

    @custom_gradient
    def normalize(x_ND: Any, gamma_D: Any, beta_D: Any) -> Any:
        centred_ND = x_ND - ops.mean(x_ND, axis=1, keepdims=True)
        inverse_N1 = ops.rsqrt(ops.mean(ops.square(centred_ND), axis=1, keepdims=True) + epsilon)
        normal_ND = centred_ND * inverse_N1

        def gradients(d_output_ND: Any) -> tuple[Any, Any, Any]:
            d_gammas_ND = d_output_ND * normal_ND
            # Sums as products with a column or row of numbers: TensorFlow takes half as long for them as for reductions.
            mean_D1, ones_1N = gamma_D[:, None] / gamma_D.shape[0], ops.ones((1, ops.shape(x_ND)[0]), x_ND.dtype)
            means_N1, normal_means_N1 = ops.matmul(d_output_ND, mean_D1), ops.matmul(d_gammas_ND, mean_D1)
            d_x_ND = (d_output_ND * gamma_D - means_N1 - normal_ND * normal_means_N1) * inverse_N1
            return d_x_ND, ops.matmul(ones_1N, d_gammas_ND)[0], ops.matmul(ones_1N, d_output_ND)[0]

        return normal_ND * gamma_D + beta_D, gradients

    return normalize(x_ND, gamma_D, beta_D)
