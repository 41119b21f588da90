"""Learning from a teacher and from texts without labels: the targets, the run, and a checkpoint that stands without them."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli import load
from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.config.settings import Config
from mha_cli.corpus.corpus import Corpus
from mha_cli.errors import MhaError
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, linear_logits, refit_linear_model
from mha_cli.linear.stacking import fit_stack, probabilities_of
from mha_cli.preparation.made_texts import MADE_PER_TEXT, made_texts
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.system.callbacks import SILENT, Callbacks, StepProgress
from mha_cli.training.before_encoder import fit_before_encoder, with_taught
from mha_cli.training.distribution import Distribution
from mha_cli.training.learner import targets_of
from mha_cli.training.optimizers import learning_rate_schedule
from mha_cli.training.progress import Progress
from mha_cli.training.run import fit
from mha_cli.training.validation import Validation
from tests.training.interruptions import assert_same_run, train
from tests.training.numpy_trainer import NUM_TRAIN, NUM_UNLABELLED, NumpyTrainer, numpy_config

pytestmark = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")  # a user would see it

HALF_PRECISION = 1e-3  # of a teacher's answers


def all_targets(data: PreparedData) -> Floats:
    return targets_of(data, np.arange(len(data.train)))


def write_texts(folder: Path, classes: int, unlabelled: bool, keep: bool = False, refit: bool = False, several: bool = False) -> Config:
    """Texts of which a word says the class but for one in ten, and a config that learns from them; ``several`` adds a label to some."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for number in range(120):
        label = number % classes
        said = rng.integers(classes) if rng.random() < 0.1 else label
        lines.append(f"{' '.join(rng.choice(['a', 'b', 'c', 'd'], 6))} says{said},{label}{'|9' * (several and number % 4 == 0)}")
    (folder / "train.csv").write_text("\n".join(lines))
    data: dict[str, Any] = {"source": "files", "train": str(folder / "train.csv"), "text_column": "text", "label_column": "label"}
    data |= {"label_separator": "|"} if several else {}
    training: dict[str, Any] = {"epochs": 2, "batch_size": 16, "learning_rate": 0.02, "teacher": "linear"}
    training |= {"keep_linear": keep, "refit_linear": refit}
    if unlabelled:
        (folder / "more.txt").write_text("".join(f"a d c says{number % classes}\n" for number in range(9)))
        data["unlabelled"], training["finetune_epochs"] = str(folder / "more.txt"), 1
    model = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8}
    linear = {"max_ngram": 2, "buckets": 512, "context_windows": [2], "ngram_embeddings": unlabelled}
    text = {"vocabulary_size": 50, "sequence_length": 9}
    return config_from_dict({"data": data, "text": text, "model": model, "linear": linear, "training": training}, "test")


@pytest.mark.parametrize(("classes", "several"), [(2, False), (3, True), pytest.param(3, False, marks=pytest.mark.exhaustive)])
def test_targets_are_half_label_and_half_what_scores_from_other_texts_say(tmp_path: Path, classes: int, several: bool) -> None:
    data = prepare(write_texts(tmp_path, classes, unlabelled=True, several=several))
    config = data.config
    fitted, scores = cross_fit_linear_model(config, data)
    stack = fit_stack(np.zeros_like(scores), scores, data.train.labels)

    def said(scores: Floats) -> Floats:
        return probabilities_of(stack.logits(np.zeros_like(scores), scores), several)

    found = fit_before_encoder(config, data, tmp_path / "no-run", SILENT, Distribution())[0]
    labelled, guessed = np.split(all_targets(found), [len(data.train)])
    np.testing.assert_allclose(labelled, (all_targets(data) + said(scores)) / 2, atol=HALF_PRECISION)
    assert data.unlabelled is not None
    np.testing.assert_allclose(guessed, said(linear_logits(config, data, data.unlabelled, fitted)), atol=HALF_PRECISION)
    assert (guessed.argmax(axis=1) == np.arange(9) % classes).all()
    assert (found.num_guessed, found.unlabelled) == (9, None)
    misled = np.flatnonzero(said(scores).argmax(axis=1) != all_targets(data).argmax(axis=1))
    assert len(misled)  # the scores do not repeat the labels
    assert (labelled[misled].max(axis=1) < 0.8).all() or several
    assert (found.train.labels[-9:] == (guessed > 0.5 if several else guessed.argmax(axis=1))).all()


