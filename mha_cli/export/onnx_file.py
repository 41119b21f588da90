"""The classifier as an ONNX file, for ONNX Runtime and whatever else reads ONNX.

The graph is written out here, operator by operator, as ``runtime/forward.py`` writes the same formulas in NumPy: a converter would have to
guess them back from TensorFlow's graph.

Axes: B batch, L length (M when keys are meant), H heads, K key width per head, V value width per head, D model width, C classes, R buckets,
W characters of a token.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_to_dict
from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.config.settings import SUBWORD_LENGTHS, ModelConfig
from mha_cli.errors import MhaError
from mha_cli.runtime.forward import NORM_EPSILON, Weights, below, sinusoid
from mha_cli.text.ngrams import HASH_FACTOR, SUBWORD_START
from mha_cli.version import __version__

OPSET = 18
"""The first with BitwiseAnd; ONNX Runtime reads it since 1.14."""

IR_VERSION = 8
"""Version of the file's own form, the one that came with the operator set."""

MAX_BYTES = 2**31 - 2**24
"""Size that the weights may have: a protocol buffer holds two gigabytes, the graph included."""

FLOAT, INT64, BOOL = 1, 7, 9
"""ONNX's numbers for the types of an array, as in ``TensorProto``."""

LOWEST = np.float32(-3e38)


def write(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file: ``token_ids`` int32 (batch, length[, 1 + characters]) to ``probabilities`` float32 (batch, classes)."""
    import onnx

    if sum(weight.nbytes for weight in checkpoint.weights.values()) > MAX_BYTES:
        raise MhaError("--format onnx: the weights are over 2 GB, more than one ONNX file holds", "take --format saved-model")
    graph = _Graph()
    shape = ["batch", "length", *checkpoint.config.text.token_shape[1:]]
    _probabilities(graph, checkpoint)
    graph.nodes[-1].output[0] = "probabilities"  # the last node gives them
    num_classes = len(checkpoint.class_names)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "mha",
            [onnx.helper.make_tensor_value_info("token_ids", onnx.TensorProto.INT32, shape)],
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
    """What a program needs besides the graph, as the file's ``metadata_props``.

    Returns:
        ``class_names``, ``text`` (how a text becomes tokens) and ``config`` as JSON; ``vocabulary``, a token a line, the line number,
        counted from 0, being its id.
    """
    config = config_to_dict(checkpoint.config)
    return {
        "class_names": json.dumps(checkpoint.class_names, ensure_ascii=False),
        "text": json.dumps(config["text"]),
        "vocabulary": "\n".join(checkpoint.vocabulary.tokens),
        "config": json.dumps(config, ensure_ascii=False),
    }


class _Graph:
    """Nodes and constants of a graph in the making; ``ids_BL`` names the ids of the tokens."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[str, int] = {}
        self.ids_BL = "token_ids"

    def __call__(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        import onnx

        output = self._unused(name or operator)
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, values: npt.ArrayLike, name: str = "constant") -> str:
        """Add a constant; returns its name."""
        import onnx

        name = self._unused(name)
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values).reshape(np.shape(values)), name))
        return name

    def _unused(self, name: str) -> str:
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"


def _probabilities(graph: _Graph, checkpoint: Checkpoint) -> str:
    """Probabilities of all classes, (B, C), from ``token_ids`` (B, L) or (B, L, 1 + W)."""
    model, characters = checkpoint.config.model, checkpoint.config.text.subword_characters
    if characters:
        graph.ids_BL = graph("Gather", "token_ids", graph.constant(np.int64(0)), axis=2, name="ids")
    mask_BL = graph("Not", graph("Equal", graph.ids_BL, graph.constant(np.int32(0), "padding_id")), name="mask")
    x_BLD = _embed(graph, mask_BL, checkpoint)
    for block in range(model.num_blocks):
        x_BLD = _encode(graph, x_BLD, mask_BL, checkpoint, block)
    features_BD = _global_max_pool(graph, x_BLD, mask_BL)
    if model.score_ngrams:
        scores_BU = _ngram_scores(graph, mask_BL, checkpoint)
        features_BD = graph("Concat", features_BD, scores_BU, axis=1, name="features")
    logits = _affine(graph, features_BD, below(checkpoint.weights, "classifier/"), "classifier")
    if len(checkpoint.class_names) > 2:
        return graph("Softmax", logits, axis=-1)
    second_B1 = graph("Sigmoid", logits)
    first_B1 = graph("Sub", graph.constant(np.float32(1.0)), second_B1)
    return graph("Concat", first_B1, second_B1, axis=1)


