"""The classifier as an ONNX file, for ONNX Runtime and whatever else reads ONNX.

The encoder is that of ``runtime/forward.py``; all else is written out here, operator by operator, as NumPy computes it there. A converter
would have to guess the formulas back from TensorFlow's graph.

Axes: B batch, L length (M when keys are meant), H heads, K width per head, F = H·K, D model width, C classes, R buckets, W characters of a
token, N n-grams of a text (of a kernel, its width), U units of the last layer.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_to_dict
from mha_cli.config.parameters import SMALLEST_NORM, input_names
from mha_cli.config.settings import SUBWORD_LENGTHS, LinearConfig
from mha_cli.errors import MhaError
from mha_cli.runtime.forward import Encoder, below, matrices, sinusoid
from mha_cli.text.ngrams import HASH_FACTOR, SUBWORD_START
from mha_cli.version import __version__

OPSET = 18  # the first with BitwiseAnd; ONNX Runtime reads it since 1.14
IR_VERSION = 8  # version of the file format that came with the operator set
MAX_BYTES = 2**31 - 2**24  # size that the weights may have: a protocol buffer holds two gigabytes, the graph included

FLOAT, INT64, BOOL = 1, 7, 9  # ONNX's numbers for the types of an array, as in ``TensorProto``

LOWEST = -3e38


def write(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file: ``token_ids`` int32 (batch, length[, 1 + characters]) to ``probabilities`` float32 (batch, classes).

    With a pretrained encoder, ``pieces`` int32 (batch, pieces) are an input as well, and ``token_ids`` only if there is a linear model.
    """
    import onnx

    if sum(weight.nbytes for weight in checkpoint.weights.values()) > MAX_BYTES:
        raise MhaError("--format onnx: the weights are over 2 GB, more than one ONNX file holds", "take --format saved-model")
    graph = _Graph(checkpoint)
    num_classes = len(checkpoint.class_names)
    probabilities = _probabilities(graph, num_classes, checkpoint.config.is_multi_label)
    shapes = {"pieces": ["batch", "pieces"], "token_ids": ["batch", "length", *checkpoint.config.text.token_shape[1:]]}
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "mha",
            [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, shapes[name]) for name in input_names(checkpoint.config)],
            [onnx.helper.make_tensor_value_info(probabilities.name, onnx.TensorProto.FLOAT, ["batch", num_classes])],
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
    """Vocabulary and settings, which a program needs besides the graph, as the file's ``metadata_props``.

    Returns:
        ``class_names``, ``text`` (how a text becomes tokens) and ``config`` as JSON; ``vocabulary``, one token per line, the line number,
        counted from 0, being its id; ``tokenizer``, a pretrained encoder's ``tokenizer.json``.
    """
    config = config_to_dict(checkpoint.config)
    return {
        "class_names": json.dumps(checkpoint.class_names, ensure_ascii=False),
        "text": json.dumps(config["text"]),
        "vocabulary": "\n".join(checkpoint.vocabulary.tokens),
        "config": json.dumps(config, ensure_ascii=False),
        **({"tokenizer": checkpoint.tokenizer.decode()} if checkpoint.tokenizer is not None else {}),
    }


