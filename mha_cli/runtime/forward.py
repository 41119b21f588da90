"""The forward pass as it stands in the paper: from token ids to probabilities, from top to bottom.

The arrays compute as NumPy's do. Each kind of array has its own fastest way for some operations (``Operations``): NumPy's are in
``numpy_operations.py``, OpenVINO's in ``openvino_encoder.py``. With those of ``export/onnx_file.py`` this pass writes the ONNX file.

Axes: B batch, L length, H heads, K width per head, F = H·K, D model width, C classes; of the linear model N n-grams of a text, R buckets,
U units of the logits, W words with context weights of their own, K windows; of subwords W characters of a token.

A token is its id, so that tokens are (B, L), or its id and then the code points of W characters of it, so that they are (B, L, 1 + W).
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.runtime.numpy_operations import NumpyOperations, Weights
from mha_cli.text.ngrams import hashed_ngrams

NUMPY: Any = NumpyOperations()

quiet_overflow = np.errstate(over="ignore", invalid="ignore")
"""Weights may be so large that what is computed from them is infinite; the result shows whether that mattered."""


@quiet_overflow
def class_probabilities(
    tokens: Array, weights: Weights, config: Config, encoder: Callable[[Array, Array], Array] | None = None, pieces_BP: Array | None = None
) -> Array:
    """Probabilities of all classes, (B, C), for padded tokens: ids (B, L), or ids and characters (B, L, 1 + W).

    ``encoder`` is another implementation of ``ForwardPass.pooled``, with these weights. A pretrained encoder reads ``pieces_BP``.
    """
    probabilities: Array = ForwardPass(weights, config).probabilities(tokens, pieces_BP, encoder)
    return finite(probabilities)


@quiet_overflow
def pooled_features(
    tokens: Array, weights: Weights, config: Config, encoder: Callable[[Array, Array], Array] | None = None, pieces_BP: Array | None = None
) -> Array:
    """What the encoder makes of padded tokens, pooled, (B, D); arguments as of ``class_probabilities``."""
    features: Array = ForwardPass(weights, config).features(tokens if pieces_BP is None else pieces_BP, encoder)
    return finite(features)


@quiet_overflow
def linear_part(tokens: Array, weights: Weights, config: Config, *_: object) -> Array:
    """What the linear model adds to the logits of padded tokens, (B, U); arguments as of ``class_probabilities``."""
    logits: Array = ForwardPass(weights, config).linear_part(tokens)
    return finite(logits)


@quiet_overflow
def probabilities_of(logits: Array, weights: Weights, config: Config) -> Array:
    """Probabilities of all classes, (N, C), from logits (N, U)."""
    probabilities: Array = ForwardPass(weights, config).probabilities_of(logits)
    return finite(probabilities)


@quiet_overflow
def attention_weights(tokens: Array, weights: Weights, config: Config) -> list[Array]:
    """Which position looks at which: the attention weights (B, H, L, M) of every block; tokens as of ``class_probabilities``."""
    operations = NumpyOperations(keep_attention=True)
    forward = ForwardPass(weights, config, operations)
    forward.encode(forward.embed(tokens), ids_of(tokens) > 0)
    return [finite(attention_BHLM) for attention_BHLM in operations.kept]


def finite(numbers: Array) -> Array:
    """The same numbers, if they are numbers."""
    if not np.isfinite(numbers).all():
        raise MhaError("the model's weights are so large that its numbers overflow", "train it anew, with a lower learning rate")
    return numbers


class Operations(Protocol):
    """What the pass needs besides NumPy's operators, its functions of single numbers, ``take``, ``sum``, ``max`` and ``cumsum``.

    ``real`` is a bool (B, L), False at padding.
    """

    # of the encoder
    weight: Callable[..., Any]  # a weight of the checkpoint, and its path, as an array of this kind
    norm: Callable[..., Any]  # γ (x - mean) / √(variance + ε) + β over the last axis
    affine: Callable[..., Any]  # x W + b
    rms_norm: Callable[..., Any]  # γ x / √(mean(x²) + ε) over the last axis
    relu: Callable[..., Any]  # max(x, 0)
    gelu: Callable[..., Any]  # x Φ(x), with the normal distribution's Φ itself and not its tanh approximation
    silu: Callable[..., Any]  # x / (1 + exp(-x))
    split_heads: Callable[..., Any]  # (B, L, H·K) to (B, H, L, K)
    merge_heads: Callable[..., Any]  # (B, H, L, K) to (B, L, H·K)
    repeat_heads: Callable[..., Any]  # (B, G, M, K) to (B, n·G, M, K), each head n times
    half_turn: Callable[..., Any]  # (a, b), the two halves of the last axis, to (-b, a)
    attention: Callable[..., Any]  # softmax(scale · q kᵀ - slope · distance) v over real keys, not further and, if causal, not later
    pool: Callable[..., Any]  # a feature's largest, mean, first or last value of the real positions, 0 where there is none

    # of embeddings, the linear model and the last layer
    concatenate: Callable[..., Any]
    first_rows: Callable[..., Any]  # the first L rows of a table, given as a function of the number of rows needed, for ids or (B, L, D)
    earlier: Callable[..., Any]  # the numbers ``back`` positions before, 0 where there are none
    subword_sums: Callable[..., Any]  # for each token the sum of its subwords' rows, (B, L, D), and their number, (B, L, 1)
    with_neighbours: Callable[..., Any]  # x_t + Σ_n k_n ⊙ x_(t + n - (N - 1) / 2), a depthwise convolution and its input
    window_sums: Callable[..., Any]  # at each position the sum of x (B, L) over the positions at most ``reach`` away
    distinct: Callable[..., Any]  # table rows of n-grams and their weights, (B, N): of equal ones, all but the last weigh 0
    weighted_rows: Callable[..., Any]  # the sum of rows of a table, each times its weight, (B, U)


class ForwardPass:
    """The pass with these weights, by these operations.

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1 and sections 3.1 to 3.3.
    """

    def __init__(self, weights: Weights, config: Config, operations: Any = NUMPY) -> None:
        self.ops: Operations = operations
        self.model, self.linear, self.is_multi_label = config.model, config.linear, config.is_multi_label
        self.weights = {path: self.ops.weight(matrix(weight, path), path) for path, weight in weights.items()}

    def probabilities(self, tokens: Any, pieces_BP: Any = None, encoder: Callable[..., Any] | None = None) -> Any:
        """Probabilities of all classes, (B, C); arguments as of ``class_probabilities``."""
        features_BD = self.features(tokens if pieces_BP is None else pieces_BP, encoder)
        if self.linear:
            features_BD = self.ops.concatenate([features_BD, self.linear_logits(tokens)], axis=1)
        return self.classify(features_BD)

    def features(self, tokens: Any, encoder: Callable[..., Any] | None = None) -> Any:
        """What the encoder makes of its tokens, pooled, (B, D)."""
        return (encoder or self.pooled)(self.embed(tokens), ids_of(tokens) > 0)

    def embed(self, tokens: Any) -> Any:
        """Token embedding, n-grams that end there, the mean of its subwords, their convolution and position embedding, (B, L, D)."""
        model, ids_BL, tables = self.model, ids_of(tokens), below(self.weights, "embedding/token_embedding/")
        x_BLD = tables["words"].take(ids_BL, axis=0)
        for buckets_BL, whole_BL in self.ngrams(ids_BL, range(2, model.max_ngram + 1), model.ngram_buckets):
            x_BLD += tables["ngrams"].take(buckets_BL, axis=0) * whole_BL[:, :, None].astype(np.float32)
        if model.subword_buckets:
            sums_BLD, numbers_BL1 = self.ops.subword_sums(tables["subwords"], tokens)
            sums_BLD /= np.maximum(numbers_BL1, 1.0)
            x_BLD += sums_BLD
        if model.conv_kernel_size:
            x_BLD *= (ids_BL > 0)[:, :, None].astype(np.float32)
            x_BLD = self.ops.with_neighbours(x_BLD, tables["convolution_kernel"])
        if model.positions == "learned":
            x_BLD += self.ops.first_rows(lambda _: self.weights["embedding/position_embedding/embeddings"], ids_BL)
        elif model.positions == "sinusoidal":
            x_BLD += self.ops.first_rows(lambda length: sinusoid(length, model.embed_dim), ids_BL)
        return self.norm(x_BLD, below(self.weights, "embedding/norm/")) if model.normalizes_embedding else x_BLD

    def pooled(self, x_BLD: Any, real_BL: Any) -> Any:
        """What all encoder blocks make of embedded tokens, pooled over the positions, (B, D)."""
        return self.ops.pool(self.encode(x_BLD, real_BL), real_BL, self.model.pooling)

    def encode(self, x_BLD: Any, real_BL: Any) -> Any:
        """What the encoder's blocks make of embedded tokens, (B, L, D)."""
        bases = [self.model.rotary_base_of(number) for number in range(self.model.num_blocks)]
        rotations = {base: self.rotation(base, x_BLD) for base in set(bases) if base}
        for number, base in enumerate(bases):
            x_BLD = self.block(x_BLD, real_BL, number, rotations[base] if base else None)
        return self.norm(x_BLD, below(self.weights, "final_norm/")) if self.model.normalizes_output else x_BLD

    def rotation(self, base: float, x_BLD: Any) -> tuple[Any, Any]:
        """Cosines and sines of the angles l / base^(2i/K) of rotary positions, both halves alike, (L, K) each."""
        width = self.model.head_key_dim
        cosines, sines = (lambda length, f=f: f(rotary_angles(length, width, base)).astype(np.float32) for f in (np.cos, np.sin))
        return self.ops.first_rows(cosines, x_BLD), self.ops.first_rows(sines, x_BLD)

    def block(self, x_BLD: Any, real_BL: Any, number: int, rotation: tuple[Any, Any] | None) -> Any:
        """One encoder block, (B, L, D)."""
        weights = below(self.weights, f"encoder_{number}/")

        def norm(x: Any, name: str) -> Any:
            return self.norm(x, below(weights, f"{name}/"))

        def dense(x: Any, name: str) -> Any:
            return self.ops.affine(x, weights[f"{name}/kernel"], weights[f"{name}/bias"])

        def attention(x: Any) -> Any:
            return self.multi_head_attention(x, real_BL, below(weights, "attention/"), number, rotation)

        def feed_forward(x: Any) -> Any:
            activation = {"relu": self.ops.relu, "gelu": self.ops.gelu, "silu": self.ops.silu}[self.model.activation]
            hidden = activation(dense(x, "feed_forward_in"))
            return dense(hidden * dense(x, "feed_forward_gate") if self.model.gated else hidden, "feed_forward_out")

        if self.model.normalization == "pre":
            attended_BLD = x_BLD + attention(norm(x_BLD, "attention_norm") if self.model.normalizes_attention(number) else x_BLD)
            return attended_BLD + feed_forward(norm(attended_BLD, "feed_forward_norm"))
        attended_BLD = norm(x_BLD + attention(x_BLD), "attention_norm")
        return norm(attended_BLD + feed_forward(attended_BLD), "feed_forward_norm")

    def norm(self, x: Any, weights: Mapping[str, Any]) -> Any:
        """Layer normalization by its weights γ and β, or RMS normalization by γ."""
        if self.model.norm == "rms":
            return self.ops.rms_norm(x, weights["scale"], self.model.norm_epsilon)
        return self.ops.norm(x, weights["gamma"], weights["beta"], self.model.norm_epsilon)

    def multi_head_attention(
        self, x_BLD: Any, real_BL: Any, weights: Mapping[str, Any], number: int, rotation: tuple[Any, Any] | None
    ) -> Any:
        """Self-attention of every head, concatenated and projected, (B, L, D)."""
        ops, model, width, heads = self.ops, self.model, self.model.head_key_dim, self.model.heads[number]

        def project(name: str, num_heads: int) -> Any:
            projected_BLF = ops.affine(x_BLD, weights[f"{name}_kernel"], weights[f"{name}_bias"])
            x_BHLK = ops.split_heads(projected_BLF, num_heads, width)
            if name == "value":
                return x_BHLK
            if model.query_key_norm:
                x_BHLK = self.norm(x_BHLK, below(weights, f"{name}_norm/"))
            return x_BHLK if rotation is None else x_BHLK * rotation[0] + ops.half_turn(x_BHLK, width) * rotation[1]

        shared = model.key_value_heads(number)
        q_BHLK, k_BGMK, v_BGMK = project("query", heads), project("key", shared), project("value", shared)
        k_BHMK, v_BHMK = (x if heads == shared else ops.repeat_heads(x, shared, heads // shared) for x in (k_BGMK, v_BGMK))
        slopes_H = alibi_slopes(heads) if model.positions == "linear_biases" else None
        mixed_BHLK = ops.attention(q_BHLK, k_BHMK, v_BHMK, real_BL, width**-0.5, model.distance(number), model.causal, slopes_H)
        return ops.affine(ops.merge_heads(mixed_BHLK, heads * width), weights["output_kernel"], weights["output_bias"])

    def ngrams(self, ids_BL: Any, lengths: range, buckets: int) -> Any:
        """``hashed_ngrams``, with these operations."""
        return hashed_ngrams(ids_BL, lengths, buckets, earlier=self.ops.earlier)

    def linear_logits(self, tokens: Any) -> Any:
        """The logits of the linear model, (B, U): Σ_g w_g t_g / ‖w‖ over a text's distinct n-grams g, and of subwords Σ_s t_s / √number."""
        assert self.linear
        ids_BL, table_RU = ids_of(tokens), self.weights["linear/table"]
        ngrams = self.ngrams(ids_BL, range(1, self.linear.max_ngram + 1), table_RU.shape[0])
        rows_BN, weights_BN = self.ops.distinct(ngrams, self.position_weights(ids_BL), table_RU.shape[0])
        norms_B1 = np.sqrt((weights_BN * weights_BN).sum(axis=1, keepdims=True))
        logits_BU = self.ops.weighted_rows(weights_BN, table_RU, rows_BN) / np.maximum(norms_B1, SMALLEST_NORM)
        if tokens.ndim == 3:
            sums_BLU, numbers_BL1 = self.ops.subword_sums(table_RU, tokens)
            logits_BU += sums_BLU.sum(axis=1) / np.sqrt(np.maximum(numbers_BL1.sum(axis=1), 1.0))
        return logits_BU

    def linear_part(self, tokens: Any) -> Any:
        """What the linear model adds to the logits of the last layer, (B, U)."""
        logits_BU = self.linear_logits(tokens)
        return logits_BU @ self.weights["classifier/kernel"][-logits_BU.shape[1] :]

    def position_weights(self, ids_BL: Any) -> Any:
        """The weight of an n-gram that ends at a token, (B, L): by its position, and by the mean context weights of the words around it.

        (1 + exp(-tokens after it / end_decay)) Π_k exp(mean of the context weights of window k).
        """
        assert self.linear
        real_BL = (ids_BL > 0).astype(np.float32)
        weights_BL = np.maximum(real_BL, 1.0)
        if self.linear.end_decay:
            after_BL = real_BL.sum(axis=1, keepdims=True) - real_BL.cumsum(axis=1)
            weights_BL = (1.0 + np.exp(after_BL.astype(float) / -float(self.linear.end_decay))).astype(np.float32)
        if self.linear.context_windows:
            context_weights_WK = self.weights["linear/context_weights"]
            context_BLK = context_weights_WK.take(np.minimum(ids_BL, context_weights_WK.shape[0] - 1), axis=0)
        for k, reach in enumerate(self.linear.context_windows):
            sums_BL, words_BL = (self.ops.window_sums(x_BL, reach) for x_BL in (context_BLK[:, :, k] * real_BL, real_BL))
            weights_BL = weights_BL * np.exp(sums_BL / np.maximum(words_BL, 1.0))
        return weights_BL

    def classify(self, features_BD: Any) -> Any:
        """The last layer: probabilities of all classes, (B, C), from the features (B, D)."""
        return self.probabilities_of(features_BD @ self.weights["classifier/kernel"] + self.weights["classifier/bias"])

    def probabilities_of(self, logits: Any) -> Any:
        """Probabilities of all classes, (B, C), from logits (B, U); each by itself where a text may have several."""
        if self.is_multi_label:
            return sigmoid(logits)
        if self.weights["classifier/bias"].shape[0] == 1:
            second_B1 = sigmoid(logits)
            return self.ops.concatenate([1.0 - second_B1, second_B1], axis=1)
        return softmax(logits)


def ids_of(tokens: Any) -> Any:
    """The ids (B, L) of tokens (B, L) or (B, L, 1 + W)."""
    return tokens if tokens.ndim == 2 else tokens[:, :, 0]


def sinusoid(length: int, width: int) -> Array:
    """sin(s / 10000^(2i/D)) at even units 2i and the cosine at the odd ones, (L, D)."""
    rates = np.exp(-np.log(10_000.0) * (np.arange(width) // 2 * 2) / width)
    angles = np.outer(np.arange(length), rates)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return angles.astype(np.float32)


def rotary_angles(length: int, width: int, base: float) -> Array:
    """Angles l / base^(2i/K) of the pairs i of a head at positions l, the same for both halves, (L, K).

    Source: Su et al. 2021, "RoFormer", eq. 15 and 34.
    """
    rates = base ** (-2.0 * (np.arange(width) % (width // 2)) / width)
    return np.outer(np.arange(length), rates)


def alibi_slopes(num_heads: int) -> Floats:
    """2^(-8h/H) of the heads h = 1, …, H. Source: Press et al. 2022, "Train Short, Test Long", section 3."""
    return (2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)).astype(np.float32)


def softmax(scores: Any) -> Any:
    """exp(x) / Σ exp(x) over the last axis, without overflow."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def below(weights: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The weights whose path starts with ``prefix``, without it."""
    return {path.removeprefix(prefix): weight for path, weight in weights.items() if path.startswith(prefix)}


def matrix(weight: Floats, path: str) -> Floats:
    """A weight; kernels and biases of all heads of an attention layer as one matrix and one vector."""
    if path.endswith("/output_kernel"):
        return weight.reshape(-1, weight.shape[-1])
    of_heads = path.endswith(("/query_kernel", "/key_kernel", "/value_kernel", "/query_bias", "/key_bias", "/value_bias"))
    return weight.reshape(*weight.shape[:-2], -1) if of_heads else weight