def _embed(graph: _Graph, mask_BL: str, checkpoint: Checkpoint) -> str:
    """Token embedding, those of n-grams that end there, the mean of its subwords', their convolution and position embedding, (B, L, D)."""
    model, weights = checkpoint.config.model, checkpoint.weights
    x_BLD = graph("Gather", graph.constant(weights["embedding/token_embedding/words"], "token_embeddings"), graph.ids_BL, name="embedding")
    if model.max_ngram > 1:
        table = graph.constant(weights["embedding/token_embedding/ngrams"], "ngram_embeddings")
        for n in range(2, model.max_ngram + 1):
            bucket_BL, whole_BL = _ngrams(graph, mask_BL, n, model.ngram_buckets)
            ngrams_BLD = graph("Mul", graph("Gather", table, bucket_BL), _unsqueeze(graph, _as_float(graph, whole_BL), 2))
            x_BLD = graph("Add", x_BLD, ngrams_BLD)
    if model.subword_buckets:
        table = graph.constant(weights["embedding/token_embedding/subwords"], "subword_embeddings")
        sums_BLD, numbers_BL1 = _subword_sums(graph, table, model.subword_buckets, checkpoint.config.text.subword_characters)
        mean_BLD = graph("Div", sums_BLD, graph("Max", numbers_BL1, graph.constant(np.float32(1.0))))
        x_BLD = graph("Add", x_BLD, mean_BLD)
    if model.conv_kernel_size:
        x_BLD = _with_neighbours(graph, x_BLD, mask_BL, weights["embedding/token_embedding/convolution_kernel"])
    if model.positions == "none":
        return x_BLD
    learned = model.positions == "learned"
    longest = checkpoint.config.text.sequence_length
    positions_SD = weights["embedding/position_embedding/embeddings"] if learned else sinusoid(longest, model.embed_dim)
    positions_LD = _first(graph, graph.constant(positions_SD, "position_embeddings"), _length(graph), axis=0)
    return graph("Add", x_BLD, positions_LD, name="embedded")


def _with_neighbours(graph: _Graph, x_BLD: str, mask_BL: str, kernel_ND: npt.NDArray[np.float32]) -> str:
    """Embeddings and their depthwise convolution, (B, L, D)."""
    width, reach = kernel_ND.shape[1], len(kernel_ND) // 2
    x_BLD = graph("Mul", x_BLD, _unsqueeze(graph, _as_float(graph, mask_BL), 2))
    kernel_D1N = graph.constant(kernel_ND.T[:, None], "convolution_kernel")
    x_BDL = graph("Transpose", x_BLD, perm=[0, 2, 1])
    convolved_BDL = graph("Conv", x_BDL, kernel_D1N, group=width, pads=[reach, reach], name="convolution")
    return graph("Add", x_BLD, graph("Transpose", convolved_BDL, perm=[0, 2, 1]))


def _ngrams(graph: _Graph, mask_BL: str, n: int, buckets: int) -> tuple[str, str]:
    """The bucket of the n tokens that end at each position, int32 (B, L), and where there are n, bool (B, L)."""
    bucket_BL = _ngram_buckets(graph, graph.ids_BL, _length(graph), n, buckets, axis=1)
    if n == 1:
        return bucket_BL, mask_BL
    return bucket_BL, graph("And", mask_BL, graph("GreaterOrEqual", _positions(graph), graph.constant(np.int64(n - 1))))


