"""Token embeddings, and the hashes of n-grams and subwords under them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.layers import ngrams
from mha_cli.layers.tokens import TokenEmbedding
from mha_cli.text.ngrams import SUBWORD_START, hashed_ngrams
from tests.layers.layer_contract import check_layer, randomize
from tests.reviews import bucket, subwords_in, with_characters

LENGTH, VOCABULARY_SIZE, WIDTH, BUCKETS = 5, 13, 7, 16
TOKEN_IDS = np.array([[3, 1, 12, 7, 3], [2, 5, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int32)


def built(tokens: np.ndarray = TOKEN_IDS, **arguments: Any) -> TokenEmbedding:
    layer = TokenEmbedding(VOCABULARY_SIZE, WIDTH, **arguments)
    layer(tokens)
    randomize(layer)
    return layer


@pytest.mark.parametrize("characters", [0, 11])
def test_honours_the_layer_contract(characters: int, tmp_path: Path) -> None:
    arguments = {
        "vocabulary_size": VOCABULARY_SIZE,
        "embed_dim": WIDTH,
        "max_ngram": 3,
        "ngram_buckets": BUCKETS,
        "ngram_dropout": 0.2,
        "subword_buckets": 32 if characters else 0,
        "conv_kernel_size": 3,
    }
    token_ids = np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (3, LENGTH)).astype(np.int32)
    tokens = with_characters(token_ids, characters)
    at_default = [] if characters else ["subword_buckets"]
    check_layer(TokenEmbedding, arguments, [tokens], (3, LENGTH, WIDTH), tmp_path, keeps_mask=True, at_default=at_default)


@pytest.mark.parametrize("buckets", [BUCKETS, 1, 2**24])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_ngrams_fall_into_the_buckets_of_the_formula(n: int, buckets: int) -> None:
    token_ids = np.random.default_rng(n).integers(1, 10_000_000, (3, 7)).astype(np.int32)
    token_ids[1, 4:], token_ids[2, 1:] = 0, 0
    ((numbers, whole),) = hashed_ngrams(token_ids, [n], buckets)
    for ours, theirs in zip(next(ngrams.hashed_ngrams(token_ids, [n], buckets)), (numbers, whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for row, end in zip(*np.nonzero((token_ids != 0) & (np.arange(7) >= n - 1)), strict=True):
        assert whole[row, end]
        assert numbers[row, end] == bucket(token_ids[row, end - n + 1 : end + 1].tolist(), buckets)


def test_ngrams_keep_the_buckets_that_checkpoints_were_trained_with() -> None:
    for numbers, lengths, start, expected in (
        ([7, 2, 19_999], (2, 3), 0, [126107, 842307, 741467]),
        ([*map(ord, "<ab>")], (3, 4), SUBWORD_START, [785522, 983044, 10705]),
    ):
        found = hashed_ngrams(np.array([numbers], np.int32), lengths, 2**20, start)
        assert [number for buckets, whole in found for number in buckets[whole]] == expected


def test_ngrams_are_added_where_they_end() -> None:
    layer = built(max_ngram=3, ngram_buckets=BUCKETS)
    expected = np.array(layer.words)[TOKEN_IDS]
    for row, length in enumerate((5, 2, 0)):
        for end in range(length):
            for n in range(2, min(3, end + 1) + 1):
                expected[row, end] += np.array(layer.ngrams)[bucket(TOKEN_IDS[row, end - n + 1 : end + 1].tolist(), BUCKETS)]
    np.testing.assert_allclose(layer(TOKEN_IDS), expected, atol=1e-5)


@pytest.mark.parametrize("width", [1, 9])
def test_the_convolution_equals_torch(width: int) -> None:
    torch = pytest.importorskip("torch")
    layer = built(max_ngram=2, ngram_buckets=BUCKETS, conv_kernel_size=width)
    words_BLD = np.array(layer.embed_words(TOKEN_IDS)) * (TOKEN_IDS != 0)[:, :, None]  # nothing comes from padding
    images, kernels = torch.tensor(words_BLD).swapaxes(1, 2), torch.tensor(np.array(layer.convolution_kernel).T[:, None].copy())
    assert kernels.shape == (WIDTH, 1, width)
    convolved_BLD = torch.nn.functional.conv1d(images, kernels, padding="same", groups=WIDTH).swapaxes(1, 2).numpy()
    np.testing.assert_allclose(layer(TOKEN_IDS), words_BLD + convolved_BLD, atol=1e-5)


def test_a_convolution_starts_as_none() -> None:
    layer, mask = TokenEmbedding(VOCABULARY_SIZE, WIDTH, conv_kernel_size=5), (TOKEN_IDS != 0)[:, :, None]
    np.testing.assert_allclose(layer(TOKEN_IDS) * mask, np.array(layer.words)[TOKEN_IDS] * mask, atol=1e-7)


@pytest.mark.parametrize(("characters", "buckets"), [(3, 4), (11, 32), (7, 2**20)])
def test_the_mean_of_its_subwords_is_added_to_a_token(characters: int, buckets: int) -> None:
    tokens = with_characters(TOKEN_IDS, characters)
    tokens[0, 2, 3:] = 0  # a token of two characters has no subword
    layer = built(tokens, subword_buckets=buckets)
    expected = np.array(layer.words)[TOKEN_IDS].astype(np.float64)
    for place in np.ndindex(*TOKEN_IDS.shape):
        numbers = subwords_in(tokens[place].tolist(), buckets)
        assert bool(numbers) == (place != (0, 2) and TOKEN_IDS[place] > 0)
        if numbers:
            expected[place] += np.array(layer.subwords)[numbers].mean(axis=0)
    np.testing.assert_allclose(layer(tokens), expected, atol=1e-5)
    np.testing.assert_allclose(layer(tokens, training=True), expected, atol=1e-5)


def test_ngram_dropout_spares_the_tokens() -> None:
    layer, plain = (built(max_ngram=2, ngram_buckets=BUCKETS, ngram_dropout=share) for share in (0.5, 0.0))
    expected, without = np.array(plain(TOKEN_IDS)), np.array(plain.words)[TOKEN_IDS]
    np.testing.assert_array_equal(layer(TOKEN_IDS), expected)
    added, dropped = expected - without, np.array(layer(TOKEN_IDS, training=True)) - without
    left = np.abs(dropped) > 1e-6
    assert 0.2 < left[np.abs(added) > 1e-6].mean() < 0.8
    np.testing.assert_allclose(dropped[left], 2 * added[left], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"conv_kernel_size": 4}, "conv_kernel_size is 4; it must be odd, or 0"),
        ({"max_ngram": 2}, "ngram_buckets is 0; it must be a power of two"),
        ({"subword_buckets": 19}, "subword_buckets is 19; it must be a power of two"),
        ({"subword_buckets": 4}, "the input has shape (3, 5); with subwords it takes (batch, length, 1 + characters)"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        TokenEmbedding(VOCABULARY_SIZE, WIDTH, **arguments)(TOKEN_IDS)
