import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.layers.positions import PositionalEmbedding, sinusoidal_positions
from tests.layers.layer_contract import check_layer, randomize
from tests.reviews import with_characters

LENGTH, LONGEST, VOCABULARY_SIZE, WIDTH = 5, 11, 13, 7
TOKEN_IDS = np.array([[3, 1, 12, 7, 3], [2, 5, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int32)
OPTIONS = {"max_ngram": 3, "ngram_buckets": 16, "ngram_dropout": 0.2, "subword_buckets": 32, "conv_kernel_size": 3}


@pytest.mark.parametrize(
    ("positions", "characters", "at_default"), [("learned", 11, ["positions"]), ("sinusoidal", 0, ["token_options"]), ("none", 3, [])]
)
def test_honours_the_layer_contract(positions: str, characters: int, at_default: list[str], tmp_path: Path) -> None:
    arguments = {
        "sequence_length": LONGEST,
        "vocabulary_size": VOCABULARY_SIZE,
        "embed_dim": WIDTH,
        "positions": positions,
        "norm_epsilon": 1e-6,
        "dropout": 0.1,
        "token_options": OPTIONS if characters else None,
    }
    token_ids = np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (3, LENGTH)).astype(np.int32)
    tokens = with_characters(token_ids, characters)
    check_layer(PositionalEmbedding, arguments, [tokens], (3, LENGTH, WIDTH), tmp_path, keeps_mask=True, at_default=at_default)


@pytest.mark.parametrize(("length", "width"), [(11, 7), (601, 64), (3, 1)])
def test_sinusoid_equals_the_formula(length: int, width: int) -> None:
    table = sinusoidal_positions(length, width)
    assert table.shape == (length, width)
    assert table.dtype == np.float32
    for position in range(length):
        for unit in range(width):
            angle = position / 10_000 ** (2 * (unit // 2) / width)
            expected = math.sin(angle) if unit % 2 == 0 else math.cos(angle)
            assert table[position, unit] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("options", [None, {"max_ngram": 3, "ngram_buckets": 16}])
def test_positions_are_added_to_the_embeddings_of_tokens(positions: str, options: dict[str, Any] | None) -> None:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, positions, token_options=options)
    layer(TOKEN_IDS)
    randomize(layer)
    tokens = np.array(layer.token_embedding(TOKEN_IDS))
    table = 0.0 if positions == "none" else np.array(layer.position_table())[:LENGTH]
    np.testing.assert_allclose(layer(TOKEN_IDS), tokens + table, atol=1e-5)
    if options is None:
        np.testing.assert_array_equal(tokens, np.array(layer.token_embedding.words)[TOKEN_IDS])


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3])
def test_the_norm_takes_its_epsilon(epsilon: float) -> None:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, norm_epsilon=epsilon)
    layer(TOKEN_IDS)
    randomize(layer, scale=0.03)
    sums = np.array(layer.token_embedding(TOKEN_IDS)) + np.array(layer.position_table())[:LENGTH]
    centred = sums - sums.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    np.testing.assert_allclose(layer(TOKEN_IDS), normed * np.array(layer.norm.gamma) + np.array(layer.norm.beta), atol=1e-6)


def test_the_longest_input_fits_and_a_longer_one_is_refused() -> None:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH)
    assert layer(np.ones((2, LONGEST), np.int32)).shape == (2, LONGEST, WIDTH)
    with pytest.raises(ValueError, match="the input is 12 tokens long; sequence_length allows 11"):
        layer(np.ones((2, LONGEST + 1), np.int32))