def _ngram_buckets(graph: _Graph, numbers: str, length: str, n: int, buckets: int, axis: int, start: int = 0) -> str:
    """The bucket of the n numbers that end at each position of the last axis, int32; ``length`` is that axis's, int64 (1,)."""
    # 32-bit arithmetic that wraps round; the first product is of two constants.
    with np.errstate(over="ignore"):
        hashes = graph.constant(np.int32(start + n) * HASH_FACTOR)
    for back in range(n - 1, -1, -1):
        earlier = numbers
        if back:
            pads = np.zeros(2 * (axis + 1), np.int64)
            pads[axis] = back
            padded = graph("Pad", numbers, graph.constant(pads), graph.constant(np.int32(0)))
            earlier = _first(graph, padded, length, axis=axis)
        hashes = graph("Add", earlier, hashes)
        if back:
            hashes = graph("Mul", hashes, graph.constant(np.int32(HASH_FACTOR)))
    return graph("BitwiseAnd", hashes, graph.constant(np.int32(buckets - 1)), name=f"bucket_of_{n}")


def _subword_sums(graph: _Graph, table: str, buckets: int, characters: int) -> tuple[str, str]:
    """For each token the sum of its subwords' rows, (B, L, D), and how many they are, (B, L, 1)."""
    one, axis, width = (graph.constant(np.array([number], np.int64)) for number in (1, 2, characters))
    zero = graph.constant(np.int32(0))
    code_points_BLW = graph("Slice", "token_ids", one, graph.constant(np.array([1 + characters], np.int64)), axis, name="characters")
    real_BLW = graph("Not", graph("Equal", code_points_BLW, zero))
    sums, numbers = [], []
    for n in SUBWORD_LENGTHS:
        bucket_BLW = _ngram_buckets(graph, code_points_BLW, width, n, buckets, axis=2, start=SUBWORD_START)
        whole_BLW = graph("And", real_BLW, graph.constant(np.arange(characters) >= n - 1))
        rows_BLWD = graph("Gather", table, graph("Where", whole_BLW, bucket_BLW, zero))
        there_BLW = _as_float(graph, whole_BLW)
        sums.append(graph("Squeeze", graph("MatMul", _unsqueeze(graph, there_BLW, 2), rows_BLWD), axis))
        numbers.append(graph("ReduceSum", there_BLW, axis, keepdims=1))
    return graph("Sum", *sums), graph("Sum", *numbers)


def _ngram_scores(graph: _Graph, mask_BL: str, checkpoint: Checkpoint) -> str:
    """What n-grams and subwords say about a text, (B, U)."""
    model, weights = checkpoint.config.model, below(checkpoint.weights, "scores/")
    table = graph.constant(weights["table"], "score_table")
    scores_BU = _text_scores(graph, mask_BL, table, weights, model)
    if not model.score_subwords:
        return scores_BU
    sums_BLU, numbers_BL1 = _subword_sums(graph, table, model.score_buckets, checkpoint.config.text.subword_characters)
    along = _axes(graph, 1)
    number_B1 = graph("Max", graph("ReduceSum", numbers_BL1, along, keepdims=0), graph.constant(np.float32(1.0)))
    return graph("Add", scores_BU, graph("Div", graph("ReduceSum", sums_BLU, along, keepdims=0), graph("Sqrt", number_B1)))


