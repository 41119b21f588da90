"""An encoder, alone or stacked with a linear model, gives the stacked probabilities, as Keras and NumPy compute them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config
from mha_cli.linear.composition import compose, decompose
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.stacking import Stack, fit_stack, probabilities_of
from mha_cli.model.classifier import build_classifier
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime import forward
from mha_cli.runtime.metrics import calibration_error, mean_loss_and_accuracy
from mha_cli.system.callbacks import EpochRecord
from mha_cli.text.vocabulary import Vocabulary
from mha_cli.training.f1_thresholds import f1_thresholds
from mha_cli.training.validation import Validation
from tests.reviews import encoded
from tests.training.numpy_trainer import NumpyTrainer

WORDS = 27  # of the vocabulary, besides the two special ids


def a_config(windows: list[int] | None) -> Config:
    linear = None if windows is None else {"max_ngram": 2, "buckets": 64, "context_windows": windows}
    model = {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17}
    return config_from_dict({"text": {"vocabulary_size": 29, "sequence_length": 13}, "model": model, "linear": linear}, "test")


def some_data(num_classes: int) -> PreparedData:
    rng = np.random.default_rng(0)
    texts = [rng.integers(1, 2 + WORDS, rng.integers(0, 10)).tolist() for _ in range(60)]
    validation = encoded(texts, rng.integers(0, num_classes, 60).tolist())
    names = tuple("abcdefg"[:num_classes])
    words = Vocabulary(list(map(str, range(WORDS))))
    return PreparedData(a_config([]), validation, validation, words, names)


def a_trainer(config: Config, data: PreparedData, scale: float = 1.0) -> NumpyTrainer:
    trainer = NumpyTrainer(config, data)
    layer, *others = trainer.arrays()
    trainer.set_arrays([(scale * np.random.default_rng(1).normal(size=layer.shape)).astype(np.float32), *others])
    return trainer


def kept(validation: Validation, trainer: NumpyTrainer) -> tuple[tuple[float, float], Checkpoint]:
    """The score, and the checkpoint of what was scored."""
    score = validation.score(trainer)
    record = EpochRecord(1, 0.0, 0.0, score.loss, score.accuracy, 0.0, 0.0, best=True)
    return (score.loss, score.accuracy), validation.checkpoint(trainer.weights(), record, score)


def random_linear_model(of_layer: dict[str, Any], num_classes: int) -> LinearModel:
    """One with a bias, which no weight of the layer holds."""
    bias = np.random.default_rng(2).normal(size=1 if num_classes == 2 else num_classes).astype(np.float32)
    return LinearModel(of_layer["linear/table"], bias, of_layer.get("linear/context_weights"))


@pytest.mark.parametrize("windows", [[], [3]])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_the_composed_classifier_gives_the_stacked_probabilities(
    num_classes: int, windows: list[int], random_weights: Callable[..., Any]
) -> None:
    config, data = a_config(windows), some_data(num_classes)
    trainer = a_trainer(config, data)
    weights_of_all = random_weights(config, 2 + WORDS, num_classes)
    fitted = random_linear_model(weights_of_all, num_classes)
    token_ids, labels = data.validation.padded(np.arange(60)), data.validation.labels

    encoder = trainer.logits(data.validation)
    scores = forward.ForwardPass(weights_of_all, config).linear_logits(token_ids) + fitted.bias
    stack = fit_stack(encoder, scores, labels)
    expected = probabilities_of(stack.logits(encoder, scores))
    assert np.abs(expected - probabilities_of(encoder)).max() > 0.1

    validation = Validation(config, data, fitted)
    np.testing.assert_allclose(validation.linear_NU, scores, atol=1e-5)
    score, checkpoint = kept(validation, trainer)
    assert score == pytest.approx(mean_loss_and_accuracy(expected, labels), abs=1e-4)
    composed = checkpoint.weights
    assert {path: (weight.shape, weight.dtype) for path, weight in composed.items()} == {
        path: (weight.shape, np.float32) for path, weight in weights_of_all.items()
    }
    np.testing.assert_allclose(forward.class_probabilities(token_ids, composed, config), expected, atol=1e-4)
    keras_model = build_classifier(config, 2 + WORDS, num_classes)
    for weight in keras_model.weights:
        weight.assign(composed[weight.path])
    units = scores.shape[1]
    np.testing.assert_allclose(np.array(keras_model(token_ids))[:, -units:], expected[:, -units:], atol=1e-4)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_an_encoder_alone_is_kept_with_a_scale_and_a_shift(num_classes: int) -> None:
    config, data = a_config(None), some_data(num_classes)
    trainer = a_trainer(config, data)
    token_ids, labels = data.validation.padded(np.arange(60)), data.validation.labels
    said = trainer.logits(data.validation)
    encoder, expected = probabilities_of(said), probabilities_of(fit_stack(said, None, labels).logits(said))
    assert (expected.argmax(axis=1) != encoder.argmax(axis=1)).any()

    taught_by = LinearModel(np.zeros((64, 1), np.float32), np.zeros(1, np.float32), None)  # and refitted, as a run may have been told to
    validation = Validation(config, data, taught_by, taught_by)
    (loss, accuracy), checkpoint = kept(validation, trainer)
    assert (loss, accuracy) == pytest.approx(mean_loss_and_accuracy(expected, labels))
    assert loss < mean_loss_and_accuracy(encoder, labels)[0]
    np.testing.assert_allclose(forward.class_probabilities(token_ids, checkpoint.weights, config), expected, atol=1e-5)
    assert {weight.dtype for weight in checkpoint.weights.values()} == {np.dtype(np.float32)}
    assert checkpoint.metrics == {
        "epoch": 1,
        "validation_accuracy": accuracy,
        "validation_loss": loss,
        "labelled_texts": 120,
        "calibration_error_before": pytest.approx(calibration_error(encoder, labels)),
        "calibration_error_after": pytest.approx(calibration_error(expected, labels)),
    }


@pytest.mark.parametrize("windows", [None, []])
def test_classes_that_count_alike_do_so_in_the_shift(windows: list[int] | None, random_weights: Callable[..., Any]) -> None:
    """Of an encoder that tells the classes not at all: what is most probable is what is most frequent, or neither."""
    config, data = a_config(windows), some_data(2)
    labels = (np.arange(60) < 9).astype(np.int32)
    validation = dataclasses.replace(data.validation, labels=labels)
    data = dataclasses.replace(data, validation=validation)
    nothing = LinearModel(np.zeros((64, 1), np.float32), np.zeros(1, np.float32), None)
    answers = []
    for class_weights in ("none", "balanced"):
        weighed = config.changed(training={"class_weights": class_weights})
        _, checkpoint = kept(Validation(weighed, data, None if windows is None else nothing), NumpyTrainer(weighed, data))
        answers.append(forward.class_probabilities(validation.padded(np.arange(60)), checkpoint.weights, config)[:, 1])
    assert answers[0].max() < 0.4
    np.testing.assert_allclose(answers[1], 0.5, atol=1e-3)


def test_logits_that_a_probability_cannot_tell_apart_are_judged_as_they_are_kept() -> None:
    """A probability of float32 ends at a logit of 16; some logits here are beyond."""
    config, data = a_config(None), some_data(2)
    trainer = a_trainer(config, data, scale=30)
    assert np.abs(trainer.logits(data.validation)).max() > 50
    score, checkpoint = kept(Validation(config, data, None), trainer)
    answers = forward.class_probabilities(data.validation.padded(np.arange(60)), checkpoint.weights, config)
    assert score == pytest.approx(mean_loss_and_accuracy(answers, data.validation.labels), abs=1e-5)


def test_what_is_kept_is_not_what_is_scored(random_weights: Callable[..., Any]) -> None:
    """Scores that have learnt from the validation part would look better on it than they are."""
    config, data = a_config([]), some_data(3)
    fitted = random_linear_model(random_weights(config, 2 + WORDS, 3), 3)
    refitted, trainer = LinearModel(2 * fitted.table, fitted.bias + 1, None), NumpyTrainer(config, data)
    (score, alone), (other_score, other) = (kept(Validation(config, data, fitted, model), trainer) for model in (None, refitted))
    assert (score, alone.metrics) == (other_score, other.metrics)
    np.testing.assert_array_equal(other.weights["linear/table"], refitted.table)
    different = [path for path, weight in alone.weights.items() if not np.array_equal(weight, other.weights[path])]
    assert sorted(different) == ["classifier/bias", "linear/table"]
    linear_weight = alone.weights["classifier/kernel"][-3:].diagonal()
    np.testing.assert_allclose(other.weights["classifier/bias"] - alone.weights["classifier/bias"], linear_weight, rtol=1e-4)


def test_scores_that_do_not_count_leave_the_encoder_as_it_is(random_weights: Callable[..., Any]) -> None:
    config = a_config([3])
    encoder = random_weights(a_config(None), 2 + WORDS, 3)
    of_scores = random_weights(config, 2 + WORDS, 3)
    fitted = random_linear_model(of_scores, 3)
    composed = compose(encoder, fitted, Stack(1.0, 0.0, np.zeros(3, np.float32)))
    token_ids = some_data(3).validation.padded(np.arange(60))
    np.testing.assert_allclose(
        forward.class_probabilities(token_ids, composed, config),
        forward.class_probabilities(token_ids, encoder, a_config(None)),
        atol=1e-6,
    )
    again, found = decompose(composed)
    assert again.keys() == encoder.keys()
    for path, weight in encoder.items():
        np.testing.assert_array_equal(again[path], weight, err_msg=path)
    assert found is not None
    assert (found.table is fitted.table, found.context_weights is fitted.context_weights) == (True, True)


def test_the_thresholds_of_several_labels_are_for_macro_f1() -> None:
    data = some_data(3)
    labels = data.validation.labels[:, None] == np.arange(3)
    data = dataclasses.replace(data, validation=dataclasses.replace(data.validation, labels=labels))
    config = a_config(None).model_copy(update={"task": "multi-label"})
    trainer = a_trainer(config, data)
    encoder = trainer.logits(data.validation)
    probabilities = probabilities_of(fit_stack(encoder, None, labels).logits(encoder), several=True)
    (_, accuracy), checkpoint = kept(Validation(config, data, None), trainer)
    expected = f1_thresholds(probabilities, labels)
    assert list(checkpoint.thresholds.values()) == pytest.approx(expected.tolist(), rel=1e-5)
    assert accuracy == mean_loss_and_accuracy(probabilities, labels, expected)[1]