@pytest.mark.usefixtures("trained_in_numpy")
def test_the_encoder_stands_alone_in_the_checkpoint(tmp_path: Path) -> None:
    config = write_texts(tmp_path, 2, unlabelled=True)
    summary = train(config, tmp_path / "run")
    assert summary.num_train == 108 + 9
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config.linear is None
    assert not [path for path in checkpoint.weights if path.startswith("linear/")]
    assert summary.num_parameters == checkpoint.num_weights
    assert 0 <= checkpoint.metrics["calibration_error_after"] <= 1
    assert load_config(summary.checkpoint.with_name("config.yaml")) == config  # the run keeps what it was asked for


@pytest.mark.exhaustive
@pytest.mark.usefixtures("trained_in_numpy")
def test_a_linear_model_is_refitted_and_stays_beside_the_encoder_it_has_taught(tmp_path: Path) -> None:
    config = write_texts(tmp_path, 2, unlabelled=True, keep=True, refit=True)
    summary, data = train(config, tmp_path / "run"), prepare(config)
    expected = refit_linear_model(config, data, fit_linear_model(config, data))
    checkpoint = read_checkpoint(summary.checkpoint)
    assert checkpoint.config == config
    np.testing.assert_allclose(checkpoint.weights["linear/table"], expected.table, atol=1e-6)
    assert expected.context_weights is not None
    np.testing.assert_allclose(checkpoint.weights["linear/context_weights"], expected.context_weights, atol=1e-6)
    assert summary.num_parameters == checkpoint.num_weights
    assert "calibration_error_after" not in checkpoint.metrics  # both together never were anything else


# Texts without labels, in NumPy


def test_texts_without_labels_are_read_as_training_texts(tmp_path: Path) -> None:
    text = {"vocabulary_size": 50, "sequence_length": 11, "subword_characters": 7}
    model = {"embed_dim": 12, "num_heads": 2, "feed_forward_dim": 7, "subword_buckets": 64}
    linear = {"max_ngram": 1, "buckets": 64, "ngram_embeddings": True}
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"good film {number},{number % 2}\n" for number in range(40)))
    (tmp_path / "more.txt").write_text("a good film unheard\nunheard\n")
    data = {"source": "files", "train": str(tmp_path / "train.csv"), "unlabelled": str(tmp_path / "more.txt")}
    found = prepare(config_from_dict({"data": data, "text": text, "model": model, "linear": linear}, "test"))
    good, film = (found.vocabulary.tokens.index(word) for word in ("good", "film"))
    assert found.unlabelled is not None
    assert found.unlabelled.padded(np.arange(2))[..., 0].tolist() == [[1, good, film, 1], [1, 0, 0, 0]]
    both = with_taught(found, np.full((len(found.train) + 2, 2), 0.5, np.float32))
    (tokens,) = both.train.padded(np.array([37]))
    assert (tokens[0, 0], "".join(map(chr, tokens[0, 1:]))) == (1, "<unhear")


def random_answers() -> Floats:
    return np.random.default_rng(0).dirichlet([1, 1], NUM_TRAIN + NUM_UNLABELLED).astype(np.float32)


def test_the_answers_label_the_texts_without_labels(data: PreparedData) -> None:
    answers = random_answers()
    both = with_taught(data, answers)
    assert data.unlabelled is not None
    assert (both.unlabelled, both.num_guessed, len(both.train)) == (None, NUM_UNLABELLED, NUM_TRAIN + NUM_UNLABELLED)
    expected = [*(all_targets(data) + answers[:NUM_TRAIN]) / 2, *answers[NUM_TRAIN:]]
    np.testing.assert_allclose(all_targets(both), expected, atol=HALF_PRECISION)
    np.testing.assert_array_equal(both.train.labels, [*data.train.labels, *answers[NUM_TRAIN:].argmax(axis=1)])
    for part, row, own in ((data.train, 0, 0), (data.unlabelled, NUM_TRAIN, 0), (data.unlabelled, NUM_TRAIN + NUM_UNLABELLED - 1, -1)):
        np.testing.assert_array_equal(both.train.padded(np.array([row])), part.padded(np.array([range(len(part))[own]])))
    assert both.validation is data.validation


