"""The type of the matrix products in a training step."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from mha_cli.config.settings import Config
from mha_cli.layers import MultiHeadAttention
from mha_cli.system.private_names import layers_at_any_depth
from mha_cli.system.processor import bfloat16_features

WIDE = 128  # width of queries and keys per head from which bfloat16 gains: below it, converting costs more than the products save

MULTIPLYING = (MultiHeadAttention, keras.layers.Dense)


def choose_precision(config: Config) -> str:
    """``float32`` or ``bfloat16``, as the config says; for ``auto`` the faster one on this machine."""
    if config.training.precision != "auto":
        return config.training.precision
    gains = config.model.pretrained or config.model.head_key_dim >= WIDE  # a pretrained encoder has wide layers beside narrow heads
    return "bfloat16" if gains and bfloat16_features() else "float32"


@contextmanager
def computing_in(model: keras.Model, precision: str) -> Iterator[None]:
    """Within the block, attention and feed-forward layers of a float32 model multiply in another type.

    Weights, sums, normalization, pooling and the last layer stay float32. A function that is traced within the block keeps the types, so a
    model can be trained in bfloat16 and scored in float32.

    Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.1 (bfloat16 needs no loss scaling).
    """
    if precision == "float32":
        yield
        return
    layers = [layer for layer in layers_at_any_depth(model) if isinstance(layer, MULTIPLYING) and layer is not model.layers[-1]]
    policies = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = keras.DTypePolicy(f"mixed_{precision}")
    try:
        yield
    finally:
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy
