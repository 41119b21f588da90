"""The training loop against Keras, NumPy and sums done by hand."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.arrays import Array, Float64s, Floats, Int32s, Int64s
from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.errors import EXIT_FAILURE
from mha_cli.model.classifier import build_classifier
from mha_cli.model.outputs import contrastive_loss, cross_entropy
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.metrics import mean_loss_and_accuracy
from mha_cli.sources.targets import one_hot
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.training.learner import targets_of
from mha_cli.training.optimizers import LazyAdam, LazyRMSprop, build_optimizer, learning_rate_schedule
from mha_cli.training.progress import EpochPosition, Progress
from mha_cli.training.run import fit
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Score, Validation
from tests.errors import error_of
from tests.training.epochs import run_epoch, score_of
from tests.training.numpy_trainer import NUM_TRAIN, STEPS, NumpyTrainer, numpy_config, numpy_data


def random_probabilities(num_texts: int, num_classes: int) -> tuple[Floats, Int32s]:
    """Probabilities of every class, the last text's almost certain and wrong, and true classes."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(num_classes), num_texts)
    probabilities[-1] = [1 - 1e-4 * (num_classes - 1)] + [1e-4] * (num_classes - 1)
    labels = rng.integers(0, num_classes, num_texts)
    labels[-1] = num_classes - 1
    return probabilities.astype(np.float32), labels.astype(np.int32)


def smoothed_cross_entropy(probabilities: Array, labels: Array, label_smoothing: float) -> Float64s:
    """- sum over c of q(c) log p(c), where q = (1 - s) [c is true] + s / C."""
    num_classes = probabilities.shape[1]
    targets = np.eye(num_classes)[labels] * (1 - label_smoothing) + label_smoothing / num_classes
    return -(targets * np.log(probabilities.astype(np.float64))).sum(axis=1)


# Loss


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_cross_entropy_with_label_smoothing_by_hand(num_classes: int, label_smoothing: float) -> None:
    probabilities, labels = random_probabilities(17, num_classes)
    outputs = probabilities[:, 1:] if num_classes == 2 else probabilities
    losses = cross_entropy(outputs, one_hot(labels, num_classes), label_smoothing).numpy()
    np.testing.assert_allclose(losses, smoothed_cross_entropy(probabilities, labels, label_smoothing), atol=1e-5, rtol=1e-5)


def test_contrastive_loss_by_hand() -> None:
    features, labels = np.random.default_rng(0).normal(size=(7, 5)), [0, 1, 1, 0, 2, 1, 0]  # the only text of class 2 has no loss
    losses = contrastive_loss(tf.constant(features, tf.float32), one_hot(np.array(labels, np.int32), 3)).numpy()
    for row, (own, loss) in enumerate(zip(features, losses, strict=True)):
        others = [other for other in range(7) if other != row]
        cosines = {other: own @ features[other] / np.linalg.norm(own) / np.linalg.norm(features[other]) for other in others}
        total = sum(math.exp(cosine / 0.1) for cosine in cosines.values())
        alike = [-math.log(math.exp(cosines[other] / 0.1) / total) for other in others if labels[other] == labels[row]]
        assert loss == pytest.approx(np.mean(alike) if alike else 0.0, abs=1e-4)


@pytest.mark.usefixtures("untraced")
def test_few_labels_add_the_contrastive_loss(tiny_config: Config, tiny_data: PreparedData) -> None:
    rows = np.arange(11)
    texts = tiny_data.train.for_encoder.padded(rows)
    configs = [tiny_config.changed(training={"few_labels": few_labels}) for few_labels in (False, True)]
    sums = [Trainer(config, tiny_data).step(rows, texts)[0] for config in configs]
    model = Trainer(tiny_config, tiny_data).model
    features = keras.Model(model.input, model.get_layer("pooling").output)(texts)
    assert sums[1] - sums[0] == pytest.approx(contrastive_loss(features, targets_of(tiny_data, rows)).numpy().sum(), rel=1e-4)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_mean_loss_and_accuracy_by_hand(num_classes: int) -> None:
    probabilities, labels = random_probabilities(17, num_classes)
    loss, accuracy = mean_loss_and_accuracy(probabilities, labels)
    assert loss == pytest.approx(smoothed_cross_entropy(probabilities, labels, 0.0).mean(), abs=1e-5)
    assert accuracy == np.mean([row.tolist().index(max(row)) == label for row, label in zip(probabilities, labels, strict=True)])


