"""The n-grams of reviews against plain Python dictionaries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.config.settings import LinearConfig
from mha_cli.layers import NgramLinear
from mha_cli.linear import features as module
from mha_cli.linear.features import ngram_features, ngrams_of, subword_features, text_features
from tests.reviews import encoded, subwords_in, weights_in

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS = 128
REVIEWS = [[7, 2, 7, 2, 7, 3], [], [5], [5, 5, 5], [2, 7], [], [3, 1, 4, 1, 5, 9, 2, 6], [7]]


def settings(max_ngram: int, buckets: int = BUCKETS, ending: int = 0) -> LinearConfig:
    return LinearConfig(max_ngram=max_ngram, buckets=buckets, end_decay=ending)


def features_of(reviews: Sequence[Sequence[int]], linear: LinearConfig) -> npt.NDArray[np.float32]:
    of_reviews = encoded(reviews)
    features = ngram_features(of_reviews, ngrams_of(of_reviews, linear), linear)
    assert features.dtype == np.float32
    return np.asarray(features.toarray())


@pytest.mark.parametrize("chunk", [1, 3, 2000])
@pytest.mark.parametrize(("max_ngram", "ending", "buckets"), [(1, 0, 1), (2, 3, 64), (4, 50, 2**13)])
def test_features_are_those_of_python_dictionaries(
    max_ngram: int, ending: int, buckets: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_TEXTS", chunk)
    expected = np.zeros((len(REVIEWS), buckets))
    for row, review in enumerate(REVIEWS):
        weights = weights_in(review, max_ngram, buckets, ending)
        for number, weight in weights.items():
            expected[row, number] = weight / math.sqrt(sum(w**2 for w in weights.values()))
    features = features_of(REVIEWS, settings(max_ngram, buckets, ending))
    np.testing.assert_allclose(features, expected, rtol=1e-6)


@pytest.mark.parametrize("chunk", [1, 3, 2000])
def test_subwords_are_counted_as_often_as_they_stand(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_TEXTS", chunk)
    reviews = encoded(REVIEWS, characters=7)
    features = subword_features(reviews, settings(1))
    assert (features.shape, features.dtype) == ((len(REVIEWS), BUCKETS), np.float32)
    expected = np.zeros((len(REVIEWS), BUCKETS))
    for row, (start, stop) in enumerate(zip(reviews.offsets[:-1], reviews.offsets[1:], strict=True)):
        subwords = [number for token in reviews.tokens[start:stop].tolist() for number in subwords_in(token, BUCKETS)]
        np.add.at(expected[row], subwords, 1 / math.sqrt(max(1, len(subwords))))
    assert expected.max() > 0.5
    np.testing.assert_allclose(features.toarray(), expected, rtol=1e-5)


@pytest.mark.parametrize(("ending", "characters"), [(0, 0), (4, 0), (4, 7), (0, 3)])
def test_features_times_a_table_are_what_the_layer_says(ending: int, characters: int) -> None:
    """The features that the linear model is fitted on are those that the layer reads."""
    rng = np.random.default_rng(0)
    random_reviews = [rng.integers(1, 30, rng.integers(0, 17)).tolist() for _ in range(20)]
    reviews = encoded([*REVIEWS, *random_reviews], characters=characters)
    linear = LinearConfig(max_ngram=3, buckets=512, end_decay=ending, subwords=characters > 0)
    layer = NgramLinear(3, 512, 2, ending, subwords=characters > 0)
    tokens = reviews.padded(np.arange(len(reviews)))
    layer.build(tokens.shape)
    table = rng.normal(size=(512, 2)).astype(np.float32)
    layer.table.assign(table)
    np.testing.assert_allclose(text_features(reviews, ngrams_of(reviews, linear), linear) @ table, layer(tokens), atol=1e-5)
