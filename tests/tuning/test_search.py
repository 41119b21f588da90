"""A search whose trials are trained in NumPy."""

from __future__ import annotations

import dataclasses
import itertools
import json
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.errors import MhaError
from mha_cli.preparation.prepare import prepare
from mha_cli.runs import CHECKPOINT, CONFIG, METRICS, STATE, choose_checkpoint
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.tuning.space import space_of, trial_config, with_settings
from mha_cli.tuning.study import STUDY, Trial, held_study
from tests.cli.command import tree
from tests.errors import error_of
from tests.training.numpy_trainer import NumpyTrainer

optuna = pytest.importorskip("optuna")

from mha_cli.tuning import search as searching  # noqa: E402 - it needs Optuna

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mha_cli.config.settings import Config
    from mha_cli.tuning.search import TuningSummary

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("trained_in_numpy")]

SEARCH = ["training.learning_rate=0.001..0.5", "training.epochs=4,8"]


@pytest.fixture(autouse=True)
def _reviews_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 texts, of which a fifth says the other class than is meant, lie in the current folder."""
    monkeypatch.setattr(searching, "Trainer", NumpyTrainer)
    monkeypatch.setattr(searching, "graphs_let_go", nullcontext)  # there are none, and looking for them takes time
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = (f"{('dull', 'fine')[label ^ int(rng.random() < 0.2)]} film {number}" for number in range(100) for label in (0, 1))
    rows = (f"{text},{('neg', 'pos')[number % 2]}" for number, text in enumerate(words))
    Path("reviews.csv").write_text("\n".join(["text,label", *rows]))


def config(**training: Any) -> Config:
    """Settings of which the learning rate is far too low."""
    data = {"source": "files", "train": "reviews.csv", "text_column": "text", "label_column": "label"}
    model = {"embed_dim": 12, "num_heads": 2, "feed_forward_dim": 7}
    training = {"epochs": 4, "learning_rate": 0.001, "monitor": "last", **training}
    return config_from_dict({"seed": 3, "data": data, "model": model, "training": training}, "test")


def tuned(
    output: Path,
    minutes: float = 100,
    *,
    trials: int | None = None,
    callbacks: Callbacks = SILENT,
    settings: Config | None = None,
    search: list[str] = SEARCH,
) -> TuningSummary:
    settings = settings or config()
    with held_study(output, settings, search, minutes, trials) as study:
        data = prepare(trial_config(settings))
        return searching.tune(settings, study, space_of(search, data.config), data, callbacks)


def trials_of(output: Path) -> Sequence[Trial]:
    with held_study(output, config(), SEARCH, minutes=1e9) as study:
        return study.trials


def test_the_recipe_is_the_first_trial_and_the_best_is_trained() -> None:
    notes: list[str] = []
    output = Path("runs", "tuned")
    summary = tuned(output, trials=8, callbacks=Callbacks(note=notes.append))
    assert summary.trials[0] == summary.recipe
    assert summary.recipe.settings == {"training.learning_rate": 0.001, "training.epochs": 4}
    losses = {trial.number: trial.loss for trial in summary.trials if not trial.stopped}
    assert summary.best.loss == min(losses.values()) < summary.recipe.loss
    assert summary.best.settings["training.learning_rate"] > 0.001
    assert len(summary.trials) == 8
    assert summary.num_validation == 40
    assert summary.standard_error == pytest.approx(np.sqrt(summary.best.accuracy * (1 - summary.best.accuracy) / 40))

    found = load_config(output / "best.yaml")
    assert found == load_config(output / CONFIG) == read_checkpoint(output / CHECKPOINT).config
    assert found.training.learning_rate == summary.best.settings["training.learning_rate"]
    assert found.data.validation_share == config().data.validation_share
    assert summary.training
    assert summary.training.num_validation == 20
    assert choose_checkpoint(None, {})[0] == output / CHECKPOINT

    assert len(notes) == 9
    assert notes[0].startswith("trial 0: validation loss ")
    assert all("best so far: trial " in note for note, trial in zip(notes, summary.trials, strict=False) if trial.stopped)
    assert notes[-1] == f"training with the settings of trial {summary.best.number}, as mha train does"


def test_what_falls_behind_at_half_of_its_epochs_is_stopped(tmp_path: Path) -> None:
    """Of eight epochs as of four: they are compared by quarters."""
    summary = tuned(tmp_path / "run", trials=9)
    assert {trial.stopped for trial in summary.trials} == {True, False}
    for trial in trials_of(tmp_path / "run"):
        steps = list(trial.reached)
        assert steps == [1, 2, 3, 4][: len(steps)]
        assert len(steps) in (2, 3) if trial.stopped else len(steps) == 4


TEACHING = {"linear.max_ngram": 1, "linear.buckets": 64, "training.teacher": "linear"}


@pytest.mark.parametrize("settings", [{}, pytest.param(TEACHING, marks=pytest.mark.process, id="scores teach")])
def test_a_trial_is_what_mha_train_would_have_trained(tmp_path: Path, settings: dict[str, Any]) -> None:
    from mha_cli.runs import run_directory
    from mha_cli.training.run import train

    summary = tuned(tmp_path / "run", trials=2, settings=with_settings(config(), settings, "test"))
    again = trial_config(load_config(tmp_path / "run" / "best.yaml"))
    with run_directory(tmp_path / "again", again) as held:
        best = train(again, held).best
    assert (best.validation_loss, best.validation_accuracy) == (summary.best.loss, summary.best.accuracy)


def test_settings_that_do_not_go_together_are_a_trial_stopped(tmp_path: Path) -> None:
    notes: list[str] = []
    search = ["model.embed_dim=10,14", "model.num_heads=3,4"]
    summary = tuned(tmp_path / "run", trials=6, callbacks=Callbacks(note=notes.append), search=search)
    bad = [trial for trial in summary.trials if trial.loss is None]
    assert bad
    assert all(trial.stopped and trial.settings["model.num_heads"] > 2 and trial.settings["model.embed_dim"] != 12 for trial in bad)
    assert any(
        note.startswith(f"trial {bad[0].number}: these settings: model: num_heads={bad[0].settings['model.num_heads']} does")
        for note in notes
    )


def test_the_recipe_is_trained_however_little_time_there_is_and_others_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tuned(tmp_path / "first", 1e-9)
    assert [trial.stopped for trial in summary.trials] == [False]

    clock = itertools.count(step=1.0)
    monkeypatch.setattr(searching.time, "monotonic", lambda: next(clock))
    summary = tuned(tmp_path / "second", trials=2)
    assert [trial.stopped for trial in summary.trials] == [False, False]
    clock = itertools.count(step=1e6)
    summary = tuned(tmp_path / "third", trials=2)
    assert [trial.stopped for trial in summary.trials] == [False, True]
    assert len(trials_of(tmp_path / "third")[1].reached) == 1


def test_no_trial_comes_twice_and_where_all_were_tried_the_search_ends(tmp_path: Path) -> None:
    search = ["training.epochs=1..3", "model.dropout=0.1,0.5"]
    summary = tuned(tmp_path / "run", settings=config(epochs=2), search=search)
    tried = [(trial.settings["training.epochs"], trial.settings["model.dropout"]) for trial in summary.trials]
    assert sorted(tried) == [(epochs, dropout) for epochs in (1, 2, 3) for dropout in (0.1, 0.5)]
    with pytest.raises(MhaError, match="its search is finished, with 6 trials; search more, in another folder"):
        tuned(tmp_path / "run", 200, settings=config(epochs=2), search=search)


def test_a_finished_search_goes_on_for_a_larger_budget_only(tmp_path: Path) -> None:
    output = tmp_path / "run"
    tuned(output, trials=2)
    before = trials_of(output)
    summary = tuned(output, trials=5)
    assert [trial.number for trial in summary.trials] == [0, 1, 2, 3, 4]
    assert summary.trials[:2] == list(before)
    assert len({trial.settings["training.learning_rate"] for trial in summary.trials}) == 5
    assert summary.training
    assert json.loads((output / METRICS).read_text())["best"]["validation_loss"] == summary.training.best.validation_loss


@pytest.mark.parametrize("learning_rate", [0.5, 0.001])
def test_what_was_trained_is_not_trained_again(learning_rate: float, tmp_path: Path) -> None:
    """The recipe, which `mha train` trains, and the best of an earlier call."""
    output, settings = tmp_path / "run", config(learning_rate=learning_rate)
    search = ["training.learning_rate=0.0001,0.5", "training.epochs=1,4"]
    first = tuned(output, trials=3, settings=settings, search=search)
    recipe_is_best = first.best == first.recipe
    assert recipe_is_best == (learning_rate == 0.5)
    assert (first.training is None) == recipe_is_best != (output / CHECKPOINT).exists()
    before = tree(output)
    second = tuned(output, trials=4, settings=settings, search=search)
    assert (second.best, second.training) == (first.best, None)
    after = tree(output)
    assert before | {STUDY: after[STUDY]} == after


def test_an_interrupted_search_goes_on_and_the_recipe_comes_first(tmp_path: Path) -> None:
    output = tmp_path / "run"

    def interrupted(after: int) -> None:
        steps = itertools.count()
        with pytest.raises(KeyboardInterrupt):
            tuned(output, trials=4, callbacks=Callbacks(stop=lambda: next(steps) >= after))

    interrupted(after=3)
    assert not output.exists()  # nothing to keep
    interrupted(after=30)
    assert [trial.stopped for trial in trials_of(output)] == [False]
    assert load_config(output / "best.yaml") == config()
    assert [trial.number for trial in tuned(output, trials=4).trials] == [0, 1, 2, 3]


def test_an_interrupted_last_training_goes_on(tmp_path: Path) -> None:
    whole, output = tmp_path / "whole", tmp_path / "run"
    trained = tuned(whole, trials=2).training
    notes, steps = list[str](), itertools.count()
    stop = Callbacks(note=notes.append, stop=lambda: bool(notes) and "training with" in notes[-1] and next(steps) >= 7)
    with pytest.raises(KeyboardInterrupt):
        tuned(output, trials=2, callbacks=stop)
    assert (output / STATE).is_file() and not (output / METRICS).exists()
    seen: list[int] = []
    again = tuned(output, trials=2, callbacks=Callbacks(on_epoch=lambda record: seen.append(record.epoch))).training
    assert trained and again
    first, second = (dataclasses.replace(training.best, seconds=0.0, texts_per_second=0.0) for training in (trained, again))
    assert first == second
    assert seen[0] > 1


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    tuned(tmp_path / "run", trials=1)
    return tmp_path / "run"


def refusal(output: Path, **changes: Any) -> str:
    return error_of(lambda: tuned(output, trials=2, **changes)).removeprefix(f"{output}: ")


def test_another_search_or_other_texts_are_refused(finished: Path) -> None:
    way_out = "give what was given before, or choose another folder"
    assert refusal(finished, settings=config(batch_size=16)) == f"its run has training.batch_size=32, the config 16; {way_out}"
    assert refusal(finished, search=SEARCH[:1]).startswith(
        "its run has search=['training.learning_rate=0.001..0.5', 'training.epochs=4,8']"
    )
    with Path("reviews.csv").open("a") as file:
        file.write("\nfine plot,pos")
    assert refusal(finished) == "its trials had other texts, or another version of mha; choose another folder"


DAMAGED = "its study.json is damaged, or not of mha tune; choose another folder"
OTHER = "its trials are of another search; choose another folder"


ODD = (
    ("given", [1, 2], DAMAGED),
    ("given/model", 5, "its run has model.*=None, the config *"),
    ("given/\x1b[31m", 1, r"its run has \x1b[[]31m=1, the config None; *"),
    ("trials", {"0": None}, DAMAGED),
    ("trials/0/stopped", "x", DAMAGED),
    ("trials/0/loss", float("nan"), DAMAGED),
    ("trials/0/accuracy", 2.0, DAMAGED),
    ("trials/0/seconds", -1, DAMAGED),
    ("trials/0/reached", {"9": 0.5}, DAMAGED),
    ("trials/0/settings", {"data.train": "/etc/passwd"}, OTHER),
    ("trials/0/settings/training.learning_rate", 10**400, OTHER),
    ("trials/0/settings/training.epochs", 5, OTHER),
)
"""Values at a place in a study, and the refusal."""


def test_whatever_the_study_holds_it_is_refused_in_a_line(finished: Path) -> None:
    path, content = finished / STUDY, (finished / STUDY).read_bytes()
    for place, value, message in ODD:
        *sections, last = place.split("/")
        found = inner = json.loads(content)
        for section in sections:
            inner = inner[int(section) if isinstance(inner, list) else section]
        inner[last] = value
        path.write_text(json.dumps(found))
        before = tree(finished)
        assert fnmatchcase(refusal(finished), message), place
        assert tree(finished) == before
    for foreign in (b"", b"\xff", b"[" * 100_000, b'{"trials": []}'):
        path.write_bytes(foreign)
        assert refusal(finished) == DAMAGED
        assert path.read_bytes() == foreign


SPACE = dict.fromkeys(("model.dropout", "training.word_dropout"), optuna.distributions.FloatDistribution(0.0, 1.0))


def test_the_setting_that_makes_the_difference_matters_most() -> None:
    rng = np.random.default_rng(0)
    found = list[Trial]()
    for number in range(searching.LEAST_TRIALS):
        assert searching._importance(found, SPACE, 0) == {}, number
        values = {"model.dropout": rng.random(), "training.word_dropout": rng.random()}
        loss = 3 * values["model.dropout"] + 0.1 * values["training.word_dropout"]
        found.append(Trial(number, number % 2 == 1, loss, 0.5, 1.0, values, {}))
    importance = searching._importance(found, SPACE, 0)
    assert list(importance) == ["model.dropout", "training.word_dropout"]
    assert importance["model.dropout"] > 0.8
    assert sum(importance.values()) == pytest.approx(1.0)
    same = [dataclasses.replace(one, loss=0.5) for one in found]
    assert set(searching._importance(same, SPACE, 0).values()) <= {0.0}
