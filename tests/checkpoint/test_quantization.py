"""Weights in one byte each, and checkpoints that hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.checkpoint.quantization import LARGEST, dequantize, quantize, quantized_size
from mha_cli.config.parameters import Parameter
from tests.checkpoints import small_checkpoint

SHAPES = {"table": (50, 3), "kernel": (4, 2, 5), "bias": (7,), "one": (9, 1)}
PARAMETERS = [Parameter(path, "", shape) for path, shape in SHAPES.items()]


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


def test_a_small_checkpoint_is_read_like_any_other(tmp_path: Path) -> None:
    whole = small_checkpoint()
    write_checkpoint(tmp_path / "small.keras", whole, small=True)
    small = read_checkpoint(tmp_path / "small.keras")
    assert (small.config, small.class_names, small.metrics) == (whole.config, whole.class_names, whole.metrics)
    assert small.vocabulary.tokens == whole.vocabulary.tokens
    for path, weight in dequantize(quantize(whole.weights, whole.parameters), whole.parameters).items():
        np.testing.assert_array_equal(small.weights[path], weight)
    write_checkpoint(tmp_path / "again.keras", small, small=True)
    assert (tmp_path / "again.keras").read_bytes() == (tmp_path / "small.keras").read_bytes()