@pytest.mark.parametrize("several", [False, True])
def test_mean_loss_and_accuracy_of_weighted_texts(several: bool) -> None:
    probabilities, labels = random_probabilities(17, 3)
    labels = labels[:, None] == np.arange(3) if several else labels
    times = np.random.default_rng(1).integers(1, 4, 17)
    expected = mean_loss_and_accuracy(np.repeat(probabilities, times, axis=0), np.repeat(labels, times, axis=0))
    assert mean_loss_and_accuracy(probabilities, labels, weights=times.astype(np.float32)) == pytest.approx(expected, abs=1e-6)


def test_a_certain_mistake_has_a_finite_loss() -> None:
    loss, accuracy = mean_loss_and_accuracy(np.array([[1, 0], [0, 1]], dtype=np.float32), np.array([1, 1], dtype=np.int32))
    assert (loss, accuracy) == (pytest.approx(-math.log(1e-7) / 2), 0.5)


# Optimizer


MIDDLE = [0.5 * (1 + math.sqrt(0.5)) / 2, 0.25, 0.5 * (1 - math.sqrt(0.5)) / 2]  # a quarter, half and three quarters down half a cosine


@pytest.mark.parametrize(
    ("schedule", "num_steps", "steps", "expected"),
    [
        ("constant", 20, [0, 7, 20], [0.5, 0.5, 0.5]),
        ("cosine", 20, [0, 5, 10, 15, 20], [0.5, *MIDDLE, 0]),
        ("warmup-cosine", 40, [0, 1, 3, 4, 13, 22, 31, 40], [0, 0.125, 0.375, 0.5, *MIDDLE, 0]),
        ("warmup-cosine", 4, [0, 2, 4], [0.5, 0.25, 0]),  # a warm-up that rounds to nothing
    ],
)
def test_learning_rates(schedule: str, num_steps: int, steps: list[int], expected: list[float]) -> None:
    config = TrainingConfig.model_validate({"learning_rate": 0.5, "schedule": schedule})
    optimizer = build_optimizer(config, learning_rate_schedule(config, num_steps))
    for step, rate in zip(steps, expected, strict=True):
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == pytest.approx(rate, abs=1e-6)


def test_lazy_adam_on_all_rows_is_adam() -> None:
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(4, 5, 3)).astype(np.float32)
    ours, theirs = tf.Variable(start), keras.Variable(start)
    lazy, adam = LazyAdam(ours), keras.optimizers.Adam(0.1)
    adam.build([theirs])
    for step, gradient in enumerate(gradients):
        adam.learning_rate = 0.1 / (1.0 + step)
        adam.apply([gradient], [theirs])
        lazy.apply(tf.IndexedSlices(gradient[::-1], np.arange(5)[::-1]), step + 1, 0.1 / (1.0 + step))
    np.testing.assert_allclose(ours.numpy(), np.array(theirs), rtol=1e-5, atol=1e-6)


def test_lazy_rmsprop_is_rmsprop_whenever_a_row_is_touched() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(6, 3)).astype(np.float32)
    ours, theirs = tf.Variable(start), keras.Variable(start)
    lazy, dense = LazyRMSprop(ours), keras.optimizers.RMSprop(0.1)
    dense.build([theirs])
    for step, rows in enumerate(([0, 1, 1], [2], [1, 3, 0], [2, 2, 2], [4], [1, 0, 2, 3], [0])):  # row 5 never, some after a while
        gradient = tf.IndexedSlices(tf.constant(rng.normal(size=(len(rows), 3)), tf.float32), tf.constant(rows), tf.constant([6, 3]))
        dense.learning_rate = 0.1 / (1.0 + step)
        dense.apply([tf.convert_to_tensor(gradient)], [theirs])  # given slices, Keras squares each before they are added up
        lazy.apply(gradient, step + 1, 0.1 / (1.0 + step))
        np.testing.assert_allclose(ours.numpy(), np.array(theirs), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.numpy()[5], start[5])


