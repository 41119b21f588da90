from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_contract import check_layer, randomize

from mha_cli.config.settings import ModelConfig
from mha_cli.layers.ngrams import SUBWORD_START, ngram_buckets_of
from mha_cli.layers.positions import PositionalEmbedding, sinusoidal_positions
from mha_cli.runtime import forward
from tests.reviews import subwords_in, with_characters

if TYPE_CHECKING:
    from pathlib import Path

LENGTH, LONGEST, VOCABULARY_SIZE, WIDTH, BUCKETS = 5, 11, 13, 7, 16
TOKEN_IDS = np.array([[3, 1, 12, 7, 3], [2, 5, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int32)


def built(positions: str, **arguments: Any) -> PositionalEmbedding:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, positions=positions, **arguments)
    layer(TOKEN_IDS)
    randomize(layer)
    return layer


@pytest.mark.parametrize(
    ("positions", "max_ngram", "characters", "at_default"),
    [("learned", 3, 0, ["positions", "subword_buckets"]), ("sinusoidal", 2, 11, []), ("none", 1, 3, ["max_ngram", "conv_kernel_size"])],
)
def test_honours_the_layer_contract(positions: str, max_ngram: int, characters: int, at_default: list[str], tmp_path: Path) -> None:
    arguments = {
        "sequence_length": LONGEST,
        "vocabulary_size": VOCABULARY_SIZE,
        "embed_dim": WIDTH,
        "positions": positions,
        "dropout": 0.1,
        "max_ngram": max_ngram,
        "ngram_buckets": BUCKETS,
        "ngram_dropout": 0.2,
        "subword_buckets": 32 if characters else 0,
        "conv_kernel_size": 0 if positions == "none" else 3,
    }
    token_ids = np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (3, LENGTH)).astype(np.int32)
    tokens = with_characters(token_ids, characters)
    check_layer(PositionalEmbedding, arguments, [tokens], (3, LENGTH, WIDTH), tmp_path, keeps_mask=True, at_default=at_default)


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


def bucket(ngram: list[int], buckets: int) -> int:
    """The polynomial in the ids with Python's endless integers, then cut to 32 bits with a sign."""
    factor = -1_640_531_535
    number = len(ngram) * factor ** len(ngram) + sum(token_id * factor**power for power, token_id in enumerate(reversed(ngram)))
    return ((number + 2**31) % 2**32 - 2**31) % buckets


@pytest.mark.parametrize("buckets", [BUCKETS, 1, 2**24])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_ngrams_fall_into_the_buckets_of_the_formula(n: int, buckets: int) -> None:
    token_ids = np.random.default_rng(n).integers(1, 10_000_000, (3, 7)).astype(np.int32)
    token_ids[1, 4:], token_ids[2, 1:] = 0, 0
    numbers, whole = (np.array(result) for result in ngram_buckets_of(token_ids, n, buckets))
    np.testing.assert_array_equal(whole, (token_ids != 0) & (np.arange(7) >= n - 1))
    for row, end in zip(*np.nonzero(whole), strict=True):
        assert numbers[row, end] == bucket(token_ids[row, end - n + 1 : end + 1].tolist(), buckets)
    assert ((numbers >= 0) & (numbers < buckets)).all()


def test_ngrams_keep_the_buckets_that_checkpoints_were_trained_with() -> None:
    numbers, _ = ngram_buckets_of(np.array([[7, 2, 19_999]], np.int32), 2, 2**20)
    assert np.array(numbers)[0, 1:].tolist() == [126107, 842307]
    numbers, _ = ngram_buckets_of(np.array([[7, 2, 19_999]], np.int32), 3, 2**20)
    assert np.array(numbers)[0, 2:].tolist() == [741467]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_ngrams_are_added_where_they_end(positions: str) -> None:
    layer = built(positions, max_ngram=3, ngram_buckets=BUCKETS)
    weights = {weight.name: np.array(weight) for weight in layer.trainable_variables}
    table = sinusoidal_positions(LONGEST, WIDTH) if positions == "sinusoidal" else weights["position_embeddings"]
    expected = weights["token_embeddings"][TOKEN_IDS] + table[:LENGTH]
    for row, length in enumerate((5, 2, 0)):
        for end in range(length):
            for n in range(2, min(3, end + 1) + 1):
                expected[row, end] += weights["ngram_embeddings"][bucket(TOKEN_IDS[row, end - n + 1 : end + 1].tolist(), BUCKETS)]
    np.testing.assert_allclose(layer(TOKEN_IDS), expected, atol=1e-5)
    np.testing.assert_allclose(layer.embed_words(TOKEN_IDS), expected - table[:LENGTH], atol=1e-5)


