"""Weights in one byte each: the small form of a checkpoint.

A weight's last axis is its channels; every channel has a scale of its own, and a number is stored as the nearest of 255 multiples of it.
The bytes are laid one after another in the order of ``parameter_table``: for each weight its scales in float32, little-endian, then its
numbers in int8. Nothing in them says what they are, so nothing in them can mislead: names, shapes and sizes follow from the settings.

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 2.1,
with zero at zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mha_cli.parameters import Parameter

LARGEST = 127
SCALE = np.dtype("<f4")
LARGEST_SCALE = np.finfo(np.float32).max / 129
"""With a larger one, a number could be infinite: int8 goes down to -128."""


def quantized_size(parameters: Sequence[Parameter]) -> int:
    """Bytes that the weights take."""
    return sum(parameter.shape[-1] * SCALE.itemsize + math.prod(parameter.shape) for parameter in parameters)


def quantize(weights: Mapping[str, npt.NDArray[np.float32]], parameters: Sequence[Parameter]) -> bytes:
    """The weights in one byte each."""
    parts = []
    for parameter in parameters:
        channels = weights[parameter.path].reshape(-1, parameter.shape[-1])
        scales = (np.abs(channels).max(axis=0) / LARGEST).astype(SCALE)
        numbers = np.rint(channels / np.where(scales > 0, scales, 1)).clip(-LARGEST, LARGEST).astype(np.int8)
        parts += [scales.tobytes(), numbers.tobytes()]
    return b"".join(parts)


def dequantize(data: bytes | memoryview, parameters: Sequence[Parameter]) -> dict[str, npt.NDArray[np.float32]]:
    """The weights in float32, by path.

    Raises:
        ValueError: there are too many or too few bytes, or a scale is no number or too large.
    """
    if len(data) != quantized_size(parameters):
        raise ValueError(f"the weights have {len(data):,} bytes; the settings imply {quantized_size(parameters):,}")
    weights, start = {}, 0
    for parameter in parameters:
        width, size = parameter.shape[-1], math.prod(parameter.shape)
        scales = np.frombuffer(data, SCALE, width, start)
        numbers = np.frombuffer(data, np.int8, size, start + width * SCALE.itemsize)
        if not (np.abs(scales) <= LARGEST_SCALE).all():  # not a number fails this, too
            raise ValueError(f"the weight {parameter.path} holds NaN or infinite numbers")
        weights[parameter.path] = (numbers.reshape(-1, width) * scales).astype(np.float32, copy=False).reshape(parameter.shape)
        start += width * SCALE.itemsize + size
    return weights
