"""Weights in one byte each."""

import numpy as np
import pytest

from mha_cli.checkpoint.quantization import LARGEST, dequantize, quantize, quantized_size
from mha_cli.config.parameters import Parameter

PARAMETERS = [Parameter(path, "", shape) for path, shape in {"table": (50, 3), "kernel": (4, 2, 5), "bias": (7,), "one": (9, 1)}.items()]


@pytest.fixture
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {parameter.path: rng.normal(0, 3, parameter.shape).astype(np.float32) for parameter in PARAMETERS}
    made["table"][:, 1] = 0.0  # a channel without a scale
    made["kernel"][..., 2] *= 1e-6  # a channel of its own size
    return made


def test_every_number_is_within_half_a_step_of_its_channel(weights: dict[str, np.ndarray]) -> None:
    data = quantize(weights, PARAMETERS)
    assert len(data) == quantized_size(PARAMETERS) == sum(weight.size + 4 * weight.shape[-1] for weight in weights.values())
    found = dequantize(data, PARAMETERS)
    for path, weight in weights.items():
        steps = np.abs(weight).max(axis=tuple(range(weight.ndim - 1))) / LARGEST
        assert found[path].dtype == np.float32
        assert found[path].shape == weight.shape
        assert (np.abs(found[path] - weight) <= steps * 0.5001 + 1e-12).all(), path
    assert quantize(found, PARAMETERS) == data
