"""The forward pass as it stands in the paper, in NumPy, float32.

Axes: B batch, L length (M when keys are meant), H heads, K width per head, F = H·K, D model width, C classes;
of the linear model N n-grams of a text, R buckets, U units of the logits, W words with context weights of their own, K windows;
of subwords T tokens of all texts, W characters of a token, R rows of a table.

A token is its id, so that tokens are (B, L), or its id and then the code points of W characters of it, so that they are (B, L, 1 + W).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.config.settings import SUBWORD_LENGTHS, Config, LinearConfig, ModelConfig
from mha_cli.errors import MhaError
from mha_cli.system.working_memory import SCORE_BLOCK, blocks
from mha_cli.text.ngrams import hashed_ngrams, hashed_subwords

Weights = Mapping[str, Floats]
Weight = TypeVar("Weight")

MODERATE = 60.0  # scores of at most this size have exponentials that float32 holds, and adds up, without taking the largest score off first

TAIL = (0.5307027145, -0.7265760135, 0.7107068705, -0.142248368, 0.127414796)
"""Coefficients of Φ(-|x|) in ``gelu``, those of the highest power first: half those of the source."""

quiet_overflow = np.errstate(over="ignore", invalid="ignore")
"""Weights may be so large that what is computed from them is infinite; the result shows whether that mattered."""


@quiet_overflow
def class_probabilities(
    tokens: Array, weights: Weights, config: Config, encoder: Callable[[Array, Array], Array] | None = None, pieces_BP: Array | None = None
) -> Array:
    """Probabilities of all classes, (B, C), for padded tokens: ids (B, L), or ids and characters (B, L, 1 + W).

    ``encoder`` is another implementation of ``pooled_features``, with these weights. A pretrained encoder reads ``pieces_BP``.
    """
    encoder_tokens = tokens if pieces_BP is None else pieces_BP
    mask_BL = ids_of(encoder_tokens) != 0
    x_BLD = embed(encoder_tokens, weights, config.model)
    features_BD = encoder(x_BLD, mask_BL) if encoder else pooled_features(x_BLD, mask_BL, weights, config.model)
    if config.linear:
        features_BD = np.concatenate([features_BD, linear_logits(tokens, weights, config.linear)], axis=1)
    return finite(classify(features_BD, weights, config.is_multi_label))


def pooled_features(x_BLD: Array, mask_BL: Array, weights: Weights, model: ModelConfig) -> Array:
    """What all encoder blocks make of embedded tokens, pooled over the positions, (B, D)."""
    return pool(_NumpyEncoder(model, mask_BL).blocks(x_BLD, matrices(weights)), mask_BL, model.pooling)


@quiet_overflow
def attention_weights(tokens: Array, weights: Weights, model: ModelConfig) -> list[Array]:
    """Which position looks at which: the attention weights (B, H, L, M) of every block; tokens as of ``class_probabilities``."""
    encoder = _NumpyEncoder(model, ids_of(tokens) != 0, keep_attention=True)
    encoder.blocks(embed(tokens, weights, model), matrices(weights))
    return [finite(attention_BHLM) for attention_BHLM in encoder.attention]


def finite(numbers: Array) -> Array:
    """The same numbers, if they are numbers."""
    if not np.isfinite(numbers).all():
        raise MhaError("the model's weights are so large that its numbers overflow", "train it anew, with a lower learning rate")
    return numbers


def classify(features_BD: Array, weights: Weights, several: bool = False) -> Array:
    """The last layer: probabilities of all classes, (B, C), from the features (B, D); with ``several``, each by itself."""
    logits = features_BD @ weights["classifier/kernel"] + weights["classifier/bias"]
    if several:
        return sigmoid(logits)
    if logits.shape[1] == 1:
        second_B1 = sigmoid(logits)
        return np.concatenate([1.0 - second_B1, second_B1], axis=1)
    return softmax(logits)


def embed(tokens: Array, weights: Weights, model: ModelConfig) -> Array:
    """Token embedding, those of n-grams that end there, the mean of its subwords', their convolution and position embedding, (B, L, D)."""
    token_ids_BL, tables = ids_of(tokens), below(weights, "embedding/token_embedding/")
    x_BLD = tables["words"].take(token_ids_BL, axis=0)  # several times faster than an index
    for buckets_BL, whole_BL in hashed_ngrams(token_ids_BL, range(2, model.max_ngram + 1), model.ngram_buckets):
        x_BLD += tables["ngrams"].take(buckets_BL, axis=0) * whole_BL[:, :, None].astype(np.float32)
    if model.subword_buckets:
        sums_BLD, numbers_BL1 = subword_sums(tables["subwords"], tokens)
        x_BLD += np.divide(sums_BLD, np.maximum(numbers_BL1, 1), out=sums_BLD)
    if model.conv_kernel_size:
        x_BLD = with_neighbours(x_BLD, token_ids_BL != 0, tables["convolution_kernel"])
    length = token_ids_BL.shape[1]
    if model.positions == "learned":
        x_BLD += weights["embedding/position_embedding/embeddings"][:length]
    elif model.positions == "sinusoidal":
        x_BLD += sinusoid(length, model.embed_dim)
    if model.embedding_norm:
        return _NumpyEncoder(model, token_ids_BL != 0).norm(x_BLD, weights["embedding/norm/gamma"], weights["embedding/norm/beta"])
    return x_BLD


