"""Weights in one byte each: the small form of a checkpoint.

A weight's last axis is its channels; every channel has a scale of its own, and a number is stored as the nearest of 255 multiples of it.
The bytes are laid one after another in the order of ``parameter_table``: for each weight its scales in float32, little-endian, then its
numbers in int8. Nothing in them says what they are, so nothing in them can mislead: names, shapes and sizes follow from the settings.

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 2.1,
with zero at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config.parameters import Parameter

LARGEST = 127
PIECE_BYTES = 1 << 16
"""Bytes that become numbers at once, unless one row has more."""

SCALE = np.dtype("<f4")
LARGEST_SCALE = np.finfo(np.float32).max / 129
"""Bound of a channel's scale: beyond it a number could be infinite, since int8 goes down to -128."""


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


def dequantize(read: Callable[[int], bytes], parameters: Sequence[Parameter]) -> dict[str, npt.NDArray[np.float32]]:
    """The weights in float32, by path; few of their bytes are held at once.

    Args:
        read: function that gives as many bytes as it is asked for, of ``quantized_size`` in all; it is asked for all in any case.
        parameters: name and shape of every weight.

    Raises:
        ValueError: a scale is not a number, or too large.
    """
    weights, problem = {}, ""
    for parameter in parameters:
        width = parameter.shape[-1]
        weight = np.zeros((math.prod(parameter.shape) // width, width), np.float32)
        scales = _numbers(read, SCALE, width)
        if not (np.abs(scales) <= LARGEST_SCALE).all():  # not a number fails this, too
            problem = problem or f"the weight {parameter.path} holds NaN or infinite numbers"
            scales = np.zeros_like(scales)
        rows = max(1, PIECE_BYTES // width)
        for start in range(0, len(weight), rows):
            piece = weight[start : start + rows]
            np.multiply(_numbers(read, np.dtype(np.int8), piece.size).reshape(piece.shape), scales, out=piece)
        weights[parameter.path] = weight.reshape(parameter.shape)
    if problem:
        raise ValueError(problem)
    return weights


def _numbers(read: Callable[[int], bytes], kind: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    return np.frombuffer(read(count * kind.itemsize), kind, count)
