"""The encoder and its pooling, as ``forward.py`` has them, as a graph for OpenVINO, which fuses attention; OpenVINO is known here alone.

What takes NumPy little time stays there: embeddings, the linear model, the last layer.

Axes: B batch, L length (M when keys are meant), H heads, K width per head, F = H·K, D model width.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.parameters import encoder_length
from mha_cli.config.settings import Config
from mha_cli.runtime.forward import ForwardPass
from mha_cli.runtime.numpy_operations import Weights
from mha_cli.system.working_memory import MOST_BYTES

# The converter of models, which nothing here needs, tells its makers over the network that it is imported.
_converter = sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]  # as if it were not installed
import openvino  # noqa: E402
from openvino import opset15 as ops  # noqa: E402

if _converter is None:
    del sys.modules["openvino.tools.ovc"]

LOWEST = np.float32(-3e38)

LARGEST = 1_000.0  # weights and embeddings up to which nothing overflows; OpenVINO's exponential would make numbers of what is none
LENGTH_STEP = 8  # texts are padded to multiples of it: few lengths to generate kernels for, and little padding for short texts


class OpenVinoEncoder:
    """The encoder of a model, compiled for this processor. A process that has made one must not be forked.

    ``threads`` may call it at once; each batch is computed in one.
    """

    def __init__(self, checkpoint: Checkpoint, precision: str, threads: int = 1) -> None:
        weights = {path: weight for path, weight in checkpoint.weights.items() if path.startswith(("encoder_", "final_norm/"))}
        self._in_numpy: Callable[[Array, Array], Array] = ForwardPass(weights, checkpoint.config).pooled
        self._longest = encoder_length(checkpoint.config)
        self._memory_estimate = checkpoint.memory_estimate.at_once()
        self._is_moderate = all(map(_is_moderate, weights.values()))
        settings = {
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            "ENABLE_CPU_PINNING": False,  # several processes would be bound to the same core
        }
        self._compiled = openvino.Core().compile_model(_graph(weights, checkpoint.config), "CPU", settings)
        self._of_thread = threading.local()

    def has_memory_for(self, texts: int, length: int) -> bool:
        """Whether so many texts, the longest of this length, fit into the budget; NumPy, which computes in blocks, needs less."""
        return self._memory_estimate.num_bytes(texts, self.padded_length(length)) <= MOST_BYTES

    def padded_length(self, length: int) -> int:
        """The length that a batch is padded to."""
        return min(-(-max(1, length) // LENGTH_STEP) * LENGTH_STEP, self._longest)

    def __call__(self, x_BLD: Array, mask_BL: Array) -> Array:
        """What ``ForwardPass.pooled`` gives, (B, D), from embedded tokens (B, L, D)."""
        if not (self._is_moderate and _is_moderate(x_BLD)):
            return self._in_numpy(x_BLD, mask_BL)
        bias_BL = np.where(mask_BL, np.float32(0.0), LOWEST)
        try:
            if not hasattr(self._of_thread, "request"):
                self._of_thread.request = self._compiled.create_infer_request()
            request = self._of_thread.request
            request.start_async([np.ascontiguousarray(x_BLD), bias_BL], share_inputs=True)
            request.wait()  # infer() would say nothing of an error, and give the results of the batch before
        except RuntimeError:  # no memory, where addresses are limited
            return self._in_numpy(x_BLD, mask_BL)
        pooled_BD = request.results[0]
        return np.where(np.any(mask_BL, axis=1, keepdims=True), pooled_BD, np.float32(0.0))


def _is_moderate(numbers: Array) -> bool:
    return bool(np.abs(numbers).max(initial=0.0) <= LARGEST)


def _graph(weights: Weights, config: Config) -> Any:
    """The graph from embedded tokens (B, L, D), and 0 or for padding ``LOWEST`` (B, L), to the pooled features (B, D)."""
    embedded_BLD = ops.parameter([-1, -1, config.model.embed_dim], openvino.Type.f32)
    bias_BL = ops.parameter([-1, -1], openvino.Type.f32)
    pooled_BD = ForwardPass(weights, config, _Operations(encoder_length(config))).pooled(embedded_BLD, bias_BL)
    return openvino.Model([pooled_BD], [embedded_BLD, bias_BL], "encoder")


class _Operations:
    """OpenVINO's ``Operations`` of the encoder, with what is added to scores, 0 or ``LOWEST``, for ``real``: fused attention reads it."""

    def __init__(self, max_length: int) -> None:
        self._max_length = max_length

    def weight(self, weight: Floats, path: str) -> Any:
        return ops.constant(np.ascontiguousarray(weight))

    def norm(self, x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
        return ops.mvn(x, _axes(-1), True, epsilon, "inside_sqrt") * gamma + beta

    def rms_norm(self, x: Any, scale: Any, epsilon: float) -> Any:
        return x / ops.sqrt(ops.add(ops.reduce_mean(x * x, _axes(-1), True), np.float32(epsilon))) * scale

    def affine(self, x: Any, kernel: Any, bias: Any) -> Any:
        return ops.matmul(x, kernel, False, False) + bias

    def relu(self, x: Any) -> Any:
        return ops.relu(x)

    def gelu(self, x: Any) -> Any:
        return ops.gelu(x, "erf")

    def silu(self, x: Any) -> Any:
        return ops.swish(x)

    def first_rows(self, rows: Callable[[int], Array], x_BLD: Any) -> Any:
        length = ops.slice(ops.shape_of(x_BLD), _axes(1), _axes(2), _axes(1))
        return ops.slice(ops.constant(rows(self._max_length)), _axes(0), length, _axes(1), _axes(0))

    def split_heads(self, x_BLF: Any, num_heads: int, width: int) -> Any:
        return ops.transpose(ops.reshape(x_BLF, _axes(0, 0, num_heads, width), True), _axes(0, 2, 1, 3))

    def merge_heads(self, mixed_BHLK: Any, width: int) -> Any:
        return ops.reshape(ops.transpose(mixed_BHLK, _axes(0, 2, 1, 3)), _axes(0, 0, width), True)

    def repeat_heads(self, x_BGMK: Any, num_heads: int, times: int) -> Any:
        return ops.gather(x_BGMK, _axes(*np.repeat(range(num_heads), times)), ops.constant(1))

    def half_turn(self, x: Any, width: int) -> Any:
        a, b = ops.split(x, ops.constant(-1), 2).outputs()
        return ops.concat([ops.negative(b), a], -1)

    def attention(
        self, q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, bias_BM: Any, scale: float, max_distance: int | None = None, causal: bool = False,
        slopes_H: Array | None = None,
    ) -> Any:  # fmt: skip
        bias = ops.unsqueeze(bias_BM, _axes(1, 2))
        if max_distance is not None or causal or slopes_H is not None:
            length = ops.gather(ops.shape_of(q_BHLK), np.int64(2), np.int64(0))
            positions_L = ops.range(np.int64(0), length, np.int64(1), "i64")
            back_LM = ops.unsqueeze(positions_L, _axes(1)) - positions_L
            distance_LM = ops.abs(back_LM)
            far = ops.greater(distance_LM, np.int64(self._max_length if max_distance is None else max_distance))
            if causal:
                far = ops.logical_or(far, ops.less(back_LM, np.int64(0)))
            bias = ops.select(far, ops.constant(LOWEST), bias)
            if slopes_H is not None:
                bias = bias - ops.constant(slopes_H[:, None, None]) * ops.convert(distance_LM, "f32")
        return ops.scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMK, bias, ops.constant(np.float32(scale)))

    def pool(self, x_BLD: Any, bias_BL: Any, pooling: str) -> Any:
        if pooling == "first":
            return ops.gather(x_BLD, ops.constant(0), ops.constant(1))
        if pooling == "last":
            last_B = ops.reduce_sum(ops.convert(ops.equal(bias_BL, np.float32(0.0)), "i64"), _axes(1)) - np.int64(1)
            return ops.gather(x_BLD, ops.maximum(last_B, np.int64(0)), np.int64(1), 1)
        bias_BL1 = ops.unsqueeze(bias_BL, _axes(2))
        if pooling == "mean":
            real_BL1 = ops.convert(ops.equal(bias_BL1, np.float32(0.0)), "f32")
            return ops.reduce_sum(x_BLD * real_BL1, _axes(1)) / ops.maximum(ops.reduce_sum(real_BL1, _axes(1)), np.float32(1.0))
        return ops.reduce_max(x_BLD + bias_BL1, _axes(1))  # without the 0 where there is none


def _axes(*numbers: int) -> Any:
    return ops.constant(np.array(numbers, np.int64))