def with_neighbours(x_BLD: Array, mask_BL: Array, kernel_ND: Array) -> Array:
    """Embeddings and their depthwise convolution, whose kernel is N wide: x_t + Σ_n k_n ⊙ x_(t + n - (N - 1) / 2), (B, L, D)."""
    length, reach = x_BLD.shape[1], len(kernel_ND) // 2
    sums_BLD = x_BLD * mask_BL[:, :, None]
    padded, product_BLD = np.pad(sums_BLD, [(0, 0), (reach, reach), (0, 0)]), np.empty_like(sums_BLD)
    for n, kernel_D in enumerate(kernel_ND):
        sums_BLD += np.multiply(padded[:, n : n + length], kernel_D, out=product_BLD)
    return sums_BLD


def ids_of(tokens: Array) -> Array:
    """The ids (B, L) of tokens (B, L) or (B, L, 1 + W)."""
    return tokens if tokens.ndim == 2 else tokens[:, :, 0]


def subword_sums(table_RD: Array, tokens: Array) -> tuple[Array, Array]:
    """For each token of (B, L, 1 + W) the sum of its subwords' rows, (B, L, D), and their number, (B, L, 1).

    The longest tokens come first, so that those with a subword that ends at a character are the first few, and no row is taken in vain.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2, without the word itself.
    """
    characters_TW = tokens[:, :, 1:].reshape(-1, tokens.shape[2] - 1)
    lengths_T = np.count_nonzero(characters_TW, axis=1)
    order_T = np.argsort(-lengths_T)
    characters_TW = characters_TW[order_T, : lengths_T.max(initial=0)]
    reaching_W = np.count_nonzero(characters_TW, axis=0).tolist()
    sorted_TD, sums_TD = np.zeros((2, len(order_T), table_RD.shape[1]), np.float32)
    for n, (buckets_TW, _) in zip(SUBWORD_LENGTHS, hashed_subwords(characters_TW, len(table_RD)), strict=True):
        for last, reaching in enumerate(reaching_W[n - 1 :], n - 1):
            sorted_TD[:reaching] += table_RD.take(buckets_TW[:reaching, last], axis=0)
    sums_TD[order_T] = sorted_TD
    numbers_T = sum(np.maximum(lengths_T - n + 1, 0) for n in SUBWORD_LENGTHS)
    return sums_TD.reshape(*tokens.shape[:2], -1), numbers_T.astype(np.float32).reshape(*tokens.shape[:2], 1)


