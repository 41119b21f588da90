import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from mha_cli.config.loading import config_from_dict
from mha_cli.errors import MhaError
from mha_cli.model.classifier import build_classifier
from mha_cli.runtime import forward
from mha_cli.runtime.numpy_operations import NumpyOperations
from mha_cli.system.working_memory import SCORE_BLOCK
from tests.conftest import ModelCase
from tests.reviews import padded, with_characters

RAGGED = [[7, 2, 1, 22, 5, 5, 3, 4, 4, 8, 19, 2, 6], [11], [], [4, 9, 13, 2, 1], [3, 3]]
EXACT = {"atol": 1e-5, "rtol": 1e-5}
TOO_LARGE = "the model's weights are so large that its numbers overflow; train it anew, with a lower learning rate"


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # a review of one word
def test_equals_the_keras_model(model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]) -> None:
    weights, keras_model = random_weights(*model_case), build_classifier(*model_case)
    for variable in keras_model.weights:
        variable.assign(weights[variable.path])
    for given in (padded(RAGGED, 13), padded([[11], []], 1)):
        token_ids = with_characters(given, model_case.config.text.subword_characters)
        expected = np.array(keras_model(token_ids))
        if model_case.num_classes == 2:
            expected = np.concatenate([1.0 - expected, expected], axis=1)
        before = token_ids.copy()
        probabilities = forward.class_probabilities(token_ids, weights, model_case.config)
        assert probabilities.dtype == np.float32
        np.testing.assert_allclose(probabilities, expected, strict=True, **EXACT)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, **EXACT)
        np.testing.assert_array_equal(token_ids, before)
    assert all((weights[path] == weight).all() for path, weight in random_weights(*model_case).items())


@pytest.mark.parametrize(
    "model",
    [
        {"positions": "sinusoidal"},
        {"num_blocks": 2, "num_heads": [3, 1], "key_dim": 3},
        {"positions": "rotary", "key_dim": 4, "max_distance": 37, "num_blocks": 2, "global_every": 2},
        {"positions": "linear_biases", "max_distance": 300, "causal": True},
    ],
    ids=["sinusoidal", "heads-by-block", "rotary-and-local", "linear-biases-local-causal"],
)
def test_reviews_longer_than_a_block_of_queries_equal_the_keras_model(
    model: dict[str, Any], random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    length = 1031
    assert length**2 > SCORE_BLOCK  # not all queries of a head at once
    sizes = {"embed_dim": 6, "num_heads": 2, "feed_forward_dim": 7}
    config = config_from_dict({"text": {"vocabulary_size": 23, "sequence_length": length}, "model": {**sizes, **model}}, "test")
    weights = random_weights(config, 23, 3)
    keras_model = build_classifier(config, 23, 3)
    for variable in keras_model.weights:
        variable.assign(weights[variable.path])
    reviews = [np.random.default_rng(size).integers(1, 23, size).tolist() for size in (length, 513, 5)]
    token_ids = padded(reviews, length)
    probabilities = forward.class_probabilities(token_ids, weights, config)
    np.testing.assert_allclose(probabilities, keras_model(token_ids), **EXACT)
    for block, attention in enumerate(forward.attention_weights(token_ids[:, :549], weights, config)):
        assert attention.shape == (3, config.model.heads[block], 549, 549)
        for review, real in enumerate((549, 513, 5)):  # padding may be further from all words than attention reaches
            np.testing.assert_allclose(attention[review, :, :real].sum(axis=-1), 1.0, **EXACT)
        assert (attention[2, :, :, 5:] == 0).all()


def test_a_high_score_of_padding_leaves_those_of_words_as_they_are() -> None:
    q_BHLK, k_BHMK, v_BHMK = (
        10.0 * np.ones((1, 1, 401, 1), np.float32),
        -10.0 * np.ones((1, 1, 401, 1), np.float32),
        np.zeros((1, 1, 401, 1)),
    )
    k_BHMK[0, 0, 0], v_BHMK[0, 0, 0] = 10.0, 1.0  # the first word, which all words look at
    real_BM, slopes_H = np.arange(401)[None] < 307, np.array([0.5], np.float32)
    mixed_BHLK = NumpyOperations().attention(q_BHLK, k_BHMK, v_BHMK.astype(np.float32), real_BM, 1.0, slopes_H=slopes_H)
    np.testing.assert_allclose(mixed_BHLK[:, :, :307], 1.0, **EXACT)


def test_gelu_is_that_of_scipys_normal_distribution() -> None:
    x = np.linspace(-12, 12, 100_003)
    np.testing.assert_allclose(NumpyOperations().gelu(x.astype(np.float32)), x * ndtr(x), rtol=3e-7, atol=3e-7)


def test_sigmoid_and_softmax_stay_finite() -> None:
    x = np.array([-1e4, -30.0, -0.5, 0.0, 0.5, 30.0, 1e4], dtype=np.float32)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(forward.sigmoid(x), [0.0, math.exp(-30), 0.37754067, 0.5, 0.62245933, 1.0, 1.0], atol=1e-7)
        np.testing.assert_allclose(forward.softmax(x), [0, 0, 0, 0, 0, 0, 1], atol=1e-7)
        np.testing.assert_allclose(forward.softmax(x - 1e4).sum(), 1.0, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_enormous_weights_give_an_answer_or_a_refusal_and_never_a_warning(
    model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]
) -> None:
    token_ids = with_characters(padded(RAGGED, 13), model_case.config.text.subword_characters)
    weights, config = random_weights(*model_case), model_case.config
    refused = set()
    for path, weight in weights.items():
        for size in (1e20, 3e38):
            large = {**weights, path: np.sign(weight) * np.float32(size)}
            for function in (forward.class_probabilities, forward.attention_weights):
                try:
                    found = function(token_ids, large, config)
                except MhaError as error:
                    assert str(error) == TOO_LARGE
                    refused.add(function)
                else:
                    assert all(np.isfinite(numbers).all() for numbers in found)
    assert forward.class_probabilities in refused
