"""In which type the products of a training step are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from mha_cli.config import Config
from mha_cli.processor import bfloat16_features

WIDE = 128
"""Width of queries and keys per head from which bfloat16 gains: below it, converting costs more than the products save."""


def choose_precision(config: Config) -> str:
    """``float32`` or ``bfloat16``: what the config says, and for ``auto`` what is faster here."""
    if config.training.precision != "auto":
        return config.training.precision
    return "bfloat16" if config.model.head_key_dim >= WIDE and bfloat16_features() else "float32"


@contextmanager
def computing_in(model: keras.Model, precision: str) -> Iterator[None]:
    """Within the block, the layers of a float32 model compute in another type; their weights stay float32, and so does the last layer.

    A function that is traced within the block keeps the type, so a model can be trained in bfloat16 and scored in float32.

    Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.1 (bfloat16 needs no loss scaling).
    """
    if precision == "float32":
        yield
        return
    layers = [layer for layer in _sublayers(model) if layer is not model.layers[-1]]
    policies = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = keras.DTypePolicy(f"mixed_{precision}")
    try:
        yield
    finally:
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy


def _sublayers(model: keras.Model) -> list[keras.layers.Layer]:
    """Every layer, the ones inside layers too."""
    return [layer for layer in model._flatten_layers() if layer is not model]
