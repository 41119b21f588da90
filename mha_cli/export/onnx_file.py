"""The classifier as an ONNX file, for ONNX Runtime and whatever else reads ONNX.

It is the forward pass of ``runtime/forward.py`` over arrays whose operations add nodes to a graph, where NumPy's compute. So no converter
needs to recognize the formulas in TensorFlow's graph.

Axes: B batch, L length (M when keys are meant), H heads, K width per head, F = H·K, D model width, R buckets, W characters of a token,
N n-grams of a text (of a kernel, its width), U units of the linear model's logits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_to_dict
from mha_cli.config.parameters import encoder_length, input_names
from mha_cli.errors import MhaError
from mha_cli.runtime.forward import ForwardPass
from mha_cli.text.ngrams import hashed_subwords
from mha_cli.version import __version__

OPSET = 18  # the first with BitwiseAnd; ONNX Runtime reads it since 1.14
IR_VERSION = 8  # version of the file format that came with the operator set
MAX_BYTES = 2**31 - 2**24  # largest size of the weights: a protocol buffer holds two gigabytes, the graph included

FLOAT, INT64 = 1, 7  # ONNX's numbers for the types of an array, as in ``TensorProto``

OPERATORS = {
    **{np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.divide: "Div", np.matmul: "MatMul", np.bitwise_and: "BitwiseAnd"},
    **{np.maximum: "Max", np.minimum: "Min", np.greater: "Greater", np.exp: "Exp", np.sqrt: "Sqrt", np.tanh: "Tanh"},
}

LOWEST = -3e38  # a finite number below all activations and scores


def write(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file: ``token_ids`` int32 (batch, length[, 1 + characters]) to ``probabilities`` float32 (batch, classes).

    With a pretrained encoder, ``pieces`` int32 (batch, pieces) are an input as well, and ``token_ids`` only if there is a linear model.
    """
    import onnx

    if sum(weight.nbytes for weight in checkpoint.weights.values()) > MAX_BYTES:
        raise MhaError("--format onnx: the weights are over 2 GB, more than one ONNX file holds", "take --format saved-model")
    config, num_classes = checkpoint.config, len(checkpoint.class_names)
    shapes: dict[str, list[Any]] = {"pieces": ["batch", "pieces"], "token_ids": ["batch", "length", *config.text.token_shape[1:]]}
    graph = _Graph(encoder_length(config))
    inputs = {name: _Array(graph, name, shapes[name]) for name in input_names(config)}
    probabilities = ForwardPass(checkpoint.weights, config, graph).probabilities(inputs.get("token_ids"), inputs.get("pieces"))
    graph.node("Identity", [probabilities], ["probabilities"])
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "mha",
            [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, shapes[name]) for name in inputs],
            [onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, ["batch", num_classes])],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="mha",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, metadata(checkpoint))
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def metadata(checkpoint: Checkpoint) -> dict[str, str]:
    """Vocabulary and settings, which a program needs besides the graph, as the file's ``metadata_props``; see docs/export.md."""
    config = config_to_dict(checkpoint.config)
    return {
        "class_names": json.dumps(checkpoint.class_names, ensure_ascii=False),
        "text": json.dumps(config["text"]),
        "vocabulary": "\n".join(checkpoint.vocabulary.tokens),
        "config": json.dumps(config, ensure_ascii=False),
        **({"tokenizer": checkpoint.tokenizer.decode()} if checkpoint.tokenizer is not None else {}),
    }


class _Array(NDArrayOperatorsMixin):
    """An array of the graph, to which NumPy's operators, functions and methods add nodes; only inputs and constants have a ``shape``."""

    def __init__(self, graph: _Graph, name: str, shape: Sequence[Any] = ()) -> None:
        self.graph, self.name, self.shape, self.ndim = graph, name, shape, len(shape)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **_: Any) -> _Array:
        return self.graph(OPERATORS[function], *(np.int32(value) if isinstance(value, int) else value for value in inputs))

    def __getitem__(self, key: tuple[Any, ...]) -> _Array:
        """NumPy's indexing by ``:``, integers and None; a key cannot have both integers and None."""
        array, new_axes = self, [axis for axis, index in enumerate(key) if index is None]
        for axis, index in enumerate(key):
            array = self.graph("Gather", array, index, axis=axis) if isinstance(index, int) else array
        return self.graph("Unsqueeze", array, new_axes) if new_axes else array

    def astype(self, _: type) -> _Array:
        """As float32, whatever type the caller names."""
        return self.graph("Cast", self, to=FLOAT)

    def take(self, indices: _Array, axis: int) -> _Array:
        return self.graph("Gather", self, indices, axis=axis)

    def cumsum(self, axis: int) -> _Array:
        return self.graph("CumSum", self, axis)

    def sum(self, axis: int, keepdims: bool = False) -> _Array:
        return self.graph("ReduceSum", self, [axis], keepdims=int(keepdims))

    def max(self, axis: int, keepdims: bool = False) -> _Array:
        return self.graph("ReduceMax", self, [axis], keepdims=int(keepdims))

    def swapaxes(self, axis: int, other: int) -> _Array:
        """Swap two of four axes."""
        order = [*range(4)]
        order[axis], order[other] = order[other], order[axis]
        return self.graph("Transpose", self, perm=order)