def linear_logits(tokens: Array, weights: Weights, linear: LinearConfig) -> Array:
    """The logits of the linear model, (B, U)."""
    token_ids_BL, table_RU = ids_of(tokens), weights["linear/table"]
    weights_BL = position_weights(token_ids_BL, linear.end_decay, linear.context_windows, weights.get("linear/context_weights"))
    logits_BU = text_logits(token_ids_BL, table_RU, linear.max_ngram, weights_BL)
    if linear.subwords:
        sums_BLU, numbers_BL1 = subword_sums(table_RU, tokens)
        logits_BU += sums_BLU.sum(axis=1) / np.sqrt(np.maximum(numbers_BL1.sum(axis=1), 1))
    return logits_BU


def text_logits(token_ids_BL: Array, table_RU: Array, max_ngram: int, weights_BL: Array) -> Array:
    """The weighted sum of the logits of a text's distinct n-grams, over the norm of the weights, (B, U)."""
    buckets, length = table_RU.shape[0], token_ids_BL.shape[1]
    found = []
    for buckets_BL, whole_BL in hashed_ngrams(token_ids_BL, range(1, max_ngram + 1), buckets):
        found.append(np.where(whole_BL, buckets_BL, buckets).astype(np.int64) * length + np.arange(length))
    sorted_BN, positions_BN = np.divmod(np.sort(np.concatenate(found, axis=1), axis=1), length)
    counts_BN = np.diff(sorted_BN, axis=1, append=buckets) > 0
    weights_BN = counts_BN * np.take_along_axis(weights_BL, positions_BN, axis=1)
    rows_BN, sums_BU = np.minimum(sorted_BN, buckets - 1), np.zeros((len(token_ids_BL), table_RU.shape[1]), np.float32)
    for some in blocks(rows_BN.shape[1], len(rows_BN) * table_RU[0].nbytes):
        sums_BU += np.einsum("bn,bnu->bu", weights_BN[:, some], table_RU.take(rows_BN[:, some], axis=0))
    logits_BU: Array = sums_BU / np.maximum(np.sqrt(np.square(weights_BN).sum(axis=1, keepdims=True)), SMALLEST_NORM)
    return logits_BU


def position_weights(
    token_ids_BL: Array, end_decay: int, context_windows: Sequence[int] = (), context_weights_WK: Array | None = None
) -> Array:
    """The weight of an n-gram that ends at a token, (B, L): by its position, and by the mean context weights of the words around it."""
    weights_BL = end_weights(token_ids_BL, end_decay)
    if context_weights_WK is None:
        return weights_BL
    real_BL1 = (token_ids_BL != 0)[:, :, None].astype(np.float32)
    context_BLK = context_weights_WK.take(np.minimum(token_ids_BL, len(context_weights_WK) - 1), axis=0) * real_BL1
    batch, length = token_ids_BL.shape
    before_BLK = np.zeros((batch, length + 1, len(context_windows) + 1), np.float32)  # sums of all positions before: weights, and words
    np.cumsum(np.concatenate([context_BLK, real_BL1], axis=2), axis=1, out=before_BLK[:, 1:])
    positions_L = np.arange(length)
    for k, reach in enumerate(context_windows):
        first_L, last_L = np.maximum(positions_L - reach, 0), np.minimum(positions_L + reach + 1, length)
        sums_BL, words_BL = (before_BLK[:, last_L, n] - before_BLK[:, first_L, n] for n in (k, -1))
        weights_BL = weights_BL * np.exp(sums_BL / np.maximum(words_BL, np.float32(1.0)))
    return weights_BL


