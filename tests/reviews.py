"""Encoded reviews from plain lists of token ids, and their n-grams by plain Python."""

from __future__ import annotations

import math
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


def weights_in(
    review: Sequence[int],
    max_ngram: int,
    buckets: int,
    ending: int = 0,
    windows: Sequence[int] = (),
    salience: Sequence[Sequence[float]] = (),
) -> dict[int, float]:
    """The buckets of all n-grams of a review, padding left out, and the weight of the last place of each."""
    words = [token_id for token_id in review if token_id]
    weights = {}
    for last in range(len(words)):
        weight = 1 + math.exp(-(len(words) - 1 - last) / ending) if ending else 1.0
        for k, reach in enumerate(windows):
            around = words[max(0, last - reach) : last + reach + 1]
            weight *= math.exp(sum(float(salience[min(word, len(salience) - 1)][k]) for word in around) / len(around))
        for n in range(1, min(max_ngram, last + 1) + 1):
            weights[bucket(words[last + 1 - n : last + 1], buckets)] = weight
    return weights
