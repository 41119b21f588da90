"""Encoded reviews from plain lists of token ids, and their n-grams by plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mha_cli.data.corpus import EncodedReviews

if TYPE_CHECKING:
    from collections.abc import Sequence

HASH_FACTOR = -1_640_531_535


def encoded(reviews: Sequence[Sequence[int]], labels: Sequence[int] | None = None) -> EncodedReviews:
    """Reviews of these ids; class 0 where no labels are given."""
    return EncodedReviews(
        token_ids=np.array([token_id for review in reviews for token_id in review], dtype=np.int32),
        offsets=np.cumsum([0, *map(len, reviews)]).astype(np.int64),
        labels=np.zeros(len(reviews), np.int32) if labels is None else np.array(labels, np.int32),
        num_truncated=0,
    )


def bucket(ngram: Sequence[int], buckets: int) -> int:
    """The polynomial in the ids with Python's endless integers, then cut to 32 bits with a sign."""
    number = len(ngram)
    for token_id in ngram:
        number = number * HASH_FACTOR + token_id
    return ((number + 2**31) % 2**32 - 2**31) % buckets


def buckets_in(review: Sequence[int], max_ngram: int, buckets: int) -> set[int]:
    """The buckets of all n-grams of a review, padding left out."""
    words = [token_id for token_id in review if token_id]
    return {bucket(words[start : start + n], buckets) for n in range(1, max_ngram + 1) for start in range(max(0, len(words) - n + 1))}