def end_weights(token_ids_BL: Array, end_decay: int) -> Array:
    """1 + exp(-tokens after it / end_decay) at every token, or 1 everywhere for ``end_decay`` 0, (B, L)."""
    if not end_decay:
        return np.ones(token_ids_BL.shape, np.float32)
    after_BL = np.count_nonzero(token_ids_BL, axis=1)[:, None] - 1.0 - np.arange(token_ids_BL.shape[1])
    weights: Array = (1.0 + np.exp(-np.maximum(after_BL, 0.0) / end_decay)).astype(np.float32)
    return weights


def sinusoid(length: int, width: int) -> Array:
    """sin(s / 10000^(2i/D)) at even units 2i and the cosine at the odd ones, (L, D)."""
    rates = np.exp(-np.log(10_000.0) * (np.arange(width) // 2 * 2) / width)
    angles = np.outer(np.arange(length), rates)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return angles.astype(np.float32)


class Encoder:
    """All encoder blocks, over NumPy's arrays or over the nodes of a graph: ``+`` adds them, a subclass has the other operations.

    Weights come from ``matrices``.

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 1 and sections 3.1 to 3.3.
    """

    norm: Callable[..., Any]  # γ (x - mean) / √(variance + ε) + β over the last axis
    affine: Callable[..., Any]  # X W + b
    activation: Callable[..., Any]
    split_heads: Callable[..., Any]  # (B, L, H·K) to (B, H, L, K)
    attend: Callable[..., Any]  # queries, keys and values to the mixed values of every head, (B, H, L, K)
    merge_heads: Callable[..., Any]  # (B, H, L, K) to (B, L, H·K)

    def __init__(self, model: ModelConfig) -> None:
        self.model = model

    def blocks(self, x_BLD: Any, weights: Mapping[str, Any]) -> Any:
        """What the encoder makes of embedded tokens, (B, L, D)."""
        for number, num_heads in enumerate(self.model.heads):
            x_BLD = self.block(x_BLD, below(weights, f"encoder_{number}/"), num_heads)
        return x_BLD

    def block(self, x_BLD: Any, weights: Mapping[str, Any], num_heads: int) -> Any:
        """One encoder block, (B, L, D)."""

        def norm(x: Any, name: str) -> Any:
            return self.norm(x, weights[f"{name}/gamma"], weights[f"{name}/beta"])

        def dense(x: Any, name: str) -> Any:
            return self.affine(x, weights[f"{name}/kernel"], weights[f"{name}/bias"])

        def attention(x: Any) -> Any:
            return self.multi_head_attention(x, below(weights, "attention/"), num_heads)

        def feed_forward(x: Any) -> Any:
            return dense(self.activation(dense(x, "feed_forward_in")), "feed_forward_out")

        if self.model.normalization == "pre":
            attended_BLD = x_BLD + attention(norm(x_BLD, "attention_norm"))
            return attended_BLD + feed_forward(norm(attended_BLD, "feed_forward_norm"))
        attended_BLD = norm(x_BLD + attention(x_BLD), "attention_norm")
        return norm(attended_BLD + feed_forward(attended_BLD), "feed_forward_norm")

    def multi_head_attention(self, x_BLD: Any, weights: Mapping[str, Any], num_heads: int) -> Any:
        """Self-attention of every head, concatenated and projected, (B, L, D)."""
        projected = (self.affine(x_BLD, weights[f"{name}_kernel"], weights[f"{name}_bias"]) for name in ("query", "key", "value"))
        mixed_BHLK = self.attend(*(self.split_heads(x_BLF, num_heads) for x_BLF in projected), weights)
        return self.affine(self.merge_heads(mixed_BHLK, num_heads), weights["output_kernel"], weights["output_bias"])


class _NumpyEncoder(Encoder):
    """The encoder in NumPy; padded positions, False in ``mask_BM``, are never looked at.

    With ``keep_attention``, ``attention`` has the attention weights (B, H, L, M) of every block.
    """

    def __init__(self, model: ModelConfig, mask_BM: Array, keep_attention: bool = False) -> None:
        super().__init__(model)
        self._real_B1M1, self._keep_attention = mask_BM[:, None, :, None], keep_attention
        self.attention: list[Array] = []

    def norm(self, x: Array, gamma: Array, beta: Array) -> Array:
        mean_D1 = np.full((x.shape[-1], 1), 1.0 / x.shape[-1], dtype=x.dtype)  # a product is faster than a mean over a short axis
        centred: Array = x - x @ mean_D1
        variance = np.square(centred) @ mean_D1
        centred /= np.sqrt(variance + np.float32(self.model.norm_epsilon))
        centred *= gamma
        centred += beta
        return centred

    def activation(self, x: Array) -> Array:
        return np.maximum(x, 0.0, out=x) if self.model.activation == "relu" else gelu(x)

    def affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        output: Array = x.reshape(-1, x.shape[-1]) @ kernel
        output += bias
        return output.reshape(*x.shape[:-1], -1)

    def split_heads(self, x_BLF: Array, num_heads: int) -> Array:
        return x_BLF.reshape(*x_BLF.shape[:2], num_heads, self.model.head_key_dim).swapaxes(1, 2)

    def merge_heads(self, mixed_BHLK: Array, num_heads: int) -> Array:
        batch, _, length, width = mixed_BHLK.shape
        return mixed_BHLK.swapaxes(1, 2).reshape(batch, length, num_heads * width)

    def attend(self, q_BHLK: Array, k_BHMK: Array, v_BHMK: Array, weights: Weights) -> Array:
        # Scores are computed a block of texts at a time, those of long texts a block of queries: memory grows linearly with length.
        real_B1M1, dot_product = self._real_B1M1, self.model.attention_score == "dot_product"
        k_BHMK = np.where(
            real_B1M1, k_BHMK, k_BHMK[:, :, :1]
        )  # a padded key scores as the first does, so that it never is the largest alone
        # Σ exp(s) v and Σ exp(s) in one product: a padded key counts in neither, and dividing afterwards spares a pass over (B, H, L, M).
        v_and_one = np.concatenate([v_BHMK, np.ones_like(v_BHMK[..., :1])], axis=-1) * real_B1M1
        moderate = dot_product and _largest_norm(q_BHLK) * _largest_norm(k_BHMK) < MODERATE
        batch, heads, length, width = q_BHLK.shape
        sums = np.empty((batch, heads, length, width + 1), np.float32)
        attention_BHLM = np.zeros((batch, heads, length, length) if self._keep_attention else (0,), np.float32)
        for rows, queries in _score_blocks(batch, length, heads if dot_product else max(heads, width)):
            scores = attention_scores(q_BHLK[rows, :, queries], k_BHMK[rows], weights, self.model)
            if not moderate:
                scores -= scores.max(axis=-1, keepdims=True)
            exponentials = np.exp(scores, out=scores)
            np.matmul(exponentials, v_and_one[rows], out=sums[rows, :, queries])
            if self._keep_attention:
                attention_BHLM[rows, :, queries] = exponentials * real_B1M1[rows].swapaxes(2, 3)
        totals_BHL1 = np.maximum(sums[..., -1:], np.float32(1e-30))  # 0 for a text without words, which looks nowhere
        if self._keep_attention:
            self.attention.append(attention_BHLM / totals_BHL1)
        mixed_BHLK: Array = sums[..., :-1] / totals_BHL1
        return mixed_BHLK


def _score_blocks(batch: int, length: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Texts and queries whose attention scores are computed together; each pair of query and key takes ``width`` numbers."""
    rows = max(1, SCORE_BLOCK // max(1, width * length * length))
    queries = max(1, min(length, SCORE_BLOCK // max(1, width * length)))
    for row in range(0, batch, rows):
        for query in range(0, length, queries):
            yield slice(row, row + rows), slice(query, query + queries)


def attention_scores(q_BHLK: Array, k_BHMK: Array, weights: Weights, model: ModelConfig) -> Array:
    """How well each key suits each query, (B, H, L, M): q·k / √d_k, or wᵀ tanh(q + k) (Bahdanau et al. 2015, section A.1.2)."""
    if model.attention_score == "additive":
        heads = zip(q_BHLK.swapaxes(0, 1), k_BHMK.swapaxes(0, 1), weights["score_kernel"], strict=True)
        return np.stack([np.tanh(q_BLK[:, :, None] + k_BMK[:, None]) @ w_K for q_BLK, k_BMK, w_K in heads], axis=1)
    scale = np.float32(q_BHLK.shape[-1] ** -0.5 if model.use_scale else 1.0)
    scores_BHLM: Array = (q_BHLK * scale) @ k_BHMK.swapaxes(-1, -2)
    return scores_BHLM


def _largest_norm(x_BHLK: Array) -> float:
    """The length of the longest vector: no dot product is larger than the product of two such lengths (Cauchy and Schwarz)."""
    return float(np.einsum("bhlk,bhlk->bhl", x_BHLK, x_BHLK).max(initial=0.0) ** 0.5)


def pool(x_BLD: Array, mask_BL: Array, pooling: str) -> Array:
    """Every feature's largest value over the real positions, its mean or its value at the first, (B, D); zeros where there is none."""
    if pooling == "first":
        return x_BLD[:, 0]
    if pooling == "mean":
        mean_BD: Array = np.einsum("bl,bld->bd", mask_BL.astype(np.float32), x_BLD)
        return mean_BD / np.maximum(np.count_nonzero(mask_BL, axis=1, keepdims=True), 1).astype(np.float32)
    pooled_BD = np.where(mask_BL[:, :, None], x_BLD, np.float32(-np.inf)).max(axis=1)
    return np.where(np.any(mask_BL, axis=1, keepdims=True), pooled_BD, np.float32(0.0))


def softmax(scores: Array) -> Array:
    """exp(x) / Σ exp(x) over the last axis, computed in the place of x: the arrays are large, and memory is what takes the time."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    half: Array = np.float32(0.5) * x
    return np.float32(0.5) * (np.float32(1.0) + np.tanh(half))


def gelu(x: Array) -> Array:
    """GELU(x) = x Φ(x), with the normal distribution's Φ itself and not its tanh approximation.

    It is max(0, x) - |x| Φ(-|x|), and this Φ a polynomial times an exponential, to 1e-7: several times faster than SciPy's error function.

    Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", eq. 7.1.26.
    """
    size: Array = np.abs(x)
    t = np.reciprocal(np.float32(1.0) + np.float32(0.3275911 * 0.5**0.5) * size)
    tail = np.zeros_like(t)
    for coefficient in TAIL:
        tail += np.float32(coefficient)
        tail *= t
    np.multiply(x, x, out=t)
    t *= np.float32(-0.5)
    tail *= np.exp(t, out=t)
    tail *= size
    activated: Array = np.subtract(np.maximum(x, 0.0, out=size), tail, out=tail)
    return activated


def below(weights: Mapping[str, Weight], prefix: str) -> dict[str, Weight]:
    """The weights whose path starts with ``prefix``, without it."""
    return {path.removeprefix(prefix): weight for path, weight in weights.items() if path.startswith(prefix)}


def matrices(weights: Weights) -> dict[str, Array]:
    """The weights, with kernels and biases of all heads of an attention layer as one matrix and one vector."""
    found = dict(weights)
    for path, weight in weights.items():
        if path.endswith("/output_kernel"):
            found[path] = weight.reshape(-1, weight.shape[-1])
        elif path.endswith(("/query_kernel", "/key_kernel", "/value_kernel")):
            found[path] = weight.reshape(len(weight), -1)
        elif path.endswith(("/query_bias", "/key_bias", "/value_bias")):
            found[path] = weight.reshape(-1)
    return found
