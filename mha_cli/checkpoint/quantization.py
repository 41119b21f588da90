"""Weights in one byte each: the small form of a checkpoint.

A weight's last axis is its channels; every channel has a scale of its own, and a number is stored as the nearest of 255 multiples of it.
The bytes are laid one after another in the order of ``parameter_table``: for each weight its scales in float32, little-endian, then its
numbers in int8. Nothing in them says what they are, so nothing in them can mislead: names, shapes and sizes follow from the settings.

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 2.1,
with zero at zero.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.config.parameters import Parameter

LARGEST = 127


def quantized_size(parameters: Sequence[Parameter]) -> int:
    """Bytes that the weights take."""
    return sum(4 * parameter.shape[-1] + math.prod(parameter.shape) for parameter in parameters)


def quantize(weights: Mapping[str, Floats], parameters: Sequence[Parameter]) -> bytes:
    """The weights in one byte each."""
    parts = []
    for parameter in parameters:
        channels = weights[parameter.path].reshape(-1, parameter.shape[-1])
        scales = (np.abs(channels).max(axis=0) / LARGEST).astype("<f4")
        numbers = np.rint(channels / np.where(scales > 0, scales, 1)).clip(-LARGEST, LARGEST).astype(np.int8)
        parts += [scales.tobytes(), numbers.tobytes()]
    return b"".join(parts)


def dequantize(data: bytes | memoryview, parameters: Sequence[Parameter]) -> dict[str, Floats]:
    """The weights in float32, by path, from ``quantized_size`` bytes; scales that are no numbers, or too large, make them no numbers."""
    weights, start = {}, 0
    for parameter in parameters:
        scales = np.frombuffer(data, "<f4", parameter.shape[-1], start)
        numbers = np.frombuffer(data, np.int8, math.prod(parameter.shape), start + scales.nbytes)
        with np.errstate(over="ignore", invalid="ignore"):
            weights[parameter.path] = numbers.reshape(parameter.shape) * scales
        start += scales.nbytes + numbers.nbytes
    return weights
