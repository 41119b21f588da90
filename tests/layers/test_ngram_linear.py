"""N-gram scores against a dictionary of plain Python sums."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.config.settings import Config, LinearConfig, TextConfig
from mha_cli.layers import NgramLinear
from mha_cli.runtime.forward import ForwardPass
from tests.covering import pairwise
from tests.layers.layer_contract import check_layer
from tests.reviews import subwords_in, weights_in, with_characters

REVIEWS = [
    [7, 2, 7, 2, 7, 22, 22],  # words, pairs and triples that come again
    [5, 5, 5, 5, 0, 0, 0],
    [11, 3, 0, 0, 0, 0, 0],  # shorter than three
    [9, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
]
TOKEN_IDS = np.array(REVIEWS, dtype=np.int32)


def table_of(buckets: int, units: int) -> np.ndarray:
    return np.random.default_rng(buckets).normal(size=(buckets, units)).astype(np.float32)


def context_weights_of(windows: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(9).normal(size=(9, len(windows))).astype(np.float32)


def layer_with(table: np.ndarray, max_ngram: int, ending: int = 0, windows: Sequence[int] = ()) -> NgramLinear:
    context_weights = context_weights_of(windows)
    layer = NgramLinear(max_ngram, *table.shape, ending, windows, len(context_weights))
    layer.build((None, None))
    layer.table.assign(table)
    if windows:
        layer.context_weights.assign(context_weights)
    return layer


@pytest.mark.parametrize("characters", [0, 5])
def test_honours_the_layer_contract(characters: int, tmp_path: Path) -> None:
    arguments = {"max_ngram": 3, "buckets": 32, "units": 2, "end_decay": 4, "context_windows": [1, 3], "context_words": 7}
    tokens = with_characters(np.random.default_rng(0).integers(1, 23, (3, 5)).astype(np.int32), characters)
    check_layer(NgramLinear, arguments, [tokens], (3, 2), tmp_path, keeps_mask=False)


def score_by_hand(review: list[int], table: np.ndarray, max_ngram: int, ending: int, windows: Sequence[int]) -> np.ndarray:
    weights = weights_in(review, max_ngram, len(table), ending, windows, context_weights_of(windows))
    total = sum((weight * table[number] for number, weight in weights.items()), start=np.zeros(table.shape[1]))
    return total / math.sqrt(sum(weight**2 for weight in weights.values()) or 1.0)


WEIGHTING = [(0, ()), (1, (2,)), (3, ()), (50, (1, 3)), (0, (5,)), (0, (100, 1, 2))]


@pytest.mark.parametrize(("max_ngram", "buckets", "units", "weighting"), pairwise([1, 2, 3, 5], [1, 8, 32, 64, 2**20], [1, 3], WEIGHTING))
def test_scores_are_the_weighted_sum_over_the_distinct_ngrams(
    max_ngram: int, buckets: int, units: int, weighting: tuple[int, tuple[int, ...]]
) -> None:
    ending, windows = weighting
    table = table_of(buckets, units)
    expected = np.stack([score_by_hand(review, table, max_ngram, ending, windows) for review in REVIEWS])
    assert (expected[-1] == 0).all()
    np.testing.assert_allclose(layer_with(table, max_ngram, ending, windows)(TOKEN_IDS), expected, atol=1e-5)
    linear = LinearConfig(max_ngram=max_ngram, buckets=buckets, end_decay=ending, context_windows=list(windows))
    weights = {"linear/table": table, "linear/context_weights": context_weights_of(windows)}
    np.testing.assert_allclose(ForwardPass(weights, Config(linear=linear)).linear_logits(TOKEN_IDS), expected, atol=1e-5)


@pytest.mark.parametrize(("characters", "buckets", "units"), [(3, 8, 1), (11, 64, 3), (23, 2**13, 77)])
def test_subwords_add_their_sum_over_the_root_of_their_number(characters: int, buckets: int, units: int) -> None:
    table, tokens = table_of(buckets, units), with_characters(TOKEN_IDS, characters)
    tokens[3, 0, 3:] = 0  # a review without a subword
    layer = NgramLinear(2, buckets, units, end_decay=3)
    layer(tokens)
    layer.table.assign(table)
    expected = np.stack([score_by_hand(review, table, 2, 3, ()) for review in REVIEWS])
    for row, review in enumerate(tokens.tolist()):
        numbers = [number for token in review for number in subwords_in(token, buckets)]
        assert bool(numbers) == (row < 3)
        expected[row] += table[numbers].sum(axis=0) / math.sqrt(len(numbers) or 1)
    np.testing.assert_allclose(layer(tokens), expected, atol=1e-5)
    linear = LinearConfig(max_ngram=2, buckets=buckets, end_decay=3)
    config = Config(text=TextConfig(subword_characters=characters), linear=linear)
    np.testing.assert_allclose(ForwardPass({"linear/table": table}, config).linear_logits(tokens), expected, atol=1e-5)


def test_more_padding_changes_nothing() -> None:
    layer = layer_with(table_of(32, 2), 3, ending=4, windows=(1, 3))
    wider = np.pad(TOKEN_IDS, [(0, 0), (0, 4)])
    np.testing.assert_allclose(layer(wider), layer(TOKEN_IDS), atol=1e-6)
    np.testing.assert_allclose(layer(TOKEN_IDS[2:3, :2]), layer(TOKEN_IDS)[2:3], atol=1e-6)
    assert layer(TOKEN_IDS[3:4, :1]).shape == (1, 2)  # every n-gram but the word is longer than the review


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"end_decay": -1}, "end_decay is -1; it must be 0 or more"),
        ({"context_windows": [2, -1]}, r"context_windows is \[2, -1\]; each must be 0 or more"),
    ]
    + [({name: 0}, f"{name} is 0; it must be .*") for name in ("max_ngram", "buckets", "units", "context_words")],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        NgramLinear(**{"max_ngram": 1, "buckets": 1, "units": 1, **arguments})
