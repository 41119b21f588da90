"""Learning from texts without labels, on a tiny corpus of files."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import Config, FilesData, ModelConfig, TextConfig, TrainingConfig
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.runtime import forward
from mha_cli.system.watcher import SILENT, EpochRecord, StepProgress, Watcher
from mha_cli.training import pseudo_labels as module
from mha_cli.training import run
from mha_cli.training.loop import Trainer, fit
from mha_cli.training.pseudo_labels import pseudo_labels, with_pseudo_labels

if TYPE_CHECKING:
    from pathlib import Path

NUM_TRAIN, NUM_UNLABELLED = 42, 31


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """60 labelled reviews, a quarter of them misleading, and 31 texts of the same words and one more."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)

    def text(label: int) -> str:
        words = rng.choice(["film", "plot", "cast", "scene", "it"], rng.integers(1, 7)).tolist()
        return " ".join([*words, rng.choice(["good", "fine"] if label != (rng.random() < 0.25) else ["bad", "dull"])])

    rows = [f"{text(number % 2)},{['neg', 'pos'][number % 2]}" for number in range(60)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "more.txt").write_text("\n".join(f"{text(number % 2)} unheard" for number in range(NUM_UNLABELLED)) + "\n")
    return Config(
        seed=3,
        data=FilesData(source="files", train=str(folder / "train.csv"), unlabelled=str(folder / "more.txt"), validation_share=0.3),
        text=TextConfig(vocabulary_size=50, sequence_length=11),
        model=ModelConfig(embed_dim=6, num_heads=2, feed_forward_dim=7, score_ngrams=2, score_buckets=257),
        training=TrainingConfig(epochs=2, batch_size=16, learning_rate=0.01, pseudo_labels=1),
    )


@pytest.fixture(scope="module")
def data(config: Config) -> PreparedData:
    return prepare(config)