@pytest.mark.parametrize("width", [1, 3, 9])
def test_the_convolution_equals_torch(width: int) -> None:
    torch = pytest.importorskip("torch")
    layer = built("sinusoidal", max_ngram=2, ngram_buckets=BUCKETS, conv_kernel_size=width)
    plain = built("sinusoidal", max_ngram=2, ngram_buckets=BUCKETS)
    for weight, same in zip(layer.trainable_variables, plain.trainable_variables, strict=False):
        same.assign(weight)
    words_BLD = np.array(plain.embed_words(TOKEN_IDS)) * (TOKEN_IDS != 0)[:, :, None]  # nothing comes from padding
    kernel_ND = np.array(layer.convolution_kernel)
    assert kernel_ND.shape == (width, WIDTH)
    images, kernels = torch.tensor(words_BLD).swapaxes(1, 2), torch.tensor(kernel_ND.T[:, None].copy())
    convolved_BLD = torch.nn.functional.conv1d(images, kernels, padding="same", groups=WIDTH).swapaxes(1, 2).numpy()
    np.testing.assert_allclose(layer(TOKEN_IDS), words_BLD + convolved_BLD + sinusoidal_positions(LENGTH, WIDTH), atol=1e-5)


def test_a_convolution_starts_as_none() -> None:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, conv_kernel_size=5)
    mask = (TOKEN_IDS != 0)[:, :, None]
    found = np.array(layer(TOKEN_IDS))
    expected = np.array(layer.token_embeddings)[TOKEN_IDS] + np.array(layer.position_embeddings)[:LENGTH]
    np.testing.assert_allclose(found * mask, expected * mask, atol=1e-7)


@pytest.mark.parametrize(("characters", "buckets"), [(3, 4), (11, 32), (23, 64), (7, 2**20)])
def test_the_mean_of_its_subwords_is_added_to_a_token(characters: int, buckets: int) -> None:
    layer = PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, positions="none", subword_buckets=buckets)
    tokens = with_characters(TOKEN_IDS, characters)
    tokens[0, 2, 3:] = 0  # a token of two characters has no subword
    layer(tokens)
    randomize(layer)
    words, subwords = (np.array(weight) for weight in layer.trainable_variables)
    expected = words[TOKEN_IDS].astype(np.float64)
    for place in np.ndindex(*TOKEN_IDS.shape):
        numbers = subwords_in(tokens[place].tolist(), buckets)
        assert bool(numbers) == (place != (0, 2) and TOKEN_IDS[place] > 0)
        if numbers:
            expected[place] += subwords[numbers].mean(axis=0)
    np.testing.assert_allclose(layer(tokens), expected, atol=1e-5)
    np.testing.assert_allclose(layer(tokens, training=True), expected, atol=1e-5)
    given = {"embedding/token_embeddings": words, "embedding/subword_embeddings": subwords}
    model = ModelConfig(positions="none", subword_buckets=buckets, embed_dim=WIDTH, num_heads=1)
    np.testing.assert_allclose(forward.embed(tokens, given, model), expected, atol=1e-5)


def test_subwords_keep_the_buckets_that_checkpoints_were_trained_with() -> None:
    found = [ngram_buckets_of(np.array([[*map(ord, "<ab>")]]), n, 2**20, SUBWORD_START) for n in (3, 4)]
    assert [number for buckets, whole in found for number in np.array(buckets)[np.array(whole)]] == [785522, 983044, 10705]


def test_ngram_dropout_spares_the_tokens() -> None:
    layer, plain = (built("learned", max_ngram=2, ngram_buckets=BUCKETS, ngram_dropout=share) for share in (0.5, 0.0))
    expected = np.array(plain(TOKEN_IDS))
    np.testing.assert_array_equal(layer(TOKEN_IDS), expected)
    np.testing.assert_array_equal(layer(TOKEN_IDS, training=False), expected)
    tokens, positions, _ = (np.array(weight) for weight in layer.trainable_variables)
    without = tokens[TOKEN_IDS] + positions[:LENGTH]
    added, dropped = expected - without, np.array(layer(TOKEN_IDS, training=True)) - without
    left = np.abs(dropped) > 1e-6
    assert 0.2 < left[np.abs(added) > 1e-6].mean() < 0.8
    np.testing.assert_allclose(dropped[left], 2 * added[left], atol=1e-5)


def test_the_longest_input_fits_and_a_longer_one_is_refused() -> None:
    layer = built("learned")
    assert layer(np.ones((2, LONGEST), np.int32)).shape == (2, LONGEST, WIDTH)
    with pytest.raises(ValueError, match="the input is 12 tokens long; sequence_length allows 11"):
        layer(np.ones((2, LONGEST + 1), np.int32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positions": "rotary"}, "positions is 'rotary'; choose from learned, sinusoidal, none"),
        ({"positions": "none", "max_ngram": 2}, "max_ngram is 2, but n-grams carry word order and positions is 'none'; take max_ngram 1"),
        ({"positions": "none", "conv_kernel_size": 3}, "conv_kernel_size is 3, but it carries word order and positions is 'none'; take 0"),
        ({"conv_kernel_size": 4}, "conv_kernel_size is 4; it must be odd, or 0"),
        ({"max_ngram": 2}, "ngram_buckets is 0; it must be a power of two"),
        ({"subword_buckets": 19}, "subword_buckets is 19; it must be a power of two"),
        ({"subword_buckets": 4}, "the input has shape (3, 5); with subwords it takes (batch, length, 1 + characters)"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PositionalEmbedding(LONGEST, VOCABULARY_SIZE, WIDTH, **arguments)(TOKEN_IDS)
