"""The temperature against a search in float64, and what it does to a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from mha_cli.ngram_scores.stacking import SCALE_SPREAD
from mha_cli.runtime import forward
from mha_cli.runtime.metrics import calibration_error, mean_loss_and_accuracy
from mha_cli.system.watcher import EpochRecord
from mha_cli.training.calibration import fit_temperature, tempered, with_temperature
from mha_cli.training.validation import Validation
from tests.training.numpy_trainer import NumpyTrainer, numpy_config, numpy_data

if TYPE_CHECKING:
    import numpy.typing as npt

SURE = 3.0
"""How many times too large the logits are."""


def too_sure(num_reviews: int, num_classes: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Logits of all classes, and labels that come as often as the logits over ``SURE`` say."""
    rng = np.random.default_rng(5)
    logits = SURE * rng.normal(0.0, 0.8, (num_reviews, num_classes))
    labels = [rng.choice(num_classes, p=row) for row in softmax(logits / SURE, axis=1)]
    return logits, np.array(labels, np.int32)


@pytest.mark.parametrize("num_reviews", [7, 101, 4001])
@pytest.mark.parametrize("num_classes", [2, 5])
def test_the_temperature_of_least_loss_and_for_few_texts_near_one(num_classes: int, num_reviews: int) -> None:
    logits, labels = too_sure(num_reviews, num_classes)
    logarithms, rows = np.linspace(-3, 3, 6001), np.arange(num_reviews)
    losses = np.array([-log_softmax(logits / np.exp(x), axis=1)[rows, labels].sum() for x in logarithms])
    alone, expected = (logarithms[np.argmin(losses + pull * logarithms**2)] for pull in (0, 0.5 / SCALE_SPREAD**2))
    found = fit_temperature(softmax(logits, axis=1).astype(np.float32), labels)
    assert np.log(found) == pytest.approx(expected, abs=0.005)
    if num_reviews == 7:
        assert abs(expected) < 0.8 * abs(alone)
    if num_reviews == 4001:
        assert found == pytest.approx(SURE, rel=0.06)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_the_last_layer_divides_its_logits(num_classes: int) -> None:
    rng = np.random.default_rng(1)
    units = 1 if num_classes == 2 else num_classes
    weights = {"classifier/kernel": rng.normal(size=(13, units)), "classifier/bias": rng.normal(size=units), "other": rng.normal(size=3)}
    weights = {path: weight.astype(np.float32) for path, weight in weights.items()}
    features = rng.normal(size=(57, 13)).astype(np.float32)
    before, changed = forward.classify(features, weights), with_temperature(weights, 1.7)
    after = forward.classify(features, changed)
    np.testing.assert_allclose(after, tempered(before, 1.7), atol=2e-6)
    np.testing.assert_array_equal(after.argmax(axis=1), before.argmax(axis=1))
    assert (after.max(axis=1) < before.max(axis=1)).all()
    assert changed["other"] is weights["other"]
    assert {weight.dtype for weight in changed.values()} == {np.dtype(np.float32)}


def test_a_checkpoint_is_as_sure_as_its_temperature_says() -> None:
    config, data = numpy_config(), numpy_data()
    trainer: Any = NumpyTrainer(config, data)
    layer, *others = trainer.arrays()
    trainer.set_arrays([np.random.default_rng(2).normal(0, 1, layer.shape).astype(np.float32), *others])
    labels, validation = data.validation.labels, Validation(config, data, None)
    loss, accuracy = validation.score(trainer)
    encoder = trainer.predict(data.validation)
    assert (loss, accuracy) == pytest.approx(mean_loss_and_accuracy(encoder, labels))
    kept = validation.checkpoint(trainer, EpochRecord(1, 0.0, 0.0, loss, accuracy, 0.0, 0.0, best=True))
    reviews = data.validation
    probabilities = forward.class_probabilities(reviews.padded(np.arange(len(reviews))), kept.weights, config.model)
    temperature = kept.metrics["temperature"]
    assert temperature > 1.5
    np.testing.assert_allclose(probabilities, tempered(encoder, temperature), atol=1e-5)
    assert kept.metrics == {
        "epoch": 1,
        "validation_accuracy": accuracy,
        "validation_loss": pytest.approx(mean_loss_and_accuracy(probabilities, labels)[0], abs=1e-5),
        "temperature": temperature,
        "calibration_error_before": pytest.approx(calibration_error(encoder, labels), abs=1e-5),
        "calibration_error_after": pytest.approx(calibration_error(probabilities, labels), abs=1e-5),
    }
    assert kept.metrics["validation_loss"] < loss
