"""A linear model of a text's n-grams, beside the encoder.

    logits of a text = Σ_g w_g · s_g / √(Σ_g w_g²),    w_g = (1 + exp(-d_g / end_decay)) · exp(Σ_k a_gk)

over the distinct n-grams g of the text. s_g are the logits of g, and d_g is the number of tokens after the last occurrence of g. a_gk is
the mean context weight of the words up to ``context_windows[k]`` tokens away from that occurrence. So n-grams near the end of a text
count up to twice, and n-grams near words of judgement count more. The division gives long and short texts logits of the same size.

With characters, the sum of the logits of all subwords, divided by the square root of their number, is added. Repeated subwords count
each time; their logits are in the same table.

Axes: B batch, L length, R buckets, U units of the logits, N n-grams of a text, W rows of context weights, K windows.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.layers.arguments import Layer, check_buckets, check_sizes
from mha_cli.layers.ngrams import hashed_ngrams, ids_of, rows_of, subword_sums


def text_logits(table_RU: Any, token_ids_BL: Any, max_ngram: int, weights_BL: Any) -> Any:
    """The weighted sum of the logits of a text's distinct n-grams, divided by the norm of the weights, (B, U); zeros without tokens.

    Token ids are 0 at padding, which is only at the end; ``weights_BL`` is the result of ``position_weights``.
    """
    buckets, length = table_RU.shape[0], ops.shape(token_ids_BL)[1]
    ngrams = hashed_ngrams(token_ids_BL, range(1, max_ngram + 1), buckets)
    ids_BLn = ops.stack([ops.where(whole_BL, buckets_BL, buckets) for buckets_BL, whole_BL in ngrams], axis=2)
    buckets_BN = ops.reshape(ids_BLn, (-1, length * max_ngram))
    # The sort is stable, so of equal n-grams the last occurrence comes last.
    order_BN = ops.argsort(buckets_BN, axis=1)
    sorted_BN = ops.take_along_axis(buckets_BN, order_BN, axis=1)
    after_BN = ops.pad(sorted_BN, [[0, 0], [0, 1]], constant_values=buckets)[:, 1:]
    counts_BN = ops.cast(sorted_BN != after_BN, table_RU.dtype)  # R, which stands for no n-gram, comes last
    weights_BN = ops.repeat(ops.cast(weights_BL, table_RU.dtype), max_ngram, axis=1)
    weights_BN = counts_BN * ops.take_along_axis(weights_BN, order_BN, axis=1)
    logits_BNU = rows_of(table_RU, ops.minimum(sorted_BN, buckets - 1))
    sums_BU = ops.sum(logits_BNU * ops.expand_dims(weights_BN, 2), axis=1)
    return sums_BU / ops.maximum(ops.sqrt(ops.sum(ops.square(weights_BN), axis=1, keepdims=True)), SMALLEST_NORM)


def subword_logits(table_RU: Any, tokens: Any) -> Any:
    """The sum of the logits of all subwords of a text, divided by the square root of their number, (B, U)."""
    sums_BLU, numbers_BL1 = subword_sums(table_RU, tokens, table_RU.dtype)
    return ops.sum(sums_BLU, axis=1) / ops.sqrt(ops.maximum(ops.sum(numbers_BL1, axis=1), 1))


def position_weights(token_ids_BL: Any, end_decay: int, context_windows: Sequence[int] = (), context_weights_WK: Any = None) -> Any:
    """The weight of an n-gram that ends at a token, float32 (B, L); ids from W - 1 on share the last row of context weights."""
    weights_BL = end_weights(token_ids_BL, end_decay)
    if not context_windows:
        return weights_BL
    real_BL1 = ops.expand_dims(ops.cast(token_ids_BL != 0, "float32"), 2)
    context_BLK = rows_of(context_weights_WK, ops.minimum(token_ids_BL, context_weights_WK.shape[0] - 1)) * real_BL1
    for k, reach in enumerate(context_windows):
        words_BL = ops.maximum(window_sums(real_BL1[:, :, 0], reach), 1.0)
        weights_BL = weights_BL * ops.exp(window_sums(context_BLK[:, :, k], reach) / words_BL)
    return weights_BL


def window_sums(x_BL: Any, reach: int) -> Any:
    """For each position, the sum over the positions up to ``reach`` away, (B, L)."""
    length = ops.shape(x_BL)[1]
    positions_L = ops.arange(length)
    sums_BL = ops.pad(ops.cumsum(x_BL, axis=1), [[0, 0], [1, 0]])  # of all positions before
    last_L, first_L = ops.minimum(positions_L + reach + 1, length), ops.maximum(positions_L - reach, 0)
    return ops.take(sums_BL, last_L, axis=1) - ops.take(sums_BL, first_L, axis=1)


def end_weights(token_ids_BL: Any, end_decay: int) -> Any:
    """1 + exp(-d / end_decay), (B, L), where d is the number of tokens after a position; 1 if ``end_decay`` is 0."""
    real_BL = ops.cast(token_ids_BL != 0, "float32")
    if not end_decay:
        return ops.ones_like(real_BL)
    after_BL = ops.sum(real_BL, axis=1, keepdims=True) - 1.0 - ops.arange(ops.shape(token_ids_BL)[1], dtype="float32")
    return 1.0 + ops.exp(-ops.maximum(after_BL, 0.0) / end_decay)


@keras.saving.register_keras_serializable(package="mha")
class NgramLinear(Layer):
    """The logits of a linear model of n-grams, whose weights are fitted, not trained by steps.

    Args:
        max_ngram: length of the longest n-gram; 1 reads words only.
        buckets: rows of the table, a power of two; n-grams share them by hash.
        units: number of logits, U.
        end_decay: tokens over which the extra weight of a text's end decays; 0 gives all positions the same weight.
        context_windows: half-widths of the windows, in tokens, over which context weights are averaged.
        context_words: rows of context weights, W; later ids share the last row.

    Masking: padding has no n-grams; the output has no length axis, and no mask.

    Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", section 2.
    """

    def __init__(
        self,
        max_ngram: int,
        buckets: int,
        units: int,
        end_decay: int = 0,
        context_windows: Sequence[int] = (),
        context_words: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(max_ngram=max_ngram, units=units, context_words=context_words)
        check_buckets(buckets=buckets)
        if end_decay < 0:
            raise ValueError(f"end_decay is {end_decay}; it must be 0 or more")
        if any(reach < 0 for reach in context_windows):
            raise ValueError(f"context_windows is {list(context_windows)}; each must be 0 or more")
        self.max_ngram, self.buckets, self.units = max_ngram, buckets, units
        self.end_decay, self.context_windows, self.context_words = end_decay, list(context_windows), context_words

    def build(self, input_shape: Any) -> None:
        """Create the table, and the context weights if there are windows."""
        self.table = self._fitted("table", (self.buckets, self.units))
        shape = (self.context_words, len(self.context_windows))
        self.context_weights = self._fitted("context_weights", shape) if self.context_windows else None

    def _fitted(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(name=name, shape=shape, initializer="zeros", trainable=False, autocast=False)

    def call(self, token_ids: Any) -> Any:
        """The logits, (B, U), of tokens, int (B, L) or (B, L, 1 + characters)."""
        ids_BL = ids_of(token_ids)
        weights_BL = position_weights(ids_BL, self.end_decay, self.context_windows, self.context_weights)
        logits_BU = text_logits(self.table, ids_BL, self.max_ngram, weights_BL)
        if len(token_ids.shape) == 3:
            logits_BU = logits_BU + subword_logits(self.table, token_ids)
        return ops.cast(logits_BU, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, U)."""
        return (input_shape[0], self.units)