def _text_scores(graph: _Graph, mask_BL: str, table: str, weights: Weights, model: ModelConfig) -> str:
    """The sum of the scores of a text's distinct n-grams, each weighted by its last position, over the weights' length, (B, U)."""
    import onnx

    buckets, orders = len(weights["table"]), range(1, model.score_ngrams + 1)
    none = graph.constant(np.int32(buckets))
    found = [graph("Where", whole_BL, bucket_BL, none) for bucket_BL, whole_BL in (_ngrams(graph, mask_BL, n, buckets) for n in orders)]
    buckets_BN = _side_by_side(graph, found)
    number, axis = graph("Shape", buckets_BN, start=1, end=2), _axes(graph, 1)
    # Sorted, equal n-grams are neighbours: a run. Runtimes order the positions in a run differently, so the last one is the largest.
    sorted_BN = graph("TopK", buckets_BN, number, axis=1, name="sorted_ngrams")
    positions_BN = f"{sorted_BN}_places"
    graph.nodes[-1].output.append(positions_BN)
    padded = graph("Pad", sorted_BN, graph.constant(np.array([0, 1, 0, 0], np.int64)), graph.constant(np.int32(-1)))
    starts_BN = graph("Not", graph("Equal", sorted_BN, _first(graph, padded, number, axis=1)))
    runs_BN = graph("Sub", graph("CumSum", graph("Cast", starts_BN, to=INT64), axis), _axes(graph, 1))
    unused = onnx.numpy_helper.from_array(np.array([-1], np.int64))
    unused_BN = graph("ConstantOfShape", graph("Shape", buckets_BN), value=unused)
    last_BN = graph("ScatterElements", unused_BN, runs_BN, positions_BN, axis=1, reduction="max", name="last_positions")
    there_BN = graph("Max", last_BN, _axes(graph, 0))
    bucket_BN = graph("GatherElements", buckets_BN, there_BN, axis=1)
    counts_BN = graph("And", graph("GreaterOrEqual", last_BN, _axes(graph, 0)), graph("Less", bucket_BN, none))
    weights_BL = _place_weights(graph, mask_BL, weights, model)
    weights_BN = graph("GatherElements", _side_by_side(graph, [weights_BL for _ in orders]), there_BN, axis=1)
    weights_BN = graph("Mul", weights_BN, _as_float(graph, counts_BN))
    rows = graph("Min", bucket_BN, graph.constant(np.int32(buckets - 1)))
    scores_BNU = graph("Gather", table, rows)
    weighted = graph("Mul", scores_BNU, _unsqueeze(graph, weights_BN, 2))
    sums_BU = graph("ReduceSum", weighted, axis, keepdims=0)
    norms_B1 = graph("Sqrt", graph("ReduceSum", graph("Mul", weights_BN, weights_BN), axis, keepdims=1))
    return graph("Div", sums_BU, graph("Max", norms_B1, graph.constant(np.float32(SMALLEST_NORM))), name="scores")


def _side_by_side(graph: _Graph, arrays_BL: list[str]) -> str:
    """Arrays (B, L) as one (B, L · their number), in which what belongs to a position stands together."""
    stacked = graph("Concat", *(_unsqueeze(graph, array_BL, 2) for array_BL in arrays_BL), axis=2)
    return graph("Reshape", stacked, graph.constant(np.array([0, -1], np.int64)))


def _place_weights(graph: _Graph, mask_BL: str, weights: Weights, model: ModelConfig) -> str:
    """How much an n-gram counts that ends at a token, (B, L): by its position, and by the mean salience of the words around it."""
    weights_BL = _ending_weights(graph, mask_BL, model.score_ending)
    if not model.score_windows:
        return weights_BL
    real_BL = _as_float(graph, mask_BL)
    word_BL = graph("Min", graph.ids_BL, graph.constant(np.int32(len(weights["salience"]) - 1)))
    for k, reach in enumerate(model.score_windows):
        salience_BL = graph("Gather", graph.constant(weights["salience"][:, k], f"salience_{k}"), word_BL)
        sums_BL = _window_sums(graph, graph("Mul", salience_BL, real_BL), reach)
        words_BL = graph("Max", _window_sums(graph, real_BL, reach), graph.constant(np.float32(1.0)))
        weights_BL = graph("Mul", weights_BL, graph("Exp", graph("Div", sums_BL, words_BL)))
    return weights_BL


def _window_sums(graph: _Graph, x_BL: str, reach: int) -> str:
    """At every position the sum over the positions up to ``reach`` away, (B, L)."""
    position_L = _positions(graph)
    front = graph("Pad", x_BL, graph.constant(np.array([0, 1, 0, 0], np.int64)), graph.constant(np.float32(0.0)))
    sums_BL = graph("CumSum", front, graph.constant(np.int64(1)))  # of all positions before
    last_L = graph("Min", graph("Add", position_L, graph.constant(np.int64(reach + 1))), _length(graph))
    first_L = graph("Max", graph("Sub", position_L, graph.constant(np.int64(reach))), graph.constant(np.int64(0)))
    return graph("Sub", graph("Gather", sums_BL, last_L, axis=1), graph("Gather", sums_BL, first_L, axis=1))


