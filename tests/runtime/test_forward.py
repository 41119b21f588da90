from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import ModelConfig
from mha_cli.errors import MhaError
from mha_cli.layers import GlobalMaxPooling1D, MultiHeadAttention, sinusoidal_positions
from mha_cli.layers.ngrams import ngram_buckets_of
from mha_cli.model.classifier import build_classifier
from mha_cli.runtime import forward
from mha_cli.text import ngrams
from tests.reviews import padded, with_characters

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import ModelCase

RAGGED = [[7, 2, 1, 22, 5, 5, 3, 4, 4, 8, 19, 2, 6], [11], [], [4, 9, 13, 2, 1], [3, 3]]
EXACT = {"atol": 1e-5, "rtol": 1e-5}
TOO_LARGE = "the model's weights are so large that its numbers overflow; train it anew, with a lower learning rate"


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


@pytest.fixture
def keras_model(model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]) -> keras.Model:
    model = build_classifier(*model_case)
    weights = random_weights(*model_case)
    for variable in model.weights:
        variable.assign(weights[variable.path])
    return model


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # a review of one word
def test_equals_the_keras_model(
    keras_model: keras.Model, model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    weights = random_weights(*model_case)
    for given in (padded(RAGGED, 13), padded(RAGGED[1:], 5), padded([[11]], 1), padded([[]], 1)):
        token_ids = with_characters(given, model_case.config.text.subword_characters)
        expected = np.array(keras_model(token_ids))
        if model_case.num_classes == 2:
            expected = np.concatenate([1.0 - expected, expected], axis=1)
        before = token_ids.copy()
        probabilities = forward.class_probabilities(token_ids, weights, model_case.config.model)
        assert probabilities.shape == (len(token_ids), model_case.num_classes)
        assert probabilities.dtype == np.float32
        np.testing.assert_allclose(probabilities, expected, **EXACT)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, **EXACT)
        np.testing.assert_array_equal(token_ids, before)
    assert all((weights[path] == weight).all() for path, weight in random_weights(*model_case).items())