def test_weight_decay_leaves_biases_and_norms_alone(tiny_config: Config) -> None:
    model = build_classifier(tiny_config, 29, 3)
    rng = np.random.default_rng(0)
    weights = model.trainable_variables
    for weight in weights:
        weight.assign(rng.normal(size=weight.shape))
    before = [weight.numpy() for weight in weights]

    optimizer = build_optimizer(TrainingConfig(learning_rate=0.1), 0.1, is_pretrained=True)
    optimizer.apply([np.zeros(weight.shape, np.float32) for weight in weights], weights)

    decayed = set()
    for weight, old in zip(weights, before, strict=True):
        if weight.path.endswith(("bias", "gamma", "beta")):
            np.testing.assert_array_equal(weight.numpy(), old, err_msg=weight.path)
        else:
            np.testing.assert_allclose(weight.numpy(), old * (1 - 0.1 * 0.01), rtol=1e-5, err_msg=weight.path)
            decayed.add(weight.path)
    assert len(decayed) == 9  # two embeddings, four kernels of the attention, three of other layers


# Training


def test_same_seed_same_numbers_other_seed_other_numbers(tiny_config: Config, tiny_data: PreparedData) -> None:
    """With everything that draws random numbers."""
    dropout = {"dropout": 0.3, "embedding_dropout": 0.1}
    config = tiny_config.changed(model=dropout, training={"word_dropout": 0.2, "epochs": 1})
    first, again, other = (Trainer(config.model_copy(update={"seed": seed}), tiny_data) for seed in (3, 3, 4))
    table = first.weights()["embedding/token_embedding/words"]
    assert (table != other.weights()["embedding/token_embedding/words"]).any()
    assert not np.array_equal(np.concatenate(first.batches(1)), np.concatenate(other.batches(1)))
    assert run_epoch(first, 1).train_loss == run_epoch(again, 1).train_loss
    for path, weight in first.weights().items():
        np.testing.assert_array_equal(weight, again.weights()[path], err_msg=path)


def test_the_loss_falls_and_progress_is_reported() -> None:
    steps: list[StepProgress] = []
    config, data = numpy_config(epochs=8), numpy_data()
    trainer: Any = NumpyTrainer(config, data)
    records = [record for record, _ in fit(trainer, Validation(config, data, None).score, Progress(trainer), steps.append)]

    assert [record.epoch for record in records] == list(range(1, 9))
    assert records[-1].train_loss < 0.9 * records[0].train_loss
    assert records[-1].train_accuracy > 0.7 > records[0].train_accuracy
    bests = [record for record in records if record.best]
    accuracies = [record.validation_accuracy for record in bests]
    assert bests[0] is records[0]
    assert accuracies == sorted(set(accuracies))
    assert accuracies[-1] == max(record.validation_accuracy for record in records)

    assert [(step.epoch, step.step) for step in steps] == [(epoch, step) for epoch in range(1, 9) for step in range(1, STEPS + 1)]
    assert {(step.epochs, step.steps) for step in steps} == {(8, STEPS)}
    ends = steps[STEPS - 1 :: STEPS]
    assert [(step.loss, step.accuracy) for step in ends] == [(record.train_loss, record.train_accuracy) for record in records]
    assert (steps[0].texts_per_second, steps[0].seconds_left) == (None, None)  # it traces the model
    sizes = [len(rows) for epoch in range(1, 9) for rows in trainer.batches(epoch)]
    left = sum(sizes) - np.cumsum(sizes)[1:]
    assert [step.seconds_left * step.texts_per_second for step in steps[1:]] == pytest.approx(left)


