"""Encoded reviews from plain lists of token ids, and their n-grams and subwords by plain Python."""

import math
from collections.abc import Sequence

import numpy as np

from mha_cli.corpus.encoded_texts import EncodedTexts

HASH_FACTOR = -1_640_531_535


def encoded(reviews: Sequence[Sequence[int]], labels: Sequence[int] | None = None, characters: int = 0) -> EncodedTexts:
    """Reviews of these ids, with ``characters`` of made-up words; class 0 where no labels are given."""
    return EncodedTexts(
        tokens=with_characters(np.array([token_id for review in reviews for token_id in review], dtype=np.int32), characters),
        offsets=np.cumsum([0, *map(len, reviews)]).astype(np.int64),
        labels=np.zeros(len(reviews), np.int32) if labels is None else np.array(labels, np.int32),
        num_truncated=0,
    )


def padded(reviews: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """The ids of reviews (B, L), with zeros behind the shorter ones."""
    return np.array([[*review, *[0] * (length - len(review))] for review in reviews], dtype=np.int32)


def with_characters(token_ids: np.ndarray, characters: int) -> np.ndarray:
    """Tokens (…, 1 + W) with a made-up word for each id but 0; for ``characters`` 0 the ids as given."""
    if not characters:
        return token_ids
    tokens = np.zeros((*token_ids.shape, 1 + characters), np.int32)
    tokens[..., 0] = token_ids
    for place in zip(*np.nonzero(token_ids), strict=True):
        rng = np.random.default_rng(int(token_ids[place]))
        word = rng.choice([0x61, 0x62, 0xE9, 0x939, 0x1F600], rng.integers(1, characters + 3))
        code_points = [ord("<"), *word, ord(">")][:characters]
        tokens[place][1 : 1 + len(code_points)] = code_points
    return tokens


def subwords_in(token: Sequence[int], buckets: int) -> list[int]:
    """The buckets of a token's subwords: of each 3, 4 and 5 of its characters that stand side by side."""
    code_points = [code_point for code_point in token[1:] if code_point]
    return [bucket(code_points[first : first + n], buckets, start=16 + n) for n in (3, 4, 5) for first in range(len(code_points) - n + 1)]


def bucket(ngram: Sequence[int], buckets: int, start: int | None = None) -> int:
    """The polynomial in the ids with Python's endless integers, then cut to 32 bits with a sign; it starts with how many they are."""
    number = len(ngram) if start is None else start
    for token_id in ngram:
        number = number * HASH_FACTOR + token_id
    return ((number + 2**31) % 2**32 - 2**31) % buckets


def weights_in(
    review: Sequence[int],
    max_ngram: int,
    buckets: int,
    ending: int = 0,
    windows: Sequence[int] = (),
    context_weights: Sequence[Sequence[float]] = (),
) -> dict[int, float]:
    """The buckets of all n-grams of a review, padding left out, and the weight of the last place of each."""
    words = [token_id for token_id in review if token_id]
    weights = {}
    for last in range(len(words)):
        weight = 1 + math.exp(-(len(words) - 1 - last) / ending) if ending else 1.0
        for k, reach in enumerate(windows):
            around = words[max(0, last - reach) : last + reach + 1]
            weight *= math.exp(sum(float(context_weights[min(word, len(context_weights) - 1)][k]) for word in around) / len(around))
        for n in range(1, min(max_ngram, last + 1) + 1):
            weights[bucket(words[last + 1 - n : last + 1], buckets)] = weight
    return weights
