"""Weights of the classes against scikit-learn's and Keras's."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import keras
import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.preparation import PreparedData, one_hot
from mha_cli.model.classifier import build_classifier
from mha_cli.training.run import run_epoch
from mha_cli.training.trainer import Trainer

if TYPE_CHECKING:
    import numpy.typing as npt

LABELS = np.random.default_rng(0).choice(5, 211, p=[0.5, 0.3, 0.15, 0.04, 0.01]).astype(np.int32)


def test_balanced_weights_are_scikit_learns() -> None:
    assert sorted(np.bincount(LABELS))[0] < 5
    weights = loss_weights("balanced", one_hot(LABELS, 5))
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", LABELS), rtol=1e-6)
    assert weights.dtype == np.float32
    assert weights.mean() == pytest.approx(1)


def test_a_class_without_a_text_leaves_the_others_their_weights() -> None:
    weights = loss_weights("balanced", one_hot(LABELS, 6))
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", LABELS) * 5 / 6, rtol=1e-6)


def test_a_text_of_several_classes_has_the_mean_of_their_weights() -> None:
    targets = np.array([[1, 0], [1, 0], [0.5, 0.5], [0.25, 0.75]], dtype=np.float32)  # 2.75 texts of one class, 1.25 of the other
    first, second = 4 / (2 * 2.75), 4 / (2 * 1.25)
    expected = [first, first, (first + second) / 2, 0.25 * first + 0.75 * second]
    np.testing.assert_allclose(loss_weights("balanced", targets), expected, rtol=1e-6)
    assert np.mean(expected) == pytest.approx(1)


@pytest.fixture(scope="module", params=[2, 3])
def unequal(request: pytest.FixtureRequest, tiny_data: PreparedData) -> PreparedData:
    """Texts of which most are of the first class."""
    labels: npt.NDArray[np.int32] = np.arange(len(tiny_data.train), dtype=np.int32) % 11 % request.param
    labels[::3] = 0
    train = dataclasses.replace(tiny_data.train, labels=labels)
    names = ("a", "b", "c")[: request.param]
    return dataclasses.replace(tiny_data, train=train, targets=one_hot(labels, len(names)), class_names=names)


@pytest.mark.usefixtures("untraced")
def test_learning_with_balanced_classes_is_keras_with_their_weights(tiny_config: Config, unequal: PreparedData) -> None:
    training = {"class_weights": "balanced", "batch_size": 400, "optimizer": "rmsprop", "learning_rate": 1e-3, "label_smoothing": 0.1}
    config = tiny_config.model_copy(update={"training": TrainingConfig.model_validate(training)})
    labels, num_classes = unequal.train.labels, len(unequal.class_names)
    trainer = Trainer(config, unequal)
    theirs = build_classifier(config, len(unequal.vocabulary), num_classes)
    theirs.set_weights(trainer.model.get_weights())
    loss = keras.losses.BinaryCrossentropy if num_classes == 2 else keras.losses.CategoricalCrossentropy
    theirs.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss=loss(label_smoothing=0.1))
    class_weight = dict(enumerate(compute_class_weight("balanced", classes=np.arange(num_classes), y=labels)))

    token_ids = unequal.train.padded(np.arange(len(unequal.train)))
    targets = labels[:, None] if num_classes == 2 else one_hot(labels, num_classes)
    expected = theirs.train_on_batch(token_ids, targets, class_weight=class_weight)
    assert run_epoch(trainer, 1, lambda _: None).loss == pytest.approx(float(expected), abs=1e-5)
    # After one step RMSprop's moments are the squares of the gradients. Those of the embedding table, the first, are not in the trainer's.
    for found, known in zip(trainer.optimizer.variables[2:], theirs.optimizer.variables[3:], strict=True):
        np.testing.assert_allclose(np.sqrt(found), np.sqrt(known), atol=1e-5, err_msg=found.path)
