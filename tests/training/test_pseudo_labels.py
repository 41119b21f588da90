"""Learning from texts without labels, in NumPy; what TensorFlow adds is tested in test_resume_run.py."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config, FilesData, TextConfig
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.ngram_scores.fit import FittedScores
from mha_cli.system.watcher import SILENT, EpochRecord, StepProgress, Watcher
from mha_cli.training import run
from mha_cli.training.distribution import Distribution
from mha_cli.training.loop import fit
from mha_cli.training.optimizers import learning_rate_schedule
from mha_cli.training.pseudo_labels import LABELS, label_in_rounds, with_pseudo_labels
from mha_cli.training.validation import Validation
from tests.training.interruptions import train
from tests.training.numpy_trainer import (
    NUM_TRAIN,
    NUM_UNLABELLED,
    NumpyTrainer,
    numpy_config,
    probabilities_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.checkpoint.file import Checkpoint

pytestmark = pytest.mark.usefixtures("trained_in_numpy")


@pytest.fixture(scope="module")
def config() -> Config:
    return numpy_config(pseudo_labels=1)


def best_of(config: Config, data: PreparedData) -> dict[str, np.ndarray]:
    """The weights of the best epoch of a trainer."""
    kept: list[Checkpoint] = []
    list(fit(NumpyTrainer(config, data), Validation(config, data, None), kept.append))
    return dict(kept[-1].weights)


def probabilities_of_texts(config: Config, data: PreparedData, weights: dict[str, np.ndarray]) -> np.ndarray:
    assert data.unlabelled is not None
    return probabilities_of(data.unlabelled, weights, config.model)


def test_unlabelled_texts_are_read_with_the_vocabulary_of_the_training_part(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"good film {number},{number % 2}\n" for number in range(40)))
    (tmp_path / "more.txt").write_text("a good film unheard\nunheard\n")
    files = FilesData(source="files", train=str(tmp_path / "train.csv"), unlabelled=str(tmp_path / "more.txt"))
    found = prepare(Config(data=files, text=TextConfig(vocabulary_size=50, sequence_length=11)))
    assert "unheard" not in found.vocabulary.tokens
    assert found.unlabelled is not None
    good, film = (2 + found.vocabulary.tokens.index(word) - 2 for word in ("good", "film"))
    assert found.unlabelled.padded(np.arange(2)).tolist() == [[1, good, film, 1], [1, 0, 0, 0]]


def test_unlabelled_texts_bring_their_characters(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"good film {number},{number % 2}\n" for number in range(40)))
    (tmp_path / "more.txt").write_text("a good film unheard\nunheard\n")
    files = {"source": "files", "train": str(tmp_path / "train.csv"), "unlabelled": str(tmp_path / "more.txt")}
    config = config_from_dict(
        {
            "data": files,
            "text": {"vocabulary_size": 50, "sequence_length": 11, "subword_characters": 7},
            "model": {"embed_dim": 12, "num_heads": 2, "feed_forward_dim": 7, "subword_buckets": 41},
            "training": {"epochs": 1, "batch_size": 16, "pseudo_labels": 1},
        },
        "test",
    )
    summary = train(config, tmp_path / "run", data=(found := prepare(config)))
    assert summary.num_train == 36 + 2
    both = with_pseudo_labels(found, found.unlabelled, np.full((2, 2), 0.5, np.float32))
    (tokens,) = both.train.padded(np.array([37]))
    assert (tokens[0, 0], "".join(map(chr, tokens[0, 1:]))) == (1, "<unhear")


def test_the_teachers_probabilities_are_the_targets(data: PreparedData) -> None:
    targets = np.random.default_rng(0).dirichlet([1, 1], NUM_UNLABELLED).astype(np.float32)
    assert data.unlabelled is not None
    both = with_pseudo_labels(data, data.unlabelled, targets)
    assert both.unlabelled is None
    assert both.num_guessed == NUM_UNLABELLED
    assert len(both.train) == NUM_TRAIN + NUM_UNLABELLED
    np.testing.assert_array_equal(both.targets, np.concatenate([data.targets, targets]))
    np.testing.assert_array_equal(both.train.labels, [*data.train.labels, *targets.argmax(axis=1)])
    for row in (0, NUM_TRAIN - 1):
        np.testing.assert_array_equal(both.train.padded(np.array([row])), data.train.padded(np.array([row])))
    for row in (0, 7, NUM_UNLABELLED - 1):
        np.testing.assert_array_equal(both.train.padded(np.array([NUM_TRAIN + row])), data.unlabelled.padded(np.array([row])))
    np.testing.assert_array_equal(both.validation.tokens[:], data.validation.tokens[:])


def test_ngram_scores_learn_from_known_classes_alone(
    config: Config, data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt_from: list[object] = []

    def fit_scores(_: object, data: PreparedData, *__: object) -> FittedScores:
        learnt_from.append(data.train)
        return FittedScores(np.zeros((257, 1), np.float32), np.zeros(1, np.float32), None)

    monkeypatch.setattr(run, "fit_scores", fit_scores)
    scored = config.model_copy(update={"model": config.model.model_copy(update={"score_ngrams": 2, "score_buckets": 257})})
    with pytest.raises(StopIteration):
        train(scored, tmp_path / "run", Watcher(on_epoch=stop_iteration), data)
    assert learnt_from == [data.train]


def stop_iteration(_: EpochRecord) -> None:
    raise StopIteration


def test_the_last_epochs_may_leave_the_guesses_out(config: Config, data: PreparedData) -> None:
    settings = config.training.model_copy(update={"epochs": 3, "labelled_epochs": 1, "schedule": "cosine"})
    both = with_pseudo_labels(data, data.unlabelled, np.full((NUM_UNLABELLED, 2), 0.5, np.float32))
    config = config.model_copy(update={"training": settings})
    trainer = NumpyTrainer(config, both)
    progress: list[StepProgress] = []
    records = list(fit(trainer, Validation(config, both, None), lambda _: None, progress.append))
    rows = [np.sort(np.concatenate(trainer.inputs.batches(epoch))).tolist() for epoch in (1, 2, 3)]
    everything = list(range(NUM_TRAIN + NUM_UNLABELLED))
    assert rows == [everything, everything, list(range(NUM_TRAIN))]
    assert [trainer.position.num_reviews, progress[-1].seconds_left] == [NUM_TRAIN, 0.0]
    for record, num_reviews in zip(records, map(len, rows), strict=True):
        assert record.reviews_per_second == pytest.approx(num_reviews / record.seconds)
    second, done = progress[1], sum(map(len, trainer.inputs.batches(1)[:2]))
    assert second.seconds_left * second.reviews_per_second == pytest.approx(sum(map(len, rows)) - done)
    assert trainer.inputs.num_steps() == len(progress)
    rate = learning_rate_schedule(settings, trainer.inputs.num_steps())
    assert float(rate(len(progress))) == pytest.approx(0, abs=1e-9)  # the schedule ends where the steps do
    assert float(rate(len(progress) - 1)) > 1e-5


def test_no_rounds_leave_the_data_as_they_are(config: Config, data: PreparedData, tmp_path: Path) -> None:
    validation = Validation(config, data, None)
    assert label_in_rounds(data, 0, partial(NumpyTrainer, config), validation, SILENT, tmp_path, Distribution()) is data
    assert list(tmp_path.iterdir()) == []


def test_every_round_learns_from_the_labels_of_the_round_before(config: Config, data: PreparedData, tmp_path: Path) -> None:
    first = probabilities_of_texts(config, data, best_of(config, data))
    second = probabilities_of_texts(config, data, best_of(config, with_pseudo_labels(data, data.unlabelled, first)))
    assert np.abs(first - second).max() > 1e-3

    learnt: list[np.ndarray] = []

    def new_trainer(data: PreparedData) -> NumpyTrainer:
        learnt.append(data.targets)
        return NumpyTrainer(config, data)

    log: list[str] = []
    watcher = dataclasses.replace(SILENT, log=log.append)
    found = label_in_rounds(data, 2, new_trainer, Validation(config, data, None), watcher, tmp_path, Distribution())
    assert [len(targets) for targets in learnt] == [NUM_TRAIN, NUM_TRAIN + NUM_UNLABELLED]
    np.testing.assert_array_equal(learnt[1][NUM_TRAIN:], first)
    np.testing.assert_array_equal(found.targets, np.concatenate([data.targets, second]))
    rounds = [[f"pseudo-labels, round {number} of 2", f"labelling 37 of {NUM_UNLABELLED} texts"] for number in (1, 2)]
    assert [line for line in log if line.startswith(("pseudo-labels", "labelling 37"))] == [*rounds[0], *rounds[1]]
    assert sum(line.startswith("epoch ") for line in log) == 4


def test_a_run_learns_from_the_labels_that_it_keeps(config: Config, data: PreparedData, tmp_path: Path) -> None:
    summary = train(config, tmp_path / "run", data=data)
    assert summary.num_train == NUM_TRAIN + NUM_UNLABELLED
    (kept,) = tmp_path.rglob(LABELS)
    targets = np.load(kept)
    np.testing.assert_array_equal(targets, probabilities_of_texts(config, data, best_of(config, data)))
    student = best_of(config, with_pseudo_labels(data, data.unlabelled, targets))
    for path, weight in read_checkpoint(tmp_path / "run" / CHECKPOINT).weights.items():
        np.testing.assert_array_equal(weight, student[path], err_msg=path)


def test_a_run_that_goes_on_keeps_its_labels(config: Config, data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StopIteration):
        train(config, tmp_path / "run", Watcher(on_epoch=stop_iteration), data)
    (kept,) = tmp_path.rglob(LABELS)
    others = np.random.default_rng(0).dirichlet([1, 1], NUM_UNLABELLED).astype(np.float32)
    np.save(kept, others)
    given: list[np.ndarray] = []

    def trainer(config: Config, data: PreparedData, distribution: Distribution) -> NumpyTrainer:
        given.append(data.targets[NUM_TRAIN:])
        return NumpyTrainer(config, data)

    monkeypatch.setattr(run, "Trainer", trainer)
    assert train(config, tmp_path / "run", data=data, resume=True).epochs_run == 2
    (targets,) = given
    np.testing.assert_array_equal(targets, others)
