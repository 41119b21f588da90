"""Scores of n-grams added up over a review: a linear reading beside the encoder's.

    score of a review = Σ_g w_g · s_g / √(Σ_g w_g²),    w_g = (1 + exp(-d_g / ending)) · exp(Σ_k a_gk)

over the distinct n-grams g of the review, with s_g the score of g, d_g the number of tokens after the position where g stands last, and
a_gk the mean salience of the words around that position, those up to ``windows[k]`` tokens away. So what a review says at its end counts up
to twice; what stands among words that go with a verdict counts for more than what stands in a retelling of the plot; and a long review
does not count for more than a short one by its length.

On request subwords count too, all of them, wherever and however often they stand: their mean score times the square root of their number
is added. Their scores stand in the same table.

Axes: B batch, L length, R buckets, U units of a score, N n-grams of a review, W words that have a salience of their own, K windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.layers.arguments import Layer, check_buckets, check_sizes
from mha_cli.layers.ngrams import ids_of, ngram_buckets_of, rows_of, subword_sums


def review_scores(table_RU: Any, token_ids_BL: Any, max_ngram: int, weights_BL: Any) -> Any:
    """The weighted sum of the scores of a review's distinct n-grams, over the weights' length, (B, U); zeros for one without a token.

    Args:
        table_RU: scores, one a bucket and unit, R buckets.
        token_ids_BL: int32, 0 at padding, which stands only at the end.
        max_ngram: longest n-gram.
        weights_BL: factor of an n-gram whose last occurrence ends at a token; see ``place_weights``.
    """
    buckets, length = table_RU.shape[0], ops.shape(token_ids_BL)[1]
    found = []
    for n in range(1, max_ngram + 1):
        buckets_BL, whole_BL = ngram_buckets_of(token_ids_BL, n, buckets)
        found.append(ops.where(whole_BL, buckets_BL, buckets))
    buckets_BN = ops.reshape(ops.stack(found, axis=2), (-1, length * max_ngram))
    # Sorted, an n-gram that comes again stands beside itself, and its last occurrence comes last: the sort is stable.
    order_BN = ops.argsort(buckets_BN, axis=1)
    sorted_BN = ops.take_along_axis(buckets_BN, order_BN, axis=1)
    after_BN = ops.pad(sorted_BN, [[0, 0], [0, 1]], constant_values=buckets)[:, 1:]
    counts_BN = ops.cast(sorted_BN != after_BN, table_RU.dtype)  # no n-gram has the number R, and whoever is none stands last
    weights_BN = ops.repeat(ops.cast(weights_BL, table_RU.dtype), max_ngram, axis=1)
    weights_BN = counts_BN * ops.take_along_axis(weights_BN, order_BN, axis=1)
    scores_BNU = rows_of(table_RU, ops.minimum(sorted_BN, buckets - 1))
    sums_BU = ops.sum(scores_BNU * ops.expand_dims(weights_BN, 2), axis=1)
    return sums_BU / ops.maximum(ops.sqrt(ops.sum(ops.square(weights_BN), axis=1, keepdims=True)), SMALLEST_NORM)


def text_subword_scores(table_RU: Any, tokens: Any) -> Any:
    """The sum of the scores of all subwords of a text, those that come again too, over the square root of their number, (B, U).

    Args:
        table_RU: scores, one a bucket and unit.
        tokens: int32 (B, L, 1 + characters); see ``subword_sums``.
    """
    sums_BLU, numbers_BL1 = subword_sums(table_RU, tokens, table_RU.dtype)
    return ops.sum(sums_BLU, axis=1) / ops.sqrt(ops.maximum(ops.sum(numbers_BL1, axis=1), 1))


def place_weights(token_ids_BL: Any, ending: int, windows: Sequence[int] = (), salience_WK: Any = None) -> Any:
    """How much an n-gram counts that ends at a token, (B, L), float32.

    Args:
        token_ids_BL: int32, 0 at padding, which stands only at the end.
        ending: tokens over which the weight of a review's end fades; 0 weighs all positions alike.
        windows: reach of each, in tokens to either side.
        salience_WK: salience of the first W ids, a column a window; all later ids have the last row. Not looked at without windows.
    """
    weights_BL = ending_weights(token_ids_BL, ending)
    if not windows:
        return weights_BL
    real_BL1 = ops.expand_dims(ops.cast(token_ids_BL != 0, "float32"), 2)
    salience_BLK = rows_of(salience_WK, ops.minimum(token_ids_BL, salience_WK.shape[0] - 1)) * real_BL1
    for k, reach in enumerate(windows):
        words_BL = ops.maximum(window_sums(real_BL1[:, :, 0], reach), 1.0)
        weights_BL = weights_BL * ops.exp(window_sums(salience_BLK[:, :, k], reach) / words_BL)
    return weights_BL


def window_sums(x_BL: Any, reach: int) -> Any:
    """At every position the sum over the positions up to ``reach`` away, (B, L)."""
    length = ops.shape(x_BL)[1]
    positions_L = ops.arange(length)
    sums_BL = ops.pad(ops.cumsum(x_BL, axis=1), [[0, 0], [1, 0]])  # of all positions before
    last_L, first_L = ops.minimum(positions_L + reach + 1, length), ops.maximum(positions_L - reach, 0)
    return ops.take(sums_BL, last_L, axis=1) - ops.take(sums_BL, first_L, axis=1)


def ending_weights(token_ids_BL: Any, ending: int) -> Any:
    """1 + exp(-tokens after it / ending) at every token, or 1 everywhere for ``ending`` 0, (B, L)."""
    real_BL = ops.cast(token_ids_BL != 0, "float32")
    if not ending:
        return ops.ones_like(real_BL)
    after_BL = ops.sum(real_BL, axis=1, keepdims=True) - 1.0 - ops.arange(ops.shape(token_ids_BL)[1], dtype="float32")
    return 1.0 + ops.exp(-ops.maximum(after_BL, 0.0) / ending)


@keras.saving.register_keras_serializable(package="mha")
class NgramScores(Layer):
    """The weighted sum of what a table says about a review's distinct n-grams. Both weights are fitted beforehand and not trained.

    Args:
        max_ngram: longest n-gram; 1 reads words only, and with ``ending`` 0 and no windows in whatever order they stand.
        buckets: rows of the table, a power of two; n-grams share them by hash.
        num_scores: units of a score.
        ending: tokens over which the greater weight of a review's end fades; 0 weighs all positions alike.
        windows: reach of each, in tokens to either side; the mean salience of the words in it weighs what stands there.
        salient_words: ids that have a salience of their own, one a window; all later ids share the last row.
        subwords: True to count the subwords of the words, too; tokens then have characters beside their ids.

    Masking: padding counts for nothing; no mask leaves this layer, since the output has no length axis.

    Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", section 2.
    """

    def __init__(
        self,
        max_ngram: int,
        buckets: int,
        num_scores: int,
        ending: int = 0,
        windows: Sequence[int] = (),
        salient_words: int = 1,
        subwords: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(max_ngram=max_ngram, num_scores=num_scores, salient_words=salient_words)
        check_buckets(buckets=buckets)
        if ending < 0:
            raise ValueError(f"ending is {ending}; it must be 0 or more")
        if any(reach < 0 for reach in windows):
            raise ValueError(f"windows is {list(windows)}; each must be 0 or more")
        self.max_ngram, self.buckets, self.num_scores = max_ngram, buckets, num_scores
        self.ending, self.windows, self.salient_words = ending, list(windows), salient_words
        self.subwords = subwords

    def build(self, input_shape: Any) -> None:
        """Create the table, and the salience where there are windows."""
        if self.subwords and len(input_shape) != 3:
            raise ValueError(f"the input has shape {tuple(input_shape)}; with subwords it takes (batch, length, 1 + characters)")
        self.table = self._fitted("table", (self.buckets, self.num_scores))
        self.salience = self._fitted("salience", (self.salient_words, len(self.windows))) if self.windows else None

    def _fitted(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(name=name, shape=shape, initializer="zeros", trainable=False, autocast=False)

    def call(self, token_ids: Any) -> Any:
        """Score tokens, int (B, L) or (B, L, 1 + characters), as (B, U)."""
        ids_BL = ids_of(token_ids)
        weights_BL = place_weights(ids_BL, self.ending, self.windows, self.salience)
        scores_BU = review_scores(self.table, ids_BL, self.max_ngram, weights_BL)
        if self.subwords:
            scores_BU = scores_BU + text_subword_scores(self.table, token_ids)
        return ops.cast(scores_BU, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, U)."""
        return (input_shape[0], self.num_scores)