def _positions(graph: _Graph) -> str:
    """0, 1, …, L - 1."""
    scalar = graph("Squeeze", _length(graph), _axes(graph, 0))
    return graph("Range", graph.constant(np.int64(0)), scalar, graph.constant(np.int64(1)))


def _ending_weights(graph: _Graph, mask_BL: str, ending: int) -> str:
    """1 + exp(-tokens after it / ending) at every token, or 1 everywhere for ``ending`` 0, (B, L)."""
    real_BL = _as_float(graph, mask_BL)
    one = graph.constant(np.float32(1.0))
    if not ending:
        return graph("Max", real_BL, one)
    after_BL = graph("CumSum", real_BL, graph.constant(np.int64(1)), exclusive=1, reverse=1)
    return graph("Add", graph("Exp", graph("Div", after_BL, graph.constant(np.float32(-ending)))), one)


def _encode(graph: _Graph, x_BLD: str, mask_BL: str, checkpoint: Checkpoint, block: int) -> str:
    """One encoder block, (B, L, D)."""
    model = checkpoint.config.model
    name = f"encoder_{block}/"
    weights = below(checkpoint.weights, name)

    def norm(x: str, which: str) -> str:
        gamma, beta = (graph.constant(weights[f"{which}/{part}"], f"{name}{which}/{part}") for part in ("gamma", "beta"))
        return graph("LayerNormalization", x, gamma, beta, axis=-1, epsilon=NORM_EPSILON, name=f"{name}{which}")

    def attend(x: str) -> str:
        return _attention(graph, x, mask_BL, below(weights, "attention/"), checkpoint, block)

    def feed_forward(x: str) -> str:
        hidden = _affine(graph, x, below(weights, "feed_forward_in/"), f"{name}feed_forward_in")
        activated = graph("Relu", hidden) if model.activation == "relu" else _gelu(graph, hidden)
        return _affine(graph, activated, below(weights, "feed_forward_out/"), f"{name}feed_forward_out")

    if model.normalization == "pre":
        attended_BLD = graph("Add", x_BLD, attend(norm(x_BLD, "attention_norm")))
        return graph("Add", attended_BLD, feed_forward(norm(attended_BLD, "feed_forward_norm")))
    attended_BLD = norm(graph("Add", x_BLD, attend(x_BLD)), "attention_norm")
    return norm(graph("Add", attended_BLD, feed_forward(attended_BLD)), "feed_forward_norm")


