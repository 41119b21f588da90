"""The kernels of JAX and PyTorch give the plain formula's numbers and gradients.

``python test_kernels.py`` checks them under the backend that KERAS_BACKEND names: on a GPU, if there is one, in bfloat16.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from mha_cli.layers import FastAttention, MultiHeadAttention, scaled_dot_product_attention
from mha_cli.layers.fast.kernels import kernel_attention, kernel_takes
from mha_cli.layers.masks import look_ahead_mask
from tests.layers.attention_cases import output_and_gradients

BATCH, HEADS, QUERIES, KEYS, WIDTH = 3, 2, 10, 18, 8


def assert_same(function: Callable[..., Any], plain: Callable[..., Any], inputs: list[Any], what: str) -> None:
    """Equal within the rounding of the type, which goes with the largest number."""
    upstream = np.random.default_rng(1).normal(size=function(*inputs).shape).astype("float32")
    tolerance = 1e-5 if keras.backend.standardize_dtype(inputs[0].dtype) == "float32" else 2e-2
    exact = [keras.ops.cast(x, "float32") for x in inputs]
    for found, expected in zip(output_and_gradients(function, inputs, upstream), output_and_gradients(plain, exact, upstream), strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max(), err_msg=what)


def check() -> None:
    tensor, rng = keras.ops.convert_to_tensor, np.random.default_rng(0)
    q, k, v = (tensor(rng.normal(size=(BATCH, HEADS, length, WIDTH)).astype("float32")) for length in (QUERIES, KEYS, KEYS))
    in_bfloat16 = [keras.ops.cast(x, "bfloat16") for x in (q, k, v)]
    on_gpu = kernel_takes(*in_bfloat16, None, causal=False)
    print("on a GPU, in bfloat16" if on_gpu else "without a GPU, in float32")
    q, k, v = in_bfloat16 if on_gpu else (q, k, v)
    lengths = np.arange(KEYS) < np.array([KEYS, 5, 0])[:, None]
    holes = (rng.random((BATCH, KEYS)) < 0.5) & (np.arange(BATCH) > 0)[:, None]
    masks = {"none": None, "lengths": lengths, "holes": holes, "one for all": holes[2:]}
    for scaled in (True, False):
        for name, allowed in masks.items():
            mask = None if allowed is None else tensor(allowed[:, None, None])
            assert_same(
                lambda q, k, v, mask=mask, scaled=scaled: kernel_attention(q, k, v, mask, scaled=scaled),
                lambda q, k, v, mask=mask, scaled=scaled: scaled_dot_product_attention(q, k, v, mask, scaled=scaled)[0],
                [q, k, v],
                name,
            )
        mask = look_ahead_mask(QUERIES, KEYS)
        assert_same(
            lambda q, k, v, mask=mask, scaled=scaled: kernel_attention(q, k, v, mask, causal=True, scaled=scaled),
            lambda q, k, v, mask=mask, scaled=scaled: scaled_dot_product_attention(q, k, v, mask, scaled=scaled)[0],
            [q, k, v],
            "causal",
        )
    x = tensor(rng.normal(size=(BATCH, KEYS, 16)).astype("float32"))
    if on_gpu:
        check_layer(x, tensor(lengths), tensor(holes))
    if keras.backend.backend() == "torch":
        check_compiled(x, tensor(holes))


def check_layer(x: Any, lengths: Any, holes: Any) -> None:
    """The layer that takes the kernel on a GPU gives what the plain one gives, in bfloat16."""
    x = keras.ops.cast(x, "bfloat16")
    layers = [kind(HEADS, WIDTH, dtype="bfloat16") for kind in (FastAttention, MultiHeadAttention)]
    for layer in layers:
        layer.build(x.shape)
    layers[1].set_weights(layers[0].get_weights())
    for masks in ({}, {"value_mask": lengths}, {"mask": holes}, {"use_causal_mask": True}, {"use_causal_mask": True, "value_mask": holes}):
        auto, fused = (keras.ops.convert_to_numpy(keras.ops.cast(layer(x, **masks), "float32")) for layer in layers)
        np.testing.assert_allclose(auto, fused, atol=3e-2 * np.abs(fused).max(), err_msg=f"{list(masks)}")


def check_compiled(x: Any, holes: Any) -> None:
    """``torch.compile`` makes one graph of a layer, without a way back into Python, and numbers and gradients stay."""
    import torch

    layer = FastAttention(HEADS, WIDTH)
    layer.build(x.shape)
    compiled, upstream = torch.compile(layer, fullgraph=True, backend="aot_eager"), np.ones(x.shape, "float32")
    pairs = (output_and_gradients(lambda x, call=call: call(x, x, key_mask=holes), [x], upstream) for call in (compiled, layer))
    for found, expected in zip(*pairs, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.process
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_kernels_equal_the_plain_formula(backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    environment = os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": str(Path(__file__).parents[3])}
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "GPU" in run.stdout


if __name__ == "__main__":
    check()