class _Array:
    """An array of the graph; NumPy's operators add nodes."""

    def __init__(self, graph: _Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> _Array:
        return self.graph("Add", self, other)

    def __sub__(self, other: Any) -> _Array:
        return self.graph("Sub", self, other)

    def __mul__(self, other: Any) -> _Array:
        return self.graph("Mul", self, other)

    def __truediv__(self, other: Any) -> _Array:
        return self.graph("Div", self, other)

    def __matmul__(self, other: Any) -> _Array:
        return self.graph("MatMul", self, other)

    def with_axes(self, *axes: int) -> _Array:
        """With new axes of size 1."""
        return self.graph("Unsqueeze", self, [*axes])

    def transposed(self, *axes: int) -> _Array:
        return self.graph("Transpose", self, perm=axes)

    def as_float(self) -> _Array:
        return self.graph("Cast", self, to=FLOAT)


class _Graph(Encoder):
    """Nodes and constants in the making, and the arrays that many of the functions below need."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.config.model)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: Counter[str] = Counter()
        self.text = checkpoint.config.text
        self.linear = checkpoint.config.linear or LinearConfig()  # not read where there is none
        self.weights = {path: self.constant(weight, path) for path, weight in matrices(checkpoint.weights).items()}
        self.num_context_words = len(checkpoint.weights.get("linear/context_weights", ()))
        names = input_names(checkpoint.config)
        self.tokens = self.ids_BL = _Array(self, names[-1])
        if self.text.subword_characters and names[-1] == "token_ids":
            self.ids_BL = self("Gather", self.tokens, 0, axis=2, name="ids")
        self.mask_BL = self("Not", self("Equal", self.ids_BL, np.int32(0)), name="mask")
        self.real_BL = self.mask_BL.as_float()
        self.length = self("Shape", self.tokens, start=1, end=2, name="length")
        self.encoder_ids_BL = _Array(self, names[0]) if self.model.num_pieces else self.ids_BL
        self.encoder_mask_BL = self("Not", self("Equal", self.encoder_ids_BL, np.int32(0)), name="encoder_mask")
        self.positions_L = self("Range", 0, self("Squeeze", self.length, [0]), 1, name="positions")

    def __call__(self, operator: str, *inputs: Any, name: str = "", **attributes: Any) -> _Array:
        """Add a node. Inputs that are no arrays of the graph become constants: floats float32, integers and lists of them int64."""
        import onnx

        arrays = [each if isinstance(each, _Array) else self.constant(each) for each in inputs]
        output = self._unused(name or operator)
        self.nodes.append(onnx.helper.make_node(operator, [each.name for each in arrays], [output], name=output, **attributes))
        return _Array(self, output)

    def constant(self, values: Any, name: str = "constant") -> _Array:
        """Add a constant."""
        import onnx

        array = np.asarray(values, np.float32 if isinstance(values, float) else None)
        name = self._unused(name)
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return _Array(self, name)

    def _unused(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"

    def norm(self, x: _Array, gamma: _Array, beta: _Array) -> _Array:
        return self("LayerNormalization", x, gamma, beta, axis=-1, epsilon=self.model.norm_epsilon)

    def affine(self, x: _Array, kernel: _Array, bias: _Array) -> _Array:
        return x @ kernel + bias

    def activation(self, x: _Array) -> _Array:
        # X Φ(x), with the normal distribution's Φ itself and not its tanh approximation.
        return self("Relu", x) if self.model.activation == "relu" else x * (self("Erf", x * 0.5**0.5) + 1.0) * 0.5

    def split_heads(self, x_BLF: _Array, num_heads: int) -> _Array:
        return self("Reshape", x_BLF, [0, 0, num_heads, self.model.head_key_dim]).transposed(0, 2, 1, 3)

    def merge_heads(self, mixed_BHLK: _Array, num_heads: int) -> _Array:
        return self("Reshape", mixed_BHLK.transposed(0, 2, 1, 3), [0, 0, num_heads * self.model.head_key_dim])

    def attend(self, q_BHLK: _Array, k_BHMK: _Array, v_BHMK: _Array, weights: dict[str, _Array]) -> _Array:
        if self.model.attention_score == "additive":
            sums_BHLMK = self("Tanh", q_BHLK.with_axes(3) + k_BHMK.with_axes(2))
            scores_BHLM = self("ReduceSum", sums_BHLMK * weights["score_kernel"].with_axes(0, 2, 3), [-1], keepdims=0)
        else:
            scale = self.model.head_key_dim**-0.5 if self.model.use_scale else 1.0
            scores_BHLM = (q_BHLK * scale) @ k_BHMK.transposed(0, 1, 3, 2)
        return self("Softmax", self("Where", self.encoder_mask_BL.with_axes(1, 2), scores_BHLM, LOWEST), axis=-1) @ v_BHMK


def _probabilities(graph: _Graph, num_classes: int, several: bool) -> _Array:
    """Probabilities of all classes, (B, C), from ``token_ids`` (B, L) or (B, L, 1 + W)."""
    x_BLD = graph.blocks(_embed(graph), graph.weights)
    features_BD = _pool(graph, x_BLD)
    if "linear/table" in graph.weights:
        features_BD = graph("Concat", features_BD, _linear_logits(graph), axis=1, name="features")
    logits = graph.affine(features_BD, graph.weights["classifier/kernel"], graph.weights["classifier/bias"])
    if several:
        return graph("Sigmoid", logits, name="probabilities")
    if num_classes > 2:
        return graph("Softmax", logits, axis=-1, name="probabilities")
    second_B1 = graph("Sigmoid", logits)
    return graph("Concat", graph("Sub", 1.0, second_B1), second_B1, axis=1, name="probabilities")


def _embed(graph: _Graph) -> _Array:
    """Token embedding, those of n-grams that end there, the mean of its subwords', their convolution and position embedding, (B, L, D)."""
    model, tables = graph.model, below(graph.weights, "embedding/token_embedding/")
    x_BLD = graph("Gather", tables["words"], graph.encoder_ids_BL, name="embedding")
    for n in range(2, model.max_ngram + 1):
        bucket_BL, whole_BL = _ngrams(graph, n, model.ngram_buckets)
        x_BLD = x_BLD + graph("Gather", tables["ngrams"], bucket_BL) * whole_BL.as_float().with_axes(2)
    if model.subword_buckets:
        sums_BLD, numbers_BL1 = _subword_sums(graph, tables["subwords"], model.subword_buckets)
        x_BLD = x_BLD + sums_BLD / graph("Max", numbers_BL1, 1.0)
    if model.conv_kernel_size:
        reach = model.conv_kernel_size // 2
        x_BLD = x_BLD * graph.real_BL.with_axes(2)
        x_BDL, kernel_D1N = x_BLD.transposed(0, 2, 1), tables["convolution_kernel"].transposed(1, 0).with_axes(1)
        convolved_BDL = graph("Conv", x_BDL, kernel_D1N, group=model.embed_dim, pads=[reach, reach], name="convolution")
        x_BLD = x_BLD + convolved_BDL.transposed(0, 2, 1)
    if model.positions == "none":
        return x_BLD
    if model.positions == "learned":
        positions_SD = graph.weights["embedding/position_embedding/embeddings"]
    else:
        positions_SD = graph.constant(sinusoid(graph.text.sequence_length, model.embed_dim))
    x_BLD = x_BLD + _first(graph, positions_SD, graph("Shape", graph.encoder_ids_BL, start=1, end=2), axis=0)
    return graph.norm(x_BLD, *below(graph.weights, "embedding/norm/").values()) if model.embedding_norm else x_BLD


def _first(graph: _Graph, x: Any, number: Any, axis: int) -> _Array:
    """The first entries along an axis; the number is int64 (1,)."""
    return graph("Slice", x, [0], number, [axis])


def _ngrams(graph: _Graph, n: int, buckets: int) -> tuple[_Array, _Array]:
    """The bucket of the n tokens that end at each position, int32 (B, L), and where there are n, bool (B, L)."""
    bucket_BL = _ngram_buckets(graph, graph.ids_BL, graph.length, n, buckets, axis=1)
    return bucket_BL, graph("And", graph.mask_BL, graph("GreaterOrEqual", graph.positions_L, n - 1))


def _ngram_buckets(graph: _Graph, numbers: _Array, length: Any, n: int, buckets: int, axis: int, start: int = 0) -> _Array:
    """The bucket of the n numbers that end at each position of the last axis, int32; ``length`` is that axis's, int64 (1,)."""
    # 32-bit arithmetic that wraps round; the first product is of two constants.
    with np.errstate(over="ignore"):
        hashes: Any = np.int32(start + n) * HASH_FACTOR
    for back in range(n - 1, 0, -1):
        pads = [0] * axis + [back] + [0] * (axis + 1)
        earlier = _first(graph, graph("Pad", numbers, pads, np.int32(0)), length, axis)
        hashes = (earlier + hashes) * np.int32(HASH_FACTOR)
    return graph("BitwiseAnd", numbers + hashes, np.int32(buckets - 1), name=f"bucket_of_{n}")


def _subword_sums(graph: _Graph, table: _Array, buckets: int) -> tuple[_Array, _Array]:
    """For each token the sum of its subwords' rows, (B, L, D), and how many they are, (B, L, 1)."""
    characters = graph.text.subword_characters
    code_points_BLW = graph("Slice", graph.tokens, [1], [1 + characters], [2], name="characters")
    real_BLW = graph("Not", graph("Equal", code_points_BLW, np.int32(0)))
    sums, numbers = [], []
    for n in SUBWORD_LENGTHS:
        bucket_BLW = _ngram_buckets(graph, code_points_BLW, [characters], n, buckets, axis=2, start=SUBWORD_START)
        whole_BLW = graph("And", real_BLW, np.arange(characters) >= n - 1)
        rows_BLWD = graph("Gather", table, graph("Where", whole_BLW, bucket_BLW, np.int32(0)))
        there_BLW = whole_BLW.as_float()
        sums.append(graph("Squeeze", there_BLW.with_axes(2) @ rows_BLWD, [2]))
        numbers.append(graph("ReduceSum", there_BLW, [2], keepdims=1))
    return graph("Sum", *sums), graph("Sum", *numbers)


def _linear_logits(graph: _Graph) -> _Array:
    """The logits of the linear model, (B, U)."""
    table = graph.weights["linear/table"]
    logits_BU = _text_logits(graph, table)
    if not graph.linear.subwords:
        return logits_BU
    sums_BLU, numbers_BL1 = _subword_sums(graph, table, graph.linear.buckets)
    number_B1 = graph("Max", graph("ReduceSum", numbers_BL1, [1], keepdims=0), 1.0)
    return logits_BU + graph("ReduceSum", sums_BLU, [1], keepdims=0) / graph("Sqrt", number_B1)


def _text_logits(graph: _Graph, table: _Array) -> _Array:
    """The weighted sum of the logits of a text's distinct n-grams, over the norm of the weights, (B, U)."""
    import onnx

    buckets, orders = graph.linear.buckets, range(1, graph.linear.max_ngram + 1)
    ngrams = [_ngrams(graph, n, buckets) for n in orders]
    buckets_BN = _side_by_side(graph, [graph("Where", whole_BL, bucket_BL, np.int32(buckets)) for bucket_BL, whole_BL in ngrams])
    number = graph("Shape", buckets_BN, start=1, end=2)
    # Sorted, equal n-grams are neighbours: a run. Runtimes order the positions in a run differently, so the last one is the largest.
    sorted_BN = graph("TopK", buckets_BN, number, axis=1, name="sorted_ngrams")
    positions_BN = _Array(graph, "ngram_positions")
    graph.nodes[-1].output.append(positions_BN.name)
    before_BN = _first(graph, graph("Pad", sorted_BN, [0, 1, 0, 0], np.int32(-1)), number, axis=1)
    starts_BN = graph("Not", graph("Equal", sorted_BN, before_BN))
    runs_BN = graph("CumSum", graph("Cast", starts_BN, to=INT64), [1]) - 1
    unused = onnx.numpy_helper.from_array(np.array([-1], np.int64))
    unused_BN = graph("ConstantOfShape", graph("Shape", buckets_BN), value=unused)
    last_BN = graph("ScatterElements", unused_BN, runs_BN, positions_BN, axis=1, reduction="max", name="last_positions")
    there_BN = graph("Max", last_BN, 0)
    bucket_BN = graph("GatherElements", buckets_BN, there_BN, axis=1)
    counts_BN = graph("And", graph("GreaterOrEqual", last_BN, 0), graph("Less", bucket_BN, np.int32(buckets)))
    weights_BN = _side_by_side(graph, [_position_weights(graph)] * len(orders))
    weights_BN = graph("GatherElements", weights_BN, there_BN, axis=1) * counts_BN.as_float()
    logits_BNU = graph("Gather", table, graph("Min", bucket_BN, np.int32(buckets - 1)))
    sums_BU = graph("ReduceSum", logits_BNU * weights_BN.with_axes(2), [1], keepdims=0)
    norms_B1 = graph("Sqrt", graph("ReduceSum", weights_BN * weights_BN, [1], keepdims=1))
    return sums_BU / graph("Max", norms_B1, SMALLEST_NORM)


def _side_by_side(graph: _Graph, arrays_BL: list[_Array]) -> _Array:
    """Arrays (B, L) as one (B, L · their number), in which the numbers of one position are neighbours."""
    stacked = graph("Concat", *(array_BL.with_axes(2) for array_BL in arrays_BL), axis=2)
    return graph("Reshape", stacked, [0, -1])


def _position_weights(graph: _Graph) -> _Array:
    """The weight of an n-gram that ends at a token, (B, L): by its position, and by the mean context weights of the words around it."""
    if graph.linear.end_decay:  # 1 + exp(-tokens after it / end_decay)
        after_BL = graph("CumSum", graph.real_BL, 1, exclusive=1, reverse=1)
        weights_BL = graph("Exp", after_BL / float(-graph.linear.end_decay)) + 1.0
    else:
        weights_BL = graph("Max", graph.real_BL, 1.0)
    if not graph.linear.context_windows:
        return weights_BL
    context_weights_WK = graph.weights["linear/context_weights"]
    word_BL = graph("Min", graph.ids_BL, np.int32(graph.num_context_words - 1))
    for k, reach in enumerate(graph.linear.context_windows):
        context_BL = graph("Gather", graph("Gather", context_weights_WK, k, axis=1), word_BL) * graph.real_BL
        sums_BL, words_BL = (_window_sums(graph, x_BL, reach) for x_BL in (context_BL, graph.real_BL))
        weights_BL = weights_BL * graph("Exp", sums_BL / graph("Max", words_BL, 1.0))
    return weights_BL


def _window_sums(graph: _Graph, x_BL: _Array, reach: int) -> _Array:
    """At every position the sum over the positions up to ``reach`` away, (B, L)."""
    sums_BL = graph("CumSum", graph("Pad", x_BL, [0, 1, 0, 0], 0.0), 1)  # of all positions before
    last_L = graph("Min", graph.positions_L + (reach + 1), graph.length)
    first_L = graph("Max", graph.positions_L - reach, 0)
    return graph("Gather", sums_BL, last_L, axis=1) - graph("Gather", sums_BL, first_L, axis=1)


def _pool(graph: _Graph, x_BLD: _Array) -> _Array:
    """What ``pool`` of ``runtime/forward.py`` gives, (B, D)."""
    real_BL = graph.encoder_mask_BL.as_float()
    if graph.model.pooling == "first":
        return graph("Gather", x_BLD, 0, axis=1, name="pooling")
    if graph.model.pooling == "mean":
        total_BD = graph("ReduceSum", x_BLD * real_BL.with_axes(2), [1], keepdims=0)
        return total_BD / graph("Max", graph("ReduceSum", real_BL, [1], keepdims=1), 1.0)
    real_BLD = graph("Where", graph.encoder_mask_BL.with_axes(2), x_BLD, LOWEST)
    any_B1 = graph("Cast", graph("ReduceMax", real_BL, [1], keepdims=1), to=BOOL)
    return graph("Where", any_B1, graph("ReduceMax", real_BLD, [1], keepdims=0), 0.0, name="pooling")


def opened(path: Path) -> Any:
    """The file in ONNX Runtime, as a function from inputs to probabilities."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["probabilities"], inputs)[0]
