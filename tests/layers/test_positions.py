from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_contract import check_layer, randomize

from mha_cli.layers import PositionalEmbedding, sinusoidal_positions

if TYPE_CHECKING:
    from pathlib import Path

LENGTH, LONGEST, VOCABULARY_SIZE, WIDTH = 5, 11, 13, 7
TOKEN_IDS = np.array([[3, 1, 12, 7, 3], [2, 5, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int32)


def built(positions: str, dropout: float = 0.0) -> PositionalEmbedding:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, positions=positions, dropout=dropout)
    layer(TOKEN_IDS)
    randomize(layer)
    return layer


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_honours_the_layer_contract(positions: str, tmp_path: Path) -> None:
    check_layer(
        PositionalEmbedding,
        {"sequence_length": LONGEST, "vocabulary_size": VOCABULARY_SIZE, "embed_dim": WIDTH, "positions": positions, "dropout": 0.1},
        [np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (3, LENGTH)).astype(np.int32)],
        (3, LENGTH, WIDTH),
        tmp_path,
        keeps_mask=True,
        at_default=["positions"] if positions == "learned" else [],
    )


@pytest.mark.parametrize(("length", "width"), [(11, 7), (5, 2), (601, 64), (3, 1)])
def test_sinusoid_equals_the_formula(length: int, width: int) -> None:
    table = sinusoidal_positions(length, width)
    assert table.shape == (length, width)
    assert table.dtype == np.float32
    for position in range(length):
        for unit in range(width):
            angle = position / 10_000 ** (2 * (unit // 2) / width)
            expected = math.sin(angle) if unit % 2 == 0 else math.cos(angle)
            assert table[position, unit] == pytest.approx(expected, abs=1e-7)


def test_sinusoid_known_values() -> None:
    table = sinusoidal_positions(101, 4)
    np.testing.assert_array_equal(table[0], [0, 1, 0, 1])
    np.testing.assert_allclose(table[1], [0.84147098, 0.54030231, 0.00999983, 0.99995000], atol=1e-7)
    np.testing.assert_allclose(table[100], [-0.50636564, 0.86231887, 0.84147098, 0.54030231], atol=1e-7)


def test_learned_positions_are_added_to_the_tokens() -> None:
    layer = built("learned")
    tokens, places = (np.array(weight) for weight in layer.trainable_variables)
    assert tokens.shape == (VOCABULARY_SIZE, WIDTH)
    assert places.shape == (LONGEST, WIDTH)
    np.testing.assert_allclose(layer(TOKEN_IDS), tokens[TOKEN_IDS] + places[:LENGTH], atol=1e-6)


def test_sinusoidal_positions_are_added_to_the_tokens() -> None:
    layer = built("sinusoidal")
    (tokens,) = (np.array(weight) for weight in layer.trainable_variables)
    np.testing.assert_allclose(layer(TOKEN_IDS), tokens[TOKEN_IDS] + sinusoidal_positions(LENGTH, WIDTH), atol=1e-6)


def test_without_positions_a_token_is_the_same_everywhere() -> None:
    layer = built("none")
    (tokens,) = (np.array(weight) for weight in layer.trainable_variables)
    np.testing.assert_array_equal(layer(TOKEN_IDS), tokens[TOKEN_IDS])


def test_mask_leaves_out_id_0() -> None:
    np.testing.assert_array_equal(built("learned").compute_mask(TOKEN_IDS), TOKEN_IDS != 0)


def test_the_longest_input_fits_and_a_longer_one_is_refused() -> None:
    layer = built("learned")
    assert layer(np.ones((2, LONGEST), np.int32)).shape == (2, LONGEST, WIDTH)
    with pytest.raises(ValueError, match="the input is 12 tokens long; sequence_length allows 11"):
        layer(np.ones((2, LONGEST + 1), np.int32))


def test_dropout_is_active_only_in_training() -> None:
    layer, plain = built("learned", dropout=0.5), built("learned")
    expected = np.array(plain(TOKEN_IDS))
    np.testing.assert_array_equal(layer(TOKEN_IDS), expected)
    np.testing.assert_array_equal(layer(TOKEN_IDS, training=False), expected)
    dropped = np.array(layer(TOKEN_IDS, training=True))
    left = dropped != 0
    assert 0.2 < left.mean() < 0.8
    np.testing.assert_allclose(dropped[left], 2 * expected[left], atol=1e-6)


def test_unknown_kind_of_positions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^positions is 'rotary'; choose from learned, sinusoidal, none$"):
        PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, positions="rotary")