def _attention(graph: _Graph, x_BLD: str, mask_BM: str, weights: Weights, checkpoint: Checkpoint, block: int) -> str:
    """Self-attention of every head, concatenated and projected, (B, L, D).

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1 and section 3.2.2; additive: Bahdanau et al. 2015, section A.1.2.
    """
    model = checkpoint.config.model
    name = f"encoder_{block}/attention/"

    def project(which: str) -> str:
        kernel_DHK = weights[f"{which}_kernel"]
        width, heads, head_width = kernel_DHK.shape
        x = graph("MatMul", x_BLD, graph.constant(kernel_DHK.reshape(width, -1), f"{name}{which}_kernel"))
        if f"{which}_bias" in weights:
            x = graph("Add", x, graph.constant(weights[f"{which}_bias"].reshape(-1), f"{name}{which}_bias"))
        split = graph("Reshape", x, graph.constant(np.array([0, 0, heads, head_width], np.int64)))
        return graph("Transpose", split, perm=[0, 2, 1, 3], name=f"{name}{which}")

    q_BHLK, k_BHMK, v_BHMV = project("query"), project("key"), project("value")
    if model.attention_score == "additive":
        score_1H11K = graph.constant(weights["score_kernel"][None, :, None, None, :], f"{name}score_kernel")
        sums_BHLMK = graph("Tanh", graph("Add", _unsqueeze(graph, q_BHLK, 3), _unsqueeze(graph, k_BHMK, 2)))
        products = graph("Mul", sums_BHLMK, score_1H11K)
        scores_BHLM = graph("ReduceSum", products, _axes(graph, -1), keepdims=0, name=f"{name}scores")
    else:
        if model.use_scale:
            q_BHLK = graph("Mul", q_BHLK, graph.constant(np.float32(model.head_key_dim**-0.5), f"{name}scale"))
        scores_BHLM = graph("MatMul", q_BHLK, graph("Transpose", k_BHMK, perm=[0, 1, 3, 2]), name=f"{name}scores")
    real_B11M = _unsqueeze(graph, mask_BM, 1, 2)
    allowed_BHLM = graph("Where", real_B11M, scores_BHLM, graph.constant(LOWEST))
    weights_BHLM = graph("Softmax", allowed_BHLM, axis=-1, name=f"{name}weights")
    anywhere_B111 = graph("ReduceMax", _as_float(graph, real_B11M), _axes(graph, -1), keepdims=1)
    mixed_BHLV = graph("Mul", graph("MatMul", weights_BHLM, v_BHMV), anywhere_B111)
    kernel_HVD = weights["output_kernel"]
    heads, head_width, width = kernel_HVD.shape
    shape = graph.constant(np.array([0, 0, heads * head_width], np.int64))
    concatenated = graph("Reshape", graph("Transpose", mixed_BHLV, perm=[0, 2, 1, 3]), shape)
    output_BLD = graph("MatMul", concatenated, graph.constant(kernel_HVD.reshape(-1, width), f"{name}output_kernel"))
    if "output_bias" not in weights:
        return output_BLD
    return graph("Add", output_BLD, graph.constant(weights["output_bias"], f"{name}output_bias"), name=f"{name}output")


def _global_max_pool(graph: _Graph, x_BLD: str, mask_BL: str) -> str:
    """The largest value of every feature over the real positions, (B, D); zeros where there is none."""
    real_BLD = graph("Where", _unsqueeze(graph, mask_BL, 2), x_BLD, graph.constant(LOWEST))
    largest_BD = graph("ReduceMax", real_BLD, _axes(graph, 1), keepdims=0)
    any_B1 = graph("Cast", graph("ReduceMax", _as_float(graph, mask_BL), _axes(graph, 1), keepdims=1), to=BOOL)
    return graph("Where", any_B1, largest_BD, graph.constant(np.float32(0.0)), name="pooling")


def _affine(graph: _Graph, x: str, weights: Weights, name: str) -> str:
    """X W + b."""
    product = graph("MatMul", x, graph.constant(weights["kernel"], f"{name}/kernel"))
    return graph("Add", product, graph.constant(weights["bias"], f"{name}/bias"), name=name)


def _gelu(graph: _Graph, x: str) -> str:
    """X Φ(x), with the normal distribution's Φ itself and not its tanh approximation."""
    error = graph("Erf", graph("Mul", x, graph.constant(np.float32(0.5**0.5))))
    twice = graph("Mul", x, graph("Add", error, graph.constant(np.float32(1.0))))
    return graph("Mul", twice, graph.constant(np.float32(0.5)))


def _length(graph: _Graph) -> str:
    """L, as int64 (1,)."""
    return graph("Shape", "token_ids", start=1, end=2, name="length")


def _first(graph: _Graph, x: str, number: str, axis: int) -> str:
    """The first entries along an axis; the number is int64 (1,)."""
    start, along = _axes(graph, 0), _axes(graph, axis)
    return graph("Slice", x, start, number, along)


def _unsqueeze(graph: _Graph, x: str, *axes: int) -> str:
    return graph("Unsqueeze", x, _axes(graph, *axes))


def _axes(graph: _Graph, *numbers: int) -> str:
    return graph.constant(np.array(numbers, np.int64))


def _as_float(graph: _Graph, x: str) -> str:
    return graph("Cast", x, to=FLOAT)


def opened(path: Path) -> Any:
    """The file in ONNX Runtime, as a function from tokens to probabilities."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda token_ids: session.run(["probabilities"], {"token_ids": token_ids})[0]
