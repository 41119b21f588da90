"""Weights of the classes against scikit-learn's and Keras's."""

import dataclasses

import keras
import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.data.class_weights import loss_weights, never_answered
from mha_cli.data.preparation import PreparedData
from mha_cli.data.targets import one_hot
from mha_cli.model.classifier import build_classifier
from mha_cli.training.run import run_epoch
from mha_cli.training.trainer import Trainer

LABELS = np.random.default_rng(0).choice(5, 211, p=[0.5, 0.3, 0.15, 0.04, 0.01]).astype(np.int32)


def test_balanced_weights_are_scikit_learns() -> None:
    assert sorted(np.bincount(LABELS))[0] < 5
    weights = loss_weights("balanced", one_hot(LABELS, 5))
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", LABELS), rtol=1e-6)
    assert weights.dtype == np.float32
    assert weights.mean() == pytest.approx(1)


def test_balanced_classes_of_weighted_texts_are_those_of_repeated_ones() -> None:
    times = np.random.default_rng(1).integers(1, 4, len(LABELS))
    of_repeated = loss_weights("balanced", one_hot(np.repeat(LABELS, times), 5))
    weighted = loss_weights("balanced", one_hot(LABELS, 5), times.astype(np.float32))
    np.testing.assert_allclose(weighted, np.add.reduceat(of_repeated, np.cumsum(times) - times), rtol=1e-5)


def test_classes_that_are_never_answered() -> None:
    """The last but one has too few texts to tell, and the last has none."""
    labels, names = np.repeat([0, 1, 2, 3], [9, 1_200, 5, 4]), ("spam", "no\nspam", "odd", "few", "none")
    found = "classes that are never the answer: no\\nspam (1,200 texts), odd (5 texts)"
    weights = "training.class_weights=balanced gives rare classes more weight"
    assert never_answered("none", names, labels, np.zeros_like(labels)) == f"{found}; {weights}"
    assert never_answered("balanced", names, labels, np.zeros_like(labels)) == f"{found}; give more texts of rare classes"
    assert never_answered("none", names, labels, np.minimum(labels, 2)) == ""


def test_a_class_without_a_text_leaves_the_others_their_weights() -> None:
    weights = loss_weights("balanced", one_hot(LABELS, 6))
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", LABELS) * 5 / 6, rtol=1e-6)


def test_a_text_of_several_classes_has_the_mean_of_their_weights() -> None:
    targets = np.array([[1, 0], [1, 0], [0.5, 0.5], [0.25, 0.75]], dtype=np.float32)  # 2.75 texts of one class, 1.25 of the other
    first, second = 4 / (2 * 2.75), 4 / (2 * 1.25)
    expected = [first, first, (first + second) / 2, 0.25 * first + 0.75 * second]
    np.testing.assert_allclose(loss_weights("balanced", targets), expected, rtol=1e-6)
    assert np.mean(expected) == pytest.approx(1)


@pytest.mark.usefixtures("untraced")
def test_the_loss_of_weighted_texts_is_the_mean_over_repeated_ones(tiny_config: Config, tiny_data: PreparedData) -> None:
    times = np.random.default_rng(1).integers(1, 4, len(tiny_data.train))
    again = np.repeat(np.arange(len(times)), times)
    training = TrainingConfig.model_validate({"batch_size": len(again), "optimizer": "rmsprop", "learning_rate": 1e-3})
    config = tiny_config.model_copy(update={"training": training})
    weighted = dataclasses.replace(tiny_data, train=dataclasses.replace(tiny_data.train, weights=times.astype(np.float32)))
    repeated = dataclasses.replace(tiny_data, train=tiny_data.train.subset(again), targets=tiny_data.targets[again])
    trainers = [Trainer(config, data) for data in (weighted, repeated)]
    found, expected = (run_epoch(trainer, 1, lambda _: None).loss for trainer in trainers)
    assert found == pytest.approx(expected, abs=1e-5)
    for one, other in zip(*(trainer.optimizer.variables[2:] for trainer in trainers), strict=True):
        np.testing.assert_allclose(np.sqrt(one), np.sqrt(other), atol=1e-5, err_msg=one.path)


@pytest.mark.usefixtures("untraced")
def test_learning_with_balanced_classes_is_keras_with_their_weights(tiny_config: Config, tiny_data: PreparedData) -> None:
    labels = np.arange(len(tiny_data.train), dtype=np.int32) % 11 % 3
    labels[::3] = 0  # most texts
    train, targets = dataclasses.replace(tiny_data.train, labels=labels), one_hot(labels, 3)
    unequal = dataclasses.replace(tiny_data, train=train, targets=targets, class_names=("a", "b", "c"))
    training = {"class_weights": "balanced", "batch_size": 400, "optimizer": "rmsprop", "learning_rate": 1e-3, "label_smoothing": 0.1}
    config = tiny_config.model_copy(update={"training": TrainingConfig.model_validate(training)})
    trainer = Trainer(config, unequal)
    theirs = build_classifier(config, len(unequal.vocabulary), 3)
    theirs.set_weights(trainer.model.get_weights())
    theirs.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.1))
    class_weight = dict(enumerate(compute_class_weight("balanced", classes=np.arange(3), y=labels)))
    expected = theirs.train_on_batch(train.padded(np.arange(len(train))), targets, class_weight=class_weight)
    assert run_epoch(trainer, 1, lambda _: None).loss == pytest.approx(float(expected), abs=1e-5)
    # After one step RMSprop's moments are the squares of the gradients. Those of the embedding table, the first, are not in the trainer's.
    for found, known in zip(trainer.optimizer.variables[2:], theirs.optimizer.variables[3:], strict=True):
        np.testing.assert_allclose(np.sqrt(found), np.sqrt(known), atol=1e-5, err_msg=found.path)
