"""Learning from texts without labels, in NumPy; where the guesses come from is tested in test_distillation.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.training.distillation import with_guesses
from mha_cli.training.optimizers import learning_rate_schedule
from mha_cli.training.run import fit
from mha_cli.training.validation import Validation
from tests.training.numpy_trainer import NUM_TRAIN, NUM_UNLABELLED, NumpyTrainer, numpy_config

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.system.callbacks import StepProgress


def write_texts(folder: Path) -> dict[str, str]:
    (folder / "train.csv").write_text("text,label\n" + "".join(f"good film {number},{number % 2}\n" for number in range(40)))
    (folder / "more.txt").write_text("a good film unheard\nunheard\n")
    return {"source": "files", "train": str(folder / "train.csv"), "unlabelled": str(folder / "more.txt")}


def test_they_are_read_with_the_vocabulary_of_the_training_part_and_bring_their_characters(tmp_path: Path) -> None:
    config = config_from_dict(
        {
            "data": write_texts(tmp_path),
            "text": {"vocabulary_size": 50, "sequence_length": 11, "subword_characters": 7},
            "model": {
                "embed_dim": 12,
                "num_heads": 2,
                "feed_forward_dim": 7,
                "subword_buckets": 64,
            },
            "linear": {"max_ngram": 1, "buckets": 64, "ngram_embeddings": True},
        },
        "test",
    )
    found = prepare(config)
    good, film = (found.vocabulary.tokens.index(word) for word in ("good", "film"))
    assert found.unlabelled is not None
    assert found.unlabelled.padded(np.arange(2))[..., 0].tolist() == [[1, good, film, 1], [1, 0, 0, 0]]
    both = with_guesses(found, found.unlabelled, np.full((2, 2), 0.5, np.float32))
    (tokens,) = both.train.padded(np.array([37]))
    assert (tokens[0, 0], "".join(map(chr, tokens[0, 1:]))) == (1, "<unhear")


def test_the_guesses_are_the_targets(data: PreparedData) -> None:
    targets = np.random.default_rng(0).dirichlet([1, 1], NUM_UNLABELLED).astype(np.float32)
    assert data.unlabelled is not None
    both = with_guesses(data, data.unlabelled, targets)
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


@pytest.mark.usefixtures("trained_in_numpy")
def test_the_last_epochs_may_leave_the_guesses_out(data: PreparedData) -> None:
    config = numpy_config(schedule="cosine")
    settings = config.training.model_copy(update={"finetune_epochs": 1})
    config = config.model_copy(update={"training": settings})
    both = with_guesses(data, data.unlabelled, np.full((NUM_UNLABELLED, 2), 0.5, np.float32))
    trainer = NumpyTrainer(config, both)
    progress: list[StepProgress] = []
    records = list(fit(trainer, Validation(config, both, None), progress.append))
    rows = [np.sort(np.concatenate(trainer.inputs.batches(epoch))).tolist() for epoch in (1, 2, 3)]
    everything = list(range(NUM_TRAIN + NUM_UNLABELLED))
    assert rows == [everything, everything, list(range(NUM_TRAIN))]
    assert [trainer.position.num_texts, progress[-1].seconds_left] == [NUM_TRAIN, 0.0]
    for record, num_texts in zip(records, map(len, rows), strict=True):
        assert record.texts_per_second == pytest.approx(num_texts / record.seconds)
    second, done = progress[1], sum(map(len, trainer.inputs.batches(1)[:2]))
    assert second.seconds_left * second.texts_per_second == pytest.approx(sum(map(len, rows)) - done)
    assert second.done == pytest.approx(done / sum(map(len, rows)))
    assert progress[-1].done == 1.0
    assert trainer.inputs.num_steps() == len(progress)
    rate = learning_rate_schedule(settings, trainer.inputs.num_steps())
    assert float(rate(len(progress))) == pytest.approx(0, abs=1e-9)  # the schedule ends where the steps do
    assert float(rate(len(progress) - 1)) > 1e-5
