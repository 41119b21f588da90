"""Scores of n-grams added up over a review: a linear reading beside the encoder's.

    score of a review = Σ_g w_g · s_g / √(Σ_g w_g²),    w_g = 1 + exp(-d_g / ending)

over the distinct n-grams g of the review, with s_g the score of g and d_g the number of tokens after the place where g stands last: what
a review says at its end counts up to twice, and a long review does not count for more than a short one by its length.

Axes: B batch, L length, R buckets, U units of a score, N n-grams of a review.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import check_sizes
from mha_cli.layers.positions import ngram_buckets_of, rows_of


def review_scores(table_RU: Any, token_ids_BL: Any, max_ngram: int, ending: int = 0) -> Any:
    """The weighted sum of the scores of a review's distinct n-grams, (B, U); zeros for one without a token.

    Args:
        table_RU: a score a bucket and unit, R buckets.
        token_ids_BL: int32, 0 at padding, which stands only at the end.
        max_ngram: longest n-gram; 1 counts words only, and with ``ending`` 0 in whatever order.
        ending: tokens over which the weight of a review's end fades; 0 weighs all places alike.
    """
    buckets, length = table_RU.shape[0], ops.shape(token_ids_BL)[1]
    found = []
    for n in range(1, max_ngram + 1):
        buckets_BL, whole_BL = ngram_buckets_of(token_ids_BL, n, buckets)
        found.append(ops.where(whole_BL, buckets_BL, buckets))
    buckets_BN = ops.reshape(ops.stack(found, axis=2), (-1, length * max_ngram))
    # Sorted, an n-gram that comes again stands beside itself, and its last place comes last: the sort is stable.
    order_BN = ops.argsort(buckets_BN, axis=1)
    sorted_BN = ops.take_along_axis(buckets_BN, order_BN, axis=1)
    after_BN = ops.pad(sorted_BN, [[0, 0], [0, 1]], constant_values=buckets)[:, 1:]
    counts_BN = ops.cast(sorted_BN != after_BN, table_RU.dtype)  # no n-gram has the number R, and whoever is none stands last
    weights_BN = ops.repeat(ending_weights(token_ids_BL, ending), max_ngram, axis=1)
    weights_BN = counts_BN * ops.cast(ops.take_along_axis(weights_BN, order_BN, axis=1), table_RU.dtype)
    scores_BNU = rows_of(table_RU, ops.minimum(sorted_BN, buckets - 1))
    sums_BU = ops.sum(scores_BNU * ops.expand_dims(weights_BN, 2), axis=1)
    norms_B1 = ops.sqrt(ops.sum(ops.square(weights_BN), axis=1, keepdims=True))
    return sums_BU / ops.maximum(norms_B1, 1.0)  # a weight is 1 or more: below that is a review without a token


def ending_weights(token_ids_BL: Any, ending: int) -> Any:
    """How much an n-gram counts that ends at a token, (B, L): 1 + exp(-tokens after it / ending), or 1 everywhere for ``ending`` 0."""
    real_BL = ops.cast(token_ids_BL != 0, "float32")
    if not ending:
        return ops.ones_like(real_BL)
    after_BL = ops.sum(real_BL, axis=1, keepdims=True) - 1.0 - ops.arange(ops.shape(token_ids_BL)[1], dtype="float32")
    return 1.0 + ops.exp(-ops.maximum(after_BL, 0.0) / ending)


@keras.saving.register_keras_serializable(package="mha")
class NgramScores(keras.layers.Layer):
    """The weighted sum of what a table says about a review's distinct n-grams. The table is fitted beforehand and not trained.

    Args:
        max_ngram: longest n-gram; 1 reads words only, and with ``ending`` 0 in whatever order they stand.
        buckets: rows of the table, which n-grams share by hash.
        num_scores: units of a score.
        ending: tokens over which the greater weight of a review's end fades; 0 weighs all places alike.

    Masking: padding counts for nothing; no mask leaves this layer, since the output has no length axis.

    Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", section 2.
    """

    def __init__(self, max_ngram: int, buckets: int, num_scores: int, ending: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(max_ngram=max_ngram, buckets=buckets, num_scores=num_scores)
        if ending < 0:
            raise ValueError(f"ending is {ending}; it must be 0 or more")
        self.max_ngram = max_ngram
        self.buckets = buckets
        self.num_scores = num_scores
        self.ending = ending

    def build(self, input_shape: Any) -> None:
        """Create the table."""
        self.table = self.add_weight(
            name="table", shape=(self.buckets, self.num_scores), initializer="zeros", trainable=False, autocast=False
        )

    def call(self, token_ids: Any) -> Any:
        """Score token ids, int (B, L), as (B, U)."""
        return ops.cast(review_scores(self.table, token_ids, self.max_ngram, self.ending), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, U)."""
        return (input_shape[0], self.num_scores)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), **{name: getattr(self, name) for name in ("max_ngram", "buckets", "num_scores", "ending")}}