@pytest.mark.parametrize(
    "model",
    [
        {"max_ngram": 2, "ngram_buckets": 32},
        {"attention_score": "additive"},
        {"use_scale": False, "positions": "sinusoidal"},
        {"num_blocks": 2, "num_heads": [3, 1], "key_dim": 3},
    ],
    ids=["dot-product", "additive", "no-scale", "heads-by-block"],
)
def test_reviews_longer_than_a_block_of_queries_equal_the_keras_model(
    model: dict[str, Any], random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    length = 1031
    assert length**2 > forward.SCORE_BLOCK  # not all queries of a head at once
    sizes = {"embed_dim": 6, "num_heads": 2, "feed_forward_dim": 7}
    config = config_from_dict({"text": {"vocabulary_size": 23, "sequence_length": length}, "model": {**sizes, **model}}, "test")
    weights = random_weights(config, 23, 3)
    keras_model = build_classifier(config, 23, 3)
    for variable in keras_model.weights:
        variable.assign(weights[variable.path])
    reviews = [np.random.default_rng(size).integers(1, 23, size).tolist() for size in (length, 513, 5)]
    token_ids = padded(reviews, length)
    probabilities = forward.class_probabilities(token_ids, weights, config.model)
    np.testing.assert_allclose(probabilities, keras_model(token_ids), **EXACT)
    for block, attention in enumerate(forward.attention_weights(token_ids[:, :549], weights, config.model)):
        assert attention.shape == (3, config.model.heads[block], 549, 549)
        np.testing.assert_allclose(attention.sum(axis=-1), 1.0, **EXACT)
        assert (attention[2, :, :, 5:] == 0).all()


@pytest.mark.parametrize("block", [1, 70, 13 * 13 * 5])
def test_the_size_of_a_block_changes_nothing(
    block: int, model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    token_ids = with_characters(padded(RAGGED, 13), model_case.config.text.subword_characters)
    weights, model = random_weights(*model_case), model_case.config.model
    probabilities, attention = (
        function(token_ids, weights, model) for function in (forward.class_probabilities, forward.attention_weights)
    )
    monkeypatch.setattr(forward, "SCORE_BLOCK", block)
    np.testing.assert_allclose(forward.class_probabilities(token_ids, weights, model), probabilities, **EXACT)
    for ours, expected in zip(forward.attention_weights(token_ids, weights, model), attention, strict=True):
        np.testing.assert_allclose(ours, expected, **EXACT)


def test_hidden_states_equal_the_keras_model(
    keras_model: keras.Model, model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    model = model_case.config.model
    token_ids = with_characters(padded(RAGGED, 13), model_case.config.text.subword_characters)
    real, weights = padded(RAGGED, 13) != 0, random_weights(*model_case)
    names = ["embedding", *(f"encoder_{block}" for block in range(model.num_blocks))]
    expected = keras.Model(keras_model.input, [keras_model.get_layer(name).output for name in names])(token_ids)
    x = forward.embed(token_ids, weights, model)
    np.testing.assert_allclose(x, expected[0], **EXACT)
    for block in range(model.num_blocks):
        prefix = f"encoder_{block}/"
        below = {path.removeprefix(prefix): weight for path, weight in weights.items() if path.startswith(prefix)}
        x, _ = forward.encode(x, real, below, model)
        np.testing.assert_allclose(x[real], np.array(expected[block + 1])[real], **EXACT)


@pytest.mark.parametrize(
    "arguments", [{}, {"attention_score": "additive"}, {"use_scale": False}], ids=["dot-product", "additive", "no-scale"]
)
@pytest.mark.parametrize("use_bias", [True, False])
def test_attention_and_its_weights_equal_the_layer(use_bias: bool, arguments: dict[str, Any]) -> None:
    x, real = random(3, 7, 11), np.arange(7) < np.array([7, 3, 0])[:, None]
    layer = MultiHeadAttention(2, 5, value_dim=13, use_bias=use_bias, **arguments)
    layer(x)
    for variable in layer.trainable_variables:
        variable.assign(random(*variable.shape))
    weights = {variable.name: np.array(variable) for variable in layer.trainable_variables}
    output, attention_weights = forward.multi_head_attention(x, real, weights, ModelConfig(**arguments), keep_attention=True)
    expected, expected_weights = layer(x, value_mask=real, return_attention_scores=True)
    np.testing.assert_allclose(output, expected, **EXACT)
    np.testing.assert_allclose(attention_weights, expected_weights, **EXACT)
    assert (attention_weights[1, :, :, 3:] == 0).all()
    assert (attention_weights[2] == 0).all()


@pytest.mark.parametrize("buckets", [1, 16, 2**24])
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_ngrams_equal_the_layer(length: int, n: int, buckets: int) -> None:
    token_ids = np.random.default_rng(n).integers(1, 10_000_000, (3, length)).astype(np.int32)
    token_ids[1, 4:], token_ids[2, 1:] = 0, 0
    numbers, whole = ngram_buckets_of(token_ids, n, buckets)
    np.testing.assert_array_equal(ngrams.ngram_buckets(token_ids, n, buckets), numbers)
    np.testing.assert_array_equal(ngrams.ngrams_end(token_ids, n), whole)


@pytest.mark.parametrize(("length", "width"), [(601, 64), (13, 11), (5, 2), (3, 1), (1, 7)])
def test_sinusoid_equals_the_layer(length: int, width: int) -> None:
    table = forward.sinusoid(length, width)
    assert table.dtype == np.float32
    np.testing.assert_allclose(table, sinusoidal_positions(length, width), atol=1e-6)


def test_layer_norm_equals_keras() -> None:
    x = random(3, 7, 11) * 0.1  # so little variance that epsilon counts
    layer = keras.layers.LayerNormalization()
    layer.build(x.shape)
    layer.gamma.assign(random(11))
    layer.beta.assign(random(11, 1)[:, 0])
    np.testing.assert_allclose(forward.layer_norm(x, np.array(layer.gamma), np.array(layer.beta)), layer(x), **EXACT)


def test_pooling_equals_the_layer() -> None:
    x, real = random(3, 7, 11) - 5.0, np.arange(7) < np.array([7, 3, 0])[:, None]
    x[1, 5] = 9.0  # padding that would win
    np.testing.assert_array_equal(forward.global_max_pool(x, real), GlobalMaxPooling1D()(x, mask=real))


def test_gelu_equals_the_normal_distribution() -> None:
    x = np.linspace(-7, 7, 101, dtype=np.float32)
    expected = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.astype(float)]
    np.testing.assert_allclose(forward.gelu(x), expected, atol=1e-6)
    assert forward.gelu(x).dtype == np.float32


def test_sigmoid_and_softmax_stay_finite() -> None:
    x = np.array([-1e4, -30.0, -0.5, 0.0, 0.5, 30.0, 1e4], dtype=np.float32)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(forward.sigmoid(x), [0.0, math.exp(-30), 0.37754067, 0.5, 0.62245933, 1.0, 1.0], atol=1e-7)
        np.testing.assert_allclose(forward.softmax(x), [0, 0, 0, 0, 0, 0, 1], atol=1e-7)
        np.testing.assert_allclose(forward.softmax(x - 1e4).sum(), 1.0, atol=1e-6)


# Weights that are too large


@pytest.mark.filterwarnings("error")
def test_enormous_weights_give_an_answer_or_a_refusal_and_never_a_warning(
    model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    token_ids = with_characters(padded(RAGGED, 13), model_case.config.text.subword_characters)
    weights, model = random_weights(*model_case), model_case.config.model
    refused = set()
    for path, weight in weights.items():
        for size in (1e20, 3e38):
            large = {**weights, path: np.sign(weight) * np.float32(size)}
            for function in (forward.class_probabilities, forward.attention_weights):
                try:
                    found = function(token_ids, large, model)
                except MhaError as error:
                    assert str(error) == TOO_LARGE
                    refused.add(function)
                else:
                    assert all(np.isfinite(numbers).all() for numbers in found)
    assert forward.class_probabilities in refused
