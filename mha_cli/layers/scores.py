"""Scores of n-grams added up over a review: a linear reading beside the encoder's.

Axes: B batch, L length, R buckets, U units of a score, N n-grams of a review.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import check_sizes
from mha_cli.layers.positions import ngram_buckets_of, rows_of


def review_scores(table_RU: Any, token_ids_BL: Any, max_ngram: int) -> Any:
    """The sum of the scores of a review's distinct n-grams, (B, U).

    Args:
        table_RU: a score a bucket and unit, R buckets.
        token_ids_BL: int32, 0 at padding, which stands only at the end.
        max_ngram: longest n-gram; 1 counts words only, in whatever order.
    """
    buckets = table_RU.shape[0]
    found = []
    for n in range(1, max_ngram + 1):
        buckets_BL, whole_BL = ngram_buckets_of(token_ids_BL, n, buckets)
        found.append(ops.where(whole_BL, buckets_BL, buckets))
    # Sorted, an n-gram that was there before stands beside itself.
    sorted_BN = ops.sort(ops.concatenate(found, axis=1), axis=1)
    before_BN = ops.pad(sorted_BN, [[0, 0], [1, 0]], constant_values=-1)[:, :-1]
    counts_BN = ops.logical_and(sorted_BN != before_BN, sorted_BN < buckets)
    scores_BNU = rows_of(table_RU, ops.minimum(sorted_BN, buckets - 1))
    return ops.sum(scores_BNU * ops.expand_dims(ops.cast(counts_BN, scores_BNU.dtype), 2), axis=1)


@keras.saving.register_keras_serializable(package="mha")
class NgramScores(keras.layers.Layer):
    """The sum of what a table says about a review's distinct n-grams. The table is fitted beforehand and not trained.

    Args:
        max_ngram: longest n-gram; 1 reads words only, in whatever order they stand.
        buckets: rows of the table, which n-grams share by hash.
        num_scores: units of a score.

    Masking: padding counts for nothing; no mask leaves this layer, since the output has no length axis.

    Source: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", section 2.
    """

    def __init__(self, max_ngram: int, buckets: int, num_scores: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(max_ngram=max_ngram, buckets=buckets, num_scores=num_scores)
        self.max_ngram = max_ngram
        self.buckets = buckets
        self.num_scores = num_scores

    def build(self, input_shape: Any) -> None:
        """Create the table."""
        self.table = self.add_weight(
            name="table", shape=(self.buckets, self.num_scores), initializer="zeros", trainable=False, autocast=False
        )

    def call(self, token_ids: Any) -> Any:
        """Score token ids, int (B, L), as (B, U)."""
        return ops.cast(review_scores(self.table, token_ids, self.max_ngram), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, U)."""
        return (input_shape[0], self.num_scores)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), **{name: getattr(self, name) for name in ("max_ngram", "buckets", "num_scores")}}