class _Graph:
    """Nodes and constants of a graph, and the ``Operations`` of ``runtime/forward.py``, which add to them."""

    def __init__(self, max_length: int) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: Counter[str] = Counter()
        self._max_length = max_length

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> _Array:
        """Add a node with one output."""
        return self.node(operator, inputs, [self._unused(operator)], **attributes)[0]

    def node(self, operator: str, inputs: Iterable[Any], outputs: list[str], **attributes: Any) -> list[_Array]:
        """Add a node. Other inputs than arrays of the graph become constants: floats float32, integers and lists of them int64."""
        import onnx

        names = [(value if isinstance(value, _Array) else self.weight(value)).name for value in inputs]
        self.nodes.append(onnx.helper.make_node(operator, names, outputs, name=outputs[0], **attributes))
        return [_Array(self, output) for output in outputs]

    def weight(self, values: Any, path: str = "constant") -> _Array:
        """Add a constant."""
        import onnx

        array, name = np.asarray(values, np.float32 if isinstance(values, float) else None), self._unused(path)
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return _Array(self, name, array.shape)

    def _unused(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"

    def norm(self, x: _Array, gamma: _Array, beta: _Array, epsilon: float) -> _Array:
        return self("LayerNormalization", x, gamma, beta, axis=-1, epsilon=epsilon)

    def rms_norm(self, x: Any, scale: Any, epsilon: float) -> Any:
        return x / np.sqrt(self("ReduceMean", x * x, [-1]) + np.float32(epsilon)) * scale

    def affine(self, x: Any, kernel: Any, bias: Any) -> Any:
        return x @ kernel + bias

    def relu(self, x: _Array) -> _Array:
        return self("Relu", x)

    def gelu(self, x: Any) -> Any:
        return x * (self("Erf", x * 0.5**0.5) + 1.0) * 0.5

    def silu(self, x: Any) -> Any:
        return x * self("Sigmoid", x)

    def split_heads(self, x_BLF: _Array, num_heads: int, width: int) -> _Array:
        return self("Reshape", x_BLF, [0, 0, num_heads, width]).swapaxes(1, 2)

    def merge_heads(self, mixed_BHLK: _Array, width: int) -> _Array:
        return self("Reshape", mixed_BHLK.swapaxes(1, 2), [0, 0, width])

    def repeat_heads(self, x_BGMK: Any, num_heads: int, times: int) -> Any:
        return x_BGMK.take(np.repeat(range(num_heads), times), axis=1)

    def half_turn(self, x: Any, width: int) -> Any:
        a, b = (self("Slice", x, [start], [start + width // 2], [3]) for start in (0, width // 2))
        return self("Concat", self("Neg", b), a, axis=3)

    def attention(
        self, q_BHLK: Any, k_BHMK: Any, v_BHMK: Any, real_BM: Any, scale: float, max_distance: int | None = None, causal: bool = False,
        slopes_H: Any = None,
    ) -> Any:  # fmt: skip
        scores_BHLM, allowed = (q_BHLK * scale) @ k_BHMK.swapaxes(2, 3), real_BM[:, None, None]
        if max_distance is not None or causal or slopes_H is not None:
            positions_L = self("Range", 0, self("Squeeze", self._length(real_BM), [0]), 1)
            back_LM: Any = self("Unsqueeze", positions_L, [1]) - positions_L
            distance_LM = self("Abs", back_LM)
            if max_distance is not None:
                allowed = self("And", allowed, self("LessOrEqual", distance_LM, max_distance))
            if causal:
                allowed = self("And", allowed, self("GreaterOrEqual", back_LM, 0))
            if slopes_H is not None:
                scores_BHLM = scores_BHLM - distance_LM.astype(float) * slopes_H[:, None, None]
        return self("Softmax", self("Where", allowed, scores_BHLM, LOWEST), axis=-1) @ v_BHMK

    def pool(self, x_BLD: Any, real_BL: Any, pooling: str) -> Any:
        real_BL1 = real_BL[:, :, None]
        number_B1 = real_BL1.astype(float).sum(axis=1)
        if pooling == "first":
            pooled_BD = x_BLD[:, 0]
        elif pooling == "last":
            last_B1 = self("Cast", np.maximum(number_B1 - np.float32(1.0), np.float32(0.0)), to=INT64)
            pooled_BD = self("GatherND", x_BLD, last_B1, batch_dims=1)
        elif pooling == "mean":
            pooled_BD = (x_BLD * real_BL1.astype(float)).sum(axis=1) / np.maximum(number_B1, 1.0)
        else:
            pooled_BD = self("Where", real_BL1, x_BLD, LOWEST).max(axis=1)
        return self("Where", number_B1 > np.float32(0.0), pooled_BD, 0.0)

    def concatenate(self, arrays: Sequence[_Array], axis: int) -> _Array:
        return self("Concat", *arrays, axis=axis)

    def first_rows(self, rows: Callable[[int], Any], ids_BL: _Array) -> _Array:
        return self("Slice", rows(self._max_length), [0], self._length(ids_BL), [0])

    def _length(self, x_BL: _Array) -> _Array:
        return self("Shape", x_BL, start=1, end=2)

    def earlier(self, numbers: _Array, back: int) -> _Array:
        return self("Slice", self("Pad", numbers, [back, 0], np.int32(0), [-1]), [0], [-back], [-1]) if back else numbers

    def subword_sums(self, table_RD: Any, tokens: Any) -> tuple[Any, Any]:
        characters_BLW = self("Slice", tokens, [1], [tokens.shape[2]], [2])
        sums, numbers = [], []
        for buckets_BLW, whole_BLW in hashed_subwords(characters_BLW, table_RD.shape[0], self.earlier):
            rows_BLWD, real_BLW = table_RD.take(self("Where", whole_BLW, buckets_BLW, np.int32(0)), axis=0), whole_BLW.astype(float)
            sums.append((real_BLW[:, :, None] @ rows_BLWD)[:, :, 0])
            numbers.append(real_BLW.sum(axis=2, keepdims=True))
        return self("Sum", *sums), self("Sum", *numbers)

    def with_neighbours(self, x_BLD: Any, kernel_ND: Any) -> Any:
        width, embed_dim = kernel_ND.shape
        x_BDL, kernel_D1N = self("Transpose", x_BLD, perm=[0, 2, 1]), self("Transpose", kernel_ND, perm=[1, 0])[:, None]
        convolved_BDL = self("Conv", x_BDL, kernel_D1N, group=embed_dim, pads=[width // 2, width // 2])
        return x_BLD + self("Transpose", convolved_BDL, perm=[0, 2, 1])

    def window_sums(self, x_BL: Any, reach: int) -> Any:
        before_BL = self("Pad", x_BL, [0, 1, 0, 0], 0.0).cumsum(axis=1)  # sums of all positions before
        positions_L: Any = self("Range", 0, self("Squeeze", self._length(x_BL), [0]), 1)
        last_L, first_L = self("Min", positions_L + np.int64(reach + 1), self._length(x_BL)), self("Max", positions_L - np.int64(reach), 0)
        return before_BL.take(last_L, axis=1) - before_BL.take(first_L, axis=1)

    def distinct(self, ngrams: Iterable[tuple[Any, Any]], weights_BL: Any, buckets: int) -> tuple[Any, Any]:
        """Sorting makes equal n-grams a run. Runtimes order the positions in a run differently, so the last one is found as the largest."""
        import onnx

        ids = [self("Where", whole_BL, buckets_BL, np.int32(buckets)) for buckets_BL, whole_BL in ngrams]
        buckets_BN, weights_BN = self._interleave(ids), self._interleave([weights_BL] * len(ids))
        number = self._length(buckets_BN)
        sorted_BN, positions_BN = self.node("TopK", [buckets_BN, number], ["sorted_ngrams", "ngram_positions"], axis=1)
        previous_BN = self("Slice", self("Pad", sorted_BN, [0, 1, 0, 0], np.int32(-1)), [0], number, [1])
        starts_BN = self("Not", self("Equal", sorted_BN, previous_BN))
        runs_BN: Any = self("Cast", starts_BN, to=INT64).cumsum(axis=1)
        none_BN = self("ConstantOfShape", self("Shape", buckets_BN), value=onnx.numpy_helper.from_array(np.array([-1], np.int64)))
        last_BN = self("ScatterElements", none_BN, runs_BN - np.int64(1), positions_BN, axis=1, reduction="max")
        found_BN = self("Max", last_BN, 0)
        rows_BN: Any = self("GatherElements", buckets_BN, found_BN, axis=1)
        counts_BN = self("And", self("GreaterOrEqual", last_BN, 0), self("Less", rows_BN, np.int32(buckets)))
        weights_BN = self("GatherElements", weights_BN, found_BN, axis=1) * counts_BN.astype(float)
        return np.minimum(rows_BN, buckets - 1), weights_BN

    def _interleave(self, arrays_BL: list[Any]) -> _Array:
        """Arrays (B, L) as one of (B, L · their number), in which the values of a position are neighbours."""
        return self("Reshape", self.concatenate([array_BL[:, :, None] for array_BL in arrays_BL], axis=2), [0, -1])

    def weighted_rows(self, weights_BN: Any, table_RU: Any, rows_BN: Any) -> Any:
        return (table_RU.take(rows_BN, axis=0) * weights_BN[:, :, None]).sum(axis=1)


def load(path: Path) -> Any:
    """The file in ONNX Runtime, as a function from inputs to probabilities."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["probabilities"], inputs)[0]
