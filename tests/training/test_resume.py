"""An interrupted run that goes on ends as a run that was never interrupted, bit for bit; in NumPy at every point, in TensorFlow once."""

import dataclasses
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict, config_to_dict, load_config
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runs import CHECKPOINT, CONFIG, STATE, TEXTS, has_state
from mha_cli.system.callbacks import SILENT, StepProgress
from mha_cli.training.distribution import Distribution
from mha_cli.training.progress import Progress, restore_state, save_state
from tests.checkpoints import damaged
from tests.cli.command import TIMEOUT, start_module
from tests.errors import error_of
from tests.training import kills
from tests.training.interruptions import assert_same_run, interrupt, train
from tests.training.numpy_trainer import EPOCHS, STEPS, NumpyTrainer, numpy_config

pytestmark = pytest.mark.usefixtures("trained_in_numpy")


@pytest.fixture(scope="module")
def config() -> Config:
    return numpy_config()


@pytest.fixture(scope="module")
def whole(config: Config, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    steps: list[StepProgress] = []
    summary = train(config, output, dataclasses.replace(SILENT, on_step=steps.append), data)
    figures = ("epoch", "validation_accuracy", "validation_loss")
    assert [summary.metrics[figure] for figure in figures] == [getattr(summary.best, figure) for figure in figures]
    assert [step.steps for step in steps] == [STEPS] * EPOCHS * STEPS
    return output


def test_stopped_after_every_step_and_gone_on_with(config: Config, data: PreparedData, whole: Path, tmp_path: Path) -> None:
    """Once from the beginning to each step, and once one step at a time."""
    for stop in range(1, EPOCHS * STEPS + 1):
        output = tmp_path / f"run-{stop}"
        interrupt(config, output, stop, data)
        assert has_state(output)
        train(config, output, data=data, resume=True)
        assert_same_run(whole, output)
    again = tmp_path / "again"
    firsts = [interrupt(config, again, 1, data, resume=stop > 0) for stop in range(EPOCHS * STEPS)]
    assert [(first.epoch, first.step) for first in firsts] == [(1 + stop // STEPS, 1 + stop % STEPS) for stop in range(EPOCHS * STEPS)]
    train(config, again, data=data, resume=True)
    assert_same_run(whole, again)


@pytest.mark.process
def test_killed_before_every_rename(tmp_path: Path) -> None:
    out, err = start_module("tests.training.kills", tmp_path).communicate(timeout=TIMEOUT)
    found = json.loads(out or err)
    assert found["faults"] == []
    renames = Counter(found["renames"])
    assert renames.pop(CHECKPOINT) >= 1  # the first epoch is the best so far
    of_states = kills.EPOCHS * (STEPS + 1)  # after every step, and after every epoch again
    # The config as it is given, and as the data decide it.
    assert renames == {"config.yaml": 2, TEXTS.name: 1, STATE.name: of_states, "history.jsonl": kills.EPOCHS, "metrics.json": 1}


@pytest.fixture(scope="module")
def stopped(config: Config, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its second epoch, to be copied."""
    output = tmp_path_factory.mktemp("stopped") / "run"
    interrupt(config, output, STEPS + 2, data)
    return output


def test_a_state_that_unpacks_to_more_than_it_has(config: Config, data: PreparedData, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    np.savez_compressed(path, history=np.array("{}"), variable_0=np.zeros(1_000_000))
    said = error_of(restore_state, path, NumpyTrainer(config, data), Distribution())
    assert said == f"{path}: cannot be resumed from: its arrays are larger than the file; train anew in another folder"


def test_a_state_of_another_model(config: Config, data: PreparedData, tmp_path: Path) -> None:
    trainer = NumpyTrainer(config, data)
    arrays = trainer.arrays()
    doubled = arrays[0].astype(np.float64)
    for other in (arrays[:-1], [*arrays, arrays[0]], [arrays[0][:-1], *arrays[1:]], [doubled, *arrays[1:]]):
        trainer.set_arrays(arrays)
        trainer.arrays = lambda other=other: other  # type: ignore[method-assign]
        save_state(tmp_path / "state.npz", Progress(trainer))
        with pytest.raises(MhaError, match=r"belongs to other texts, or to another version of mha; train anew in another folder$"):
            restore_state(tmp_path / "state.npz", NumpyTrainer(config, data), Distribution())


def test_a_state_that_is_damaged_anywhere_is_refused_or_harmless(config: Config, data: PreparedData, stopped: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(stopped / STATE, tmp_path))
    whole, trainer, rng = path.read_bytes(), NumpyTrainer(config, data), random.Random(0)
    restore_state(path, trainer, Distribution())
    expected = trainer.arrays()
    refused = 0
    for _ in range(300):
        path.write_bytes(damaged(whole, rng, end=2000))
        try:
            restore_state(path, trainer, Distribution())
        except MhaError as error:
            refused += 1
            assert str(error).isprintable()
            assert "state.npz: " in str(error)
        else:
            for array, value in zip(trainer.arrays(), expected, strict=True):
                np.testing.assert_array_equal(array, value)
    assert refused > 150


@pytest.fixture(scope="module")
def undecided(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Forty texts, and all that follows from them left open."""
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [f"{'fine' if number % 2 else 'dull'}ness of film{number % 7},{number % 2}" for number in range(39)]
    path.write_text("\n".join(["text,label", *rows, "what else,odd"]) + "\n")
    named = {
        "data": {"source": "files", "train": str(path)},
        "model": {"embed_dim": 12, "num_heads": 2, "feed_forward_dim": 7, "max_ngram": 2},
        "linear": {"max_ngram": 2},
        "training": {"epochs": 2, "monitor": "last", "refit_linear": True, "few_labels": True},
    }
    return config_from_dict({"auto": True, **named}, "test")


@pytest.mark.exhaustive
def test_a_run_goes_on_with_what_was_decided(undecided: Config, tmp_path: Path) -> None:
    """With the config that was given, and with the one that is kept; in the first training of the encoder, and in the second."""
    train(undecided, tmp_path / "whole")
    decided = load_config(tmp_path / "whole" / CONFIG)
    assert not decided.auto
    assert (decided.text.subword_characters, decided.training.batch_size) == (16, 8)
    for name, steps in (("given", 6), ("kept", 12)):
        interrupt(undecided, tmp_path / name, steps)
        assert (tmp_path / name / CHECKPOINT).exists()  # of the first epoch, although the last one counts
        train(undecided if name == "given" else load_config(tmp_path / name / CONFIG), tmp_path / name, resume=True)
        assert load_config(tmp_path / name / CONFIG) == decided
        assert_same_run(tmp_path / "whole", tmp_path / name)


def test_a_run_does_not_go_on_with_other_settings_than_were_decided(undecided: Config, tmp_path: Path) -> None:
    interrupt(undecided, tmp_path / "run", 6)
    other = config_from_dict(config_to_dict(undecided) | {"text": {"sequence_length": 9}}, "test")
    assert error_of(lambda: train(other, tmp_path / "run", resume=True)) == (
        f"{tmp_path}/run: its run has text.sequence_length=16, the config 9; resume with --config {tmp_path}/run/{CONFIG}"
    )


def test_a_run_does_not_go_on_with_other_texts(config: Config, data: PreparedData, stopped: Path, tmp_path: Path) -> None:
    """As many of the same lengths, with the same words: a text that is another one, and a text that has another label."""
    swapped, relabelled = data.train.tokens[:].copy(), data.train.labels.copy()
    swapped[:2], relabelled[0] = swapped[1::-1], 1 - relabelled[0]
    assert swapped[0] != swapped[1]
    output = shutil.copytree(stopped, tmp_path / "run")
    for other in (dataclasses.replace(data.train, tokens=swapped), dataclasses.replace(data.train, labels=relabelled)):
        assert error_of(lambda: train(config, output, data=dataclasses.replace(data, train=other), resume=True)) == (  # noqa: B023
            f"{output}: it began with other texts or labels; put those back, or choose another folder"
        )
    train(config, output, data=data, resume=True)


def test_a_folder_is_held_before_the_data_is_read_and_until_the_end(config: Config, data: PreparedData, tmp_path: Path) -> None:
    refusals: list[str] = []

    def another(*_: object) -> None:
        for resume in (False, True):
            refusals.append(error_of(lambda: train(config, tmp_path / "run", data=data, resume=resume)))  # noqa: B023

    with pytest.raises(MhaError, match=r"^never-read\.txt: "):
        train(config, tmp_path / "run", dataclasses.replace(SILENT, log=another))
    train(config, tmp_path / "run", dataclasses.replace(SILENT, on_epoch=another), data)
    assert len(refusals) == 4 + 2 * bool(refusals[4:])
    assert set(refusals) == {f"{tmp_path / 'run'}: another training writes there; wait for it, or choose another folder"}
    assert os.listdir(tmp_path) == ["run"]
