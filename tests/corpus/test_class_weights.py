"""Weights of the classes against scikit-learn's and Keras's."""

import dataclasses

import keras
import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from mha_cli.arrays import Floats, Int32s
from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.corpus.class_weights import loss_weights, never_answered
from mha_cli.model.classifier import build_classifier
from mha_cli.preparation.prepare import PreparedData
from mha_cli.sources.targets import one_hot
from mha_cli.training.trainer import Trainer
from tests.reviews import encoded
from tests.training.epochs import run_epoch

LABELS = np.random.default_rng(0).choice(5, 211, p=[0.5, 0.3, 0.15, 0.04, 0.01]).astype(np.int32)


def balanced(labels: Int32s, num_classes: int, of_texts: Floats | None = None) -> Floats:
    texts = dataclasses.replace(encoded([[2]] * len(labels), labels.tolist()), weights=of_texts)
    return loss_weights(Config(training=TrainingConfig(class_weights="balanced")), texts, num_classes)


@pytest.mark.parametrize("num_classes", [5, 6])
def test_balanced_weights_are_scikit_learns_and_a_class_without_a_text_leaves_them(num_classes: int) -> None:
    assert sorted(np.bincount(LABELS))[0] < 5
    weights = balanced(LABELS, num_classes)
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", LABELS) * 5 / num_classes, rtol=1e-6)
    assert weights.dtype == np.float32
    assert weights.mean() == pytest.approx(5 / num_classes)


def test_balanced_classes_of_weighted_texts_are_those_of_repeated_ones() -> None:
    times = np.random.default_rng(1).integers(1, 4, len(LABELS))
    of_repeated = balanced(np.repeat(LABELS, times), 5)
    weighted = balanced(LABELS, 5, times.astype(np.float32))
    np.testing.assert_allclose(weighted, np.add.reduceat(of_repeated, np.cumsum(times) - times), rtol=1e-5)


def test_classes_that_are_never_answered() -> None:
    """The last but one has too few texts to tell, and the last has none."""
    labels, names = np.repeat([0, 1, 2, 3], [9, 1_200, 5, 4]), ("spam", "no\nspam", "odd", "few", "none")
    found = "classes that are never the answer: no\\nspam (1,200 texts), odd (5 texts)"
    weights = "training.class_weights=balanced gives rare classes more weight"
    assert never_answered("none", names, labels, np.zeros_like(labels)) == f"{found}; {weights}"
    assert never_answered("balanced", names, labels, np.zeros_like(labels)) == f"{found}; give more texts of rare classes"
    assert never_answered("none", names, labels, np.minimum(labels, 2)) == ""


@pytest.mark.usefixtures("untraced")
def test_the_loss_of_weighted_texts_is_the_mean_over_repeated_ones(tiny_config: Config, tiny_data: PreparedData) -> None:
    times = np.random.default_rng(1).integers(1, 4, len(tiny_data.train))
    again = np.repeat(np.arange(len(times)), times)
    training = TrainingConfig.model_validate({"batch_size": len(again), "optimizer": "rmsprop", "learning_rate": 1e-3})
    config = tiny_config.model_copy(update={"training": training})
    weighted = dataclasses.replace(tiny_data, train=dataclasses.replace(tiny_data.train, weights=times.astype(np.float32)))
    repeated = dataclasses.replace(tiny_data, train=tiny_data.train.subset(again))
    trainers = [Trainer(config, data) for data in (weighted, repeated)]
    found, expected = (run_epoch(trainer, 1).train_loss for trainer in trainers)
    assert found == pytest.approx(expected, abs=1e-5)
    for one, other in zip(*(trainer.optimizer.variables[2:] for trainer in trainers), strict=True):
        np.testing.assert_allclose(np.sqrt(one), np.sqrt(other), atol=1e-5, err_msg=one.path)


@pytest.mark.usefixtures("untraced")
def test_learning_with_balanced_classes_is_keras_with_their_weights(tiny_config: Config, tiny_data: PreparedData) -> None:
    labels = np.arange(len(tiny_data.train), dtype=np.int32) % 11 % 3
    labels[::3] = 0  # most texts
    train = dataclasses.replace(tiny_data.train, labels=labels)
    unequal = dataclasses.replace(tiny_data, train=train, class_names=("a", "b", "c"))
    training = {"class_weights": "balanced", "batch_size": 400, "optimizer": "rmsprop", "learning_rate": 1e-3, "label_smoothing": 0.1}
    config = tiny_config.model_copy(update={"training": TrainingConfig.model_validate(training)})
    trainer = Trainer(config, unequal)
    theirs = build_classifier(config, len(unequal.vocabulary), 3)
    theirs.set_weights(trainer.model.get_weights())
    theirs.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.1))
    class_weight = dict(enumerate(compute_class_weight("balanced", classes=np.arange(3), y=labels)))
    expected = theirs.train_on_batch(train.padded(np.arange(len(train))), one_hot(labels, 3), class_weight=class_weight)
    assert run_epoch(trainer, 1).train_loss == pytest.approx(float(expected), abs=1e-5)
    # After one step RMSprop's moments are the squares of the gradients. Those of the embedding table, the first, are not in the trainer's.
    for found, known in zip(trainer.optimizer.variables[2:], theirs.optimizer.variables[3:], strict=True):
        np.testing.assert_allclose(np.sqrt(found), np.sqrt(known), atol=1e-5, err_msg=found.path)
