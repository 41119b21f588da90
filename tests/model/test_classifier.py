from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config
from mha_cli.model.classifier import build_classifier
from tests.reviews import padded

VOCABULARY_SIZE = 23
TEXTS = [[7, 2, 1, 22, 5, 5, 3], [11], [], [4, 9, 13, 2]]
EXACT = {"atol": 1e-5, "rtol": 1e-5}


ORDER: dict[str, dict[str, Any]] = {
    "learned": {"positions": "learned"},
    "sinusoidal": {"positions": "sinusoidal"},
    "ngrams": {"positions": "learned", "max_ngram": 3, "ngram_buckets": 32},
    "none": {"positions": "none"},
}


def small_config(linear: dict[str, Any] | None = None, **model: Any) -> Config:
    sizes = {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17, "num_blocks": 2}
    return config_from_dict({"text": {"sequence_length": 31}, "model": {**sizes, **model}, "linear": linear}, "test")


@pytest.fixture
def make_model(random_weights: Callable[..., dict[str, np.ndarray]]) -> Callable[[Config, int], keras.Model]:
    """A function from a config and the number of classes to a model with random weights."""

    def make(config: Config, num_classes: int = 2) -> keras.Model:
        model = build_classifier(config, VOCABULARY_SIZE, num_classes)
        weights = random_weights(config, VOCABULARY_SIZE, num_classes)
        for variable in model.weights:
            variable.assign(weights[variable.path])
        return model

    return make


def test_is_the_pipeline_and_nothing_else() -> None:
    names = [layer.name for layer in build_classifier(small_config(), VOCABULARY_SIZE, 2).layers]
    assert names == ["token_ids", "embedding", "encoder_0", "encoder_1", "pooling", "dropout", "classifier"]


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # a text of one word
@pytest.mark.parametrize(("words", "normalization"), [*((words, "post") for words in ORDER.values()), (ORDER["ngrams"], "pre")])
def test_padding_changes_nothing(words: dict[str, Any], normalization: str, make_model: Callable[..., keras.Model]) -> None:
    model = make_model(small_config(normalization=normalization, **words), 3)
    classifier = model.get_layer("classifier")
    probabilities_and_pooled = keras.Model(model.input, [model.output, model.get_layer("pooling").output])

    def outputs(token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probabilities, pooled = (np.array(output) for output in probabilities_and_pooled(token_ids))
        return probabilities, pooled @ np.array(classifier.kernel) + np.array(classifier.bias)

    alone = [outputs(padded([text], max(1, len(text)))) for text in TEXTS]
    for length in (7, 31):
        probabilities, logits = outputs(padded(TEXTS, length))
        for row, (expected_probabilities, expected_logits) in enumerate(alone):
            np.testing.assert_allclose(probabilities[row], expected_probabilities[0], **EXACT)
            np.testing.assert_allclose(logits[row], expected_logits[0], **EXACT)


@pytest.mark.parametrize("words", ORDER.values(), ids=ORDER.keys())
def test_only_positions_and_ngrams_let_the_model_read_order(words: dict[str, Any], make_model: Callable[..., keras.Model]) -> None:
    model = make_model(small_config(**words))
    text = [7, 2, 1, 22, 5, 18, 3, 9, 12, 4, 20]
    orders = [np.random.default_rng(seed).permutation(text).tolist() for seed in range(5)]
    probabilities = np.array(model(padded([text, *orders], 13)))
    if words["positions"] == "none":
        np.testing.assert_allclose(probabilities, np.broadcast_to(probabilities[0], probabilities.shape), **EXACT)
    else:
        assert np.abs(probabilities[1:] - probabilities[0]).min() > 1e-4


@pytest.mark.parametrize("which", ["embedding_dropout", "ngram_dropout", "dropout"])
def test_dropout_is_active_only_in_training(which: str, make_model: Callable[..., keras.Model]) -> None:
    off = {"dropout": 0.0, "max_ngram": 2, "ngram_buckets": 32}
    plain, dropping = make_model(small_config(**off)), make_model(small_config(**{**off, which: 0.5}))
    token_ids = padded(TEXTS, 7)
    np.testing.assert_array_equal(dropping(token_ids), plain(token_ids))
    np.testing.assert_array_equal(dropping(token_ids, training=False), plain(token_ids))
    np.testing.assert_array_equal(plain(token_ids, training=True), plain(token_ids))
    without = np.array(plain(token_ids))
    # One draw may happen to spare all that the pooling picks.
    assert any(np.abs(np.array(dropping(token_ids, training=True)) - without).max() > 1e-3 for _ in range(10))