def test_a_run_that_goes_on_measures_its_own_steps() -> None:
    steps: list[StepProgress] = []
    trainer: Any = NumpyTrainer(numpy_config(), numpy_data())
    position = EpochPosition(1, 1, 12.0, 9, 16, seconds=1e9)
    assert run_epoch(trainer, 1, steps.append, position).seconds > 1e9
    assert position.num_texts == 16 + NUM_TRAIN - len(trainer.batches(1)[0])
    assert [step.step for step in steps] == list(range(2, STEPS + 1))
    assert steps[0].seconds_left is None
    assert all(step.texts_per_second > 16 / 1e9 * 1000 for step in steps[1:])


def test_a_loss_that_is_no_number_stops_the_run() -> None:
    trainer: Any = NumpyTrainer(numpy_config(), numpy_data())

    def spoil(progress: StepProgress) -> None:
        if progress.step == 2:
            trainer.set_arrays([np.full_like(trainer.arrays()[0], math.nan), *trainer.arrays()[1:]])

    assert error_of(run_epoch, trainer, 2, spoil, exit_code=EXIT_FAILURE) == (
        "the loss is nan at epoch 2, step 3; lower training.learning_rate; the best epoch before it, if any, is kept"
    )


# When to stop, and which epoch is best: no model needed


class Scripted:
    """A trainer of ten texts and its validation, whose scores are given: (loss, accuracy), an epoch each."""

    def __init__(self, scores: list[tuple[float, float]], **settings: object) -> None:
        self.config = Config(training=TrainingConfig.model_validate({"epochs": len(scores)} | settings))
        self.num_epochs, self.scores = len(scores), scores

    def num_texts(self, _: int) -> int:
        return 10

    def batches(self, _: int) -> list[Int64s]:
        return [np.arange(10)]

    def steps(self, epoch: int, batches: list[Int64s]) -> list[tuple[Int64s, None]]:
        self.epoch = epoch
        return [(rows, None) for rows in batches]

    def step(self, *_: object) -> tuple[float, int]:
        return 10 / self.epoch, 5

    def score(self, _: object) -> Score:
        return score_of(*self.scores[self.epoch - 1])


ACCURACIES = [(0.9, 0.5), (0.7, 0.6), (0.5, 0.6), (0.6, 0.55), (0.4, 0.7), (0.3, 0.7)]


def scripted_records(earlier: Sequence[EpochRecord] = (), **settings: object) -> list[EpochRecord]:
    script: Any = Scripted(ACCURACIES, **settings)
    return [record for record, _ in fit(script, script.score, Progress(script, earlier))]


@pytest.mark.parametrize(("monitor", "best"), [("accuracy", [1, 2, 5]), ("loss", [1, 2, 3, 5, 6]), ("last", [6])])
def test_the_monitored_figure_chooses_and_an_equal_one_is_not_better(monitor: str, best: list[int]) -> None:
    records = scripted_records(monitor=monitor)
    assert [record.epoch for record in records if record.best] == best
    assert [(record.validation_loss, record.validation_accuracy) for record in records] == ACCURACIES
    assert (records[0].train_loss, records[0].train_accuracy) == (1.0, 0.5)
    assert records[0].texts_per_second == 10 / records[0].seconds


@pytest.mark.parametrize(("patience", "epochs_run"), [(1, 3), (2, 4), (3, 6), (None, 6)])
def test_patience_counts_epochs_without_a_better_score(patience: int | None, epochs_run: int) -> None:
    assert [record.epoch for record in scripted_records(patience=patience)] == list(range(1, epochs_run + 1))


def test_an_interrupted_run_goes_on_with_its_best_epoch_and_its_patience() -> None:
    whole = scripted_records(patience=2)
    assert [record.epoch for record in whole] == [1, 2, 3, 4]
    for done in range(5):
        rest = scripted_records(whole[:done], patience=2)
        assert [(record.epoch, record.best) for record in rest] == [(record.epoch, record.best) for record in whole[done:]]
