"""The n-grams of texts against plain Python dictionaries."""

import numpy as np
import pytest

from mha_cli.config.settings import LinearConfig
from mha_cli.layers import NgramLinear
from mha_cli.linear import features as module
from mha_cli.linear.features import ngrams_of, text_features
from tests.reviews import encoded

TEXTS = [[7, 2, 7, 2, 7, 3], [], [5], [5, 5, 5], [2, 7], [], [3, 1, 4, 1, 5, 9, 2, 6], [7]]


@pytest.mark.parametrize("chunk", [1, 3, 2000])
@pytest.mark.parametrize(("max_ngram", "ending", "characters"), [(1, 0, 0), (4, 50, 0), (3, 4, 7), (2, 0, 3)])
def test_features_times_a_table_are_what_the_layer_says(
    max_ngram: int, ending: int, characters: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The features that the linear model is fitted on are those that the layer reads, which its tests compare with plain Python."""
    monkeypatch.setattr(module, "CHUNK_TEXTS", chunk)
    rng = np.random.default_rng(0)
    random_texts = [rng.integers(1, 30, rng.integers(0, 17)).tolist() for _ in range(20)]
    texts = encoded([*TEXTS, *random_texts], characters=characters)
    linear = LinearConfig(max_ngram=max_ngram, buckets=512, end_decay=ending)
    layer = NgramLinear(max_ngram, 512, 2, ending)
    tokens = texts.padded(np.arange(len(texts)))
    layer.build(tokens.shape)
    table = rng.normal(size=(512, 2)).astype(np.float32)
    layer.table.assign(table)
    np.testing.assert_allclose(text_features(texts, ngrams_of(texts, linear), linear) @ table, layer(tokens), atol=1e-5)
