"""The loop of a training: its figures, when it stops, and which epoch is best."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest

from mha_cli.arrays import Int64s
from mha_cli.config.settings import Config, TrainingConfig
from mha_cli.errors import EXIT_FAILURE
from mha_cli.model.outputs import contrastive_loss
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.training.learner import targets_of
from mha_cli.training.progress import EpochPosition, Progress
from mha_cli.training.run import fit
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Score, Validation
from tests.errors import error_of
from tests.training.epochs import run_epoch, score_of
from tests.training.numpy_trainer import NUM_TRAIN, STEPS, NumpyTrainer, numpy_config, numpy_data


@pytest.mark.usefixtures("untraced")
def test_few_labels_add_the_contrastive_loss(tiny_config: Config, tiny_data: PreparedData) -> None:
    rows = np.arange(11)
    texts = tiny_data.train.for_encoder.padded(rows)
    configs = [tiny_config.changed(training={"few_labels": few_labels}) for few_labels in (False, True)]
    sums = [Trainer(config, tiny_data).step(rows, texts)[0] for config in configs]
    model = Trainer(tiny_config, tiny_data).model
    features = keras.Model(model.input, model.get_layer("pooling").output)(texts)
    assert sums[1] - sums[0] == pytest.approx(contrastive_loss(features, targets_of(tiny_data, rows)).numpy().sum(), rel=1e-4)


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