@pytest.fixture(scope="module")
def finished(config: Config, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    output = tmp_path_factory.mktemp("runs") / "finished"
    summary = run.train(config, output, data=data)
    assert summary.num_train == NUM_TRAIN + NUM_UNLABELLED
    return output


def best_of(trainer: Trainer) -> dict[str, Any]:
    best: dict[str, Any] = {}
    for record in fit(trainer, lambda _: None):
        best = trainer.weights() if record.best else best
    return best


def probabilities_of_texts(config: Config, data: PreparedData, weights: dict[str, Any]) -> np.ndarray:
    """What the NumPy model takes the unlabelled texts for."""
    assert data.unlabelled is not None
    return forward.class_probabilities(data.unlabelled.padded(np.arange(NUM_UNLABELLED)), weights, config.model)


def test_unlabelled_texts_are_read_with_the_vocabulary_of_the_training_part(data: PreparedData) -> None:
    assert data.unlabelled is not None
    assert (len(data.train), len(data.unlabelled)) == (NUM_TRAIN, NUM_UNLABELLED)
    assert "unheard" not in data.vocabulary.tokens
    last = data.unlabelled.offsets[1:] - 1
    assert set(data.unlabelled.token_ids[:][last].tolist()) == {1}
    assert (data.unlabelled.token_ids[:] > 1).any()


def test_the_teachers_probabilities_are_the_targets(data: PreparedData) -> None:
    targets = np.random.default_rng(0).dirichlet([1, 1], NUM_UNLABELLED).astype(np.float32)
    both = with_pseudo_labels(data, targets)
    assert data.unlabelled is not None
    assert both.unlabelled is None
    assert both.num_guessed == NUM_UNLABELLED
    np.testing.assert_array_equal(both.labelled.token_ids[:], data.train.token_ids[:])
    np.testing.assert_array_equal(both.labelled.labels, data.train.labels)
    assert len(both.train) == NUM_TRAIN + NUM_UNLABELLED
    np.testing.assert_array_equal(both.targets, np.concatenate([data.targets, targets]))
    np.testing.assert_array_equal(both.train.labels, [*data.train.labels, *targets.argmax(axis=1)])
    for row in (0, NUM_TRAIN - 1):
        np.testing.assert_array_equal(both.train.padded(np.array([row])), data.train.padded(np.array([row])))
    for row in (0, 7, NUM_UNLABELLED - 1):
        np.testing.assert_array_equal(both.train.padded(np.array([NUM_TRAIN + row])), data.unlabelled.padded(np.array([row])))
    np.testing.assert_array_equal(both.validation.token_ids[:], data.validation.token_ids[:])


def test_ngram_scores_learn_from_known_classes_alone(config: Config, data: PreparedData) -> None:
    upside_down = 1 - Trainer(config, data).data.targets[:NUM_UNLABELLED]
    teacher, student = Trainer(config, data), Trainer(config, with_pseudo_labels(data, upside_down))
    tables = [np.array(trainer.model.get_layer("scores").table) for trainer in (teacher, student)]
    assert tables[0].any()
    np.testing.assert_array_equal(*tables)
    np.testing.assert_array_equal(teacher.validation_scores, student.validation_scores)


def test_the_last_epochs_may_leave_the_guesses_out(config: Config, data: PreparedData) -> None:
    settings = config.training.model_copy(update={"epochs": 3, "labelled_epochs": 1, "schedule": "cosine"})
    both = with_pseudo_labels(data, np.full((NUM_UNLABELLED, 2), 0.5, np.float32))
    trainer = Trainer(config.model_copy(update={"training": settings}), both)
    progress: list[StepProgress] = []
    records = list(fit(trainer, progress.append))
    rows = [np.sort(np.concatenate(trainer.batches(epoch))).tolist() for epoch in (1, 2, 3)]
    everything = list(range(NUM_TRAIN + NUM_UNLABELLED))
    assert rows == [everything, everything, list(range(NUM_TRAIN))]
    assert [trainer.position.num_reviews, progress[-1].seconds_left] == [NUM_TRAIN, 0.0]
    for record, num_reviews in zip(records, map(len, rows), strict=True):
        assert record.reviews_per_second == pytest.approx(num_reviews / record.seconds)
    second = progress[1]  # of batches of 16
    assert second.seconds_left * second.reviews_per_second == pytest.approx(sum(map(len, rows)) - 2 * 16)
    assert float(trainer.optimizer.learning_rate) == pytest.approx(0, abs=1e-9)  # the schedule ends where the steps do


def test_without_unlabelled_texts_there_is_nothing_to_label(config: Config, data: PreparedData, tmp_path: Path) -> None:
    nothing = dataclasses.replace(data, unlabelled=None)
    with pytest.raises(ValueError, match=r"^there are no unlabelled texts$"):
        pseudo_labels(config, nothing, SILENT, tmp_path)
    with pytest.raises(ValueError, match=r"^there are no unlabelled texts$"):
        with_pseudo_labels(nothing, data.targets)


def test_every_round_learns_from_the_labels_of_the_round_before(
    config: Config, data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = probabilities_of_texts(config, data, best_of(Trainer(config, data)))
    second = probabilities_of_texts(config, data, best_of(Trainer(config, with_pseudo_labels(data, first))))
    assert np.abs(first - second).max() > 1e-3

    learnt: list[np.ndarray] = []
    monkeypatch.setattr(module, "Trainer", lambda config, data, tell: learnt.append(data.targets) or Trainer(config, data, tell))
    two_rounds = config.model_copy(update={"training": config.training.model_copy(update={"pseudo_labels": 2})})
    told: list[str] = []
    found = pseudo_labels(two_rounds, data, dataclasses.replace(SILENT, log=told.append), tmp_path)
    assert [len(targets) for targets in learnt] == [NUM_TRAIN, NUM_TRAIN + NUM_UNLABELLED]
    np.testing.assert_allclose(learnt[1][NUM_TRAIN:], first, atol=1e-5)
    np.testing.assert_allclose(found, second, atol=1e-4)
    assert [line for line in told if line.startswith("pseudo-labels")] == [f"pseudo-labels, round {number} of 2" for number in (1, 2)]


def test_a_run_learns_from_the_labels_that_it_keeps(config: Config, data: PreparedData, finished: Path) -> None:
    (kept,) = finished.rglob(module.LABELS)
    targets = np.load(kept)
    np.testing.assert_allclose(targets, probabilities_of_texts(config, data, best_of(Trainer(config, data))), atol=1e-5)
    student = best_of(Trainer(config, with_pseudo_labels(data, targets)))
    for path, weight in read_checkpoint(finished / "checkpoint.keras").weights.items():
        np.testing.assert_array_equal(weight, student[path], err_msg=path)


def test_an_interrupted_run_goes_on_with_the_same_labels(
    config: Config, data: PreparedData, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: EpochRecord) -> None:
        raise KeyboardInterrupt

    output = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run.train(config, output, Watcher(on_epoch=stop), data)
    (kept,), (expected,) = output.rglob(module.LABELS), finished.rglob(module.LABELS)
    shutil.copy(expected, kept)  # the same but for rounding errors; from here on nothing may differ

    def no_teacher(*_: object) -> None:
        raise AssertionError("the labels are made anew")

    monkeypatch.setattr(module, "Trainer", no_teacher)
    assert run.train(config, output, data=data, resume=True).epochs_run == 2
    expected_weights = read_checkpoint(finished / "checkpoint.keras").weights
    for path, weight in read_checkpoint(output / "checkpoint.keras").weights.items():
        np.testing.assert_array_equal(weight, expected_weights[path], err_msg=path)