@pytest.mark.usefixtures("trained_in_numpy")
def test_the_last_epochs_may_leave_the_guesses_out(data: PreparedData) -> None:
    config = numpy_config(schedule="cosine", teacher="a run").changed(training={"finetune_epochs": 1})
    both = with_taught(data, random_answers())
    trainer = NumpyTrainer(config, both)
    progress: list[StepProgress] = []
    so_far = Progress(trainer)
    records = [record for record, _ in fit(trainer, Validation(config, both, None).score, so_far, progress.append)]
    rows = [np.sort(np.concatenate(trainer.batches(epoch))).tolist() for epoch in (1, 2, 3)]
    everything = list(range(NUM_TRAIN + NUM_UNLABELLED))
    assert rows == [everything, everything, list(range(NUM_TRAIN))]
    assert [so_far.position.num_texts, progress[-1].seconds_left] == [NUM_TRAIN, 0.0]
    for record, num_texts in zip(records, map(len, rows), strict=True):
        assert record.texts_per_second == pytest.approx(num_texts / record.seconds)
    second, done = progress[1], sum(map(len, trainer.batches(1)[:2]))
    assert second.seconds_left * second.texts_per_second == pytest.approx(sum(map(len, rows)) - done)
    assert second.done == pytest.approx(done / sum(map(len, rows)))
    assert progress[-1].done == 1.0
    assert trainer.num_steps() == len(progress)
    rate = learning_rate_schedule(config.training, trainer.num_steps())
    assert float(rate(len(progress))) == pytest.approx(0, abs=1e-9)  # the schedule ends where the steps do
    assert float(rate(len(progress) - 1)) > 1e-5


# A run that teaches


def taught(folder: Path, **training: Any) -> Config:
    """A finished run in NumPy, and the config of a student of it, which reads other words of the same texts."""
    config = write_texts(folder, 3, unlabelled=True, keep=True)
    if not (folder / "run").exists():
        train(config, folder / "run")
    training |= {"teacher": str(folder / "run"), "refit_linear": True}
    return config.changed(text={"vocabulary_size": 6}, training=training).model_copy(update={"seed": 5})


@pytest.mark.exhaustive
@pytest.mark.usefixtures("trained_in_numpy")
def test_the_targets_are_what_predict_says_of_written_and_of_made_texts(tmp_path: Path) -> None:
    config = taught(tmp_path)
    data, runner = prepare(config), load(tmp_path / "run")
    assert data.unlabelled is not None
    found = fit_before_encoder(config, data, tmp_path / "answers.f32", SILENT, Distribution())[0]
    rows = list(csv.DictReader((tmp_path / "train.csv").open()))
    corpus = Corpus((LabelledText(row["text"], row["label"]) for row in rows), config.text, None, "texts")
    kept = corpus.split(config.data.validation_share, config.seed)[0]
    made = list(made_texts([corpus.words(row) for row in kept], config.seed))
    texts = [*(rows[row]["text"] for row in kept), *(tmp_path / "more.txt").read_text().splitlines(), *made]
    said = np.array([[one.probabilities[name] for name in data.class_names] for one in runner.predict(texts)])
    targets = all_targets(found)
    assert len(targets) == len(texts) == len(kept) * (1 + MADE_PER_TEXT) + 9
    np.testing.assert_allclose(targets[: len(kept)], (all_targets(data) + said[: len(kept)]) / 2, atol=HALF_PRECISION)
    np.testing.assert_allclose(targets[len(kept) :], said[len(kept) :], atol=HALF_PRECISION)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("trained_in_numpy")
def test_a_run_that_was_interrupted_asks_its_teacher_once_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_cli.training.computed_once.CHUNK", 64)
    config, seen = taught(tmp_path), list[str]()
    train(config, tmp_path / "whole")

    def watched(stop: bool) -> Callbacks:
        return Callbacks(log=seen.append, count=seen.append, stop=lambda: stop and "answers of 128" in seen[-1])

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "stopped", watched(True))
    train(config, tmp_path / "stopped", watched(False), resume=True)
    asked = [line for line in seen if "the teacher's answers" in line]
    assert len(asked) == len({line.split(" texts,")[0] for line in asked}) > 3  # no chunk twice
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_teacher_of_other_classes_is_refused(tmp_path: Path) -> None:
    config = taught(tmp_path)
    (tmp_path / "train.csv").write_text((tmp_path / "train.csv").read_text().replace(",2", ",x"))
    with pytest.raises(MhaError, match=r"training\.teacher: .+checkpoint\.keras: has other classes than .+: 2, x") as caught:
        prepare(config)
    assert caught.value.hint == "take models of the same classes"
