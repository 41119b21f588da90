"""`mha tune` through the command; tests/tuning has the search itself."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.cli import render
from mha_cli.cli.output import save_picture
from mha_cli.config.loading import load_config
from mha_cli.plots.figures import search_figure
from tests.cli.command import TIMEOUT, TINY, TRACED_SOON, Run, fork, refusal, run_here, run_mha, set_all, tree, wait_for_line
from tests.cli.conftest import once
from tests.training.numpy_trainer import NumpyTrainer, in_numpy

if TYPE_CHECKING:
    from mha_cli.tuning.search import TuningSummary

pytestmark = pytest.mark.extras

SETTINGS = (*TRACED_SOON, "data.num_texts=200", "data.seed=2", "model.embed_dim=16", "model.feed_forward_dim=16", "training.epochs=2")
TUNE = (
    *("tune", "--config", str(TINY), *set_all(*SETTINGS)),
    *("--search", "training.learning_rate=0.001..0.1", "--output", "run", "--json", "--minutes", "60", "--trials"),
)


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``mha tune`` with two trials, trained in NumPy. Not to be written to."""
    pytest.importorskip("optuna")
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        patch.setattr("mha_cli.tuning.search.Trainer", NumpyTrainer)
        return once(tmp_path_factory, "tuned", lambda cwd: run_here(*TUNE, "2", cwd=cwd))


def test_two_trials_and_a_training(tuned: Run) -> None:
    assert tuned.result.code == 0, tuned.result.stderr
    summary = tuned.result.json
    first, second = summary["trials"]
    assert summary["recipe"] == first
    assert first["settings"] == {"training.learning_rate": 0.001}
    assert summary["best"] == min((first, second), key=lambda trial: trial["loss"])
    assert summary["importance"] == {}
    lines = tuned.result.stderr.splitlines()
    told = [line.partition(":")[0].partition(",")[0] for line in lines if line.startswith(("trial ", "epoch")) and ", step " not in line]
    assert told == ["trial 0", "trial 0", "trial 1", "trial 1", "epoch 1", "epoch 2"]
    assert "trial 0, 60.0 minutes left" in lines

    of_training = {"checkpoint.keras", "config.yaml", "history.jsonl", "metrics.json"}
    assert set(tree(tuned.cwd / "run")) == of_training | {"best.yaml", "study.json", "study.png"}
    best = load_config(tuned.cwd / "run" / "best.yaml")
    assert read_checkpoint(tuned.cwd / "run" / "checkpoint.keras").config == best
    assert best.training.learning_rate == summary["best"]["settings"]["training.learning_rate"]


def test_a_finished_search_is_refused_before_the_texts_are_read(tuned: Run) -> None:
    trained_on = refusal(run_here(*TUNE, "2", "--set", "training.base=run", cwd=tuned.cwd))
    assert trained_on.startswith("training.base fixes the settings that `mha tune` tries; take training.base=null")
    said = refusal(run_here(*TUNE, "2", cwd=tuned.cwd))
    assert said == "run: its search is finished, with 2 trials; give more --minutes or --trials, or another folder"


@pytest.mark.process
def test_ctrl_c_and_the_same_command_again(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    process = fork((*TUNE, "50"), tmp_path, text=True)
    wait_for_line(process, "trial 0:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "error: interrupted; run keeps what was tried; the same command goes on"
    assert not [name for name in tree(tmp_path) if name.endswith((".tmp", ".lock"))]
    trials = run_mha(*TUNE, "2", cwd=tmp_path).well().json["trials"]
    assert len(trials) >= 2
    assert trials[0]["number"] == 0


@pytest.fixture
def summary() -> TuningSummary:
    """Twelve trials, of which the last is the best."""
    pytest.importorskip("optuna")
    from mha_cli.system.callbacks import EpochRecord
    from mha_cli.training.run_files import TrainingSummary
    from mha_cli.tuning.search import Trial, TuningSummary

    def trial(number: int) -> Trial:
        settings: dict[str, Any] = {"training.learning_rate": 0.001 * 1.1**number, "model.num_heads": number}
        return Trial(number, number % 3 == 1, None if number == 7 else 1.0 - 0.01 * number, 0.9 + 0.001 * number, 60.0, settings, {})

    trials, run = [trial(number) for number in range(12)], Path("run")
    record = EpochRecord(2, 0.25, 0.875, 0.5, 0.75, 1.5, 1234.0, True)
    training = TrainingSummary(run / "checkpoint.keras", record, 2, 180, 20, 1000, 300, 3.0, "float32", {"validation_loss": 0.5})
    importance = {"training.learning_rate": 0.8, "model.num_heads": 0.2}
    return TuningSummary(run / "best.yaml", trials[0], trials[11], 0.02, 40, 720.0, importance, trials, training)


def test_the_table_says_that_a_gain_may_be_luck_however_large_it_is(summary: TuningSummary, capsys: pytest.CaptureFixture[str]) -> None:
    render.tuning(summary, "mha evaluate run")
    shown = capsys.readouterr().out
    for row in ("training.learning_rate │ 0.001 │ 0.00285 │ 80%", "model.num_heads │ 0 │ 11 │ 20%"):
        assert row in " ".join(shown.split())
    assert "12, 4 of them stopped early, in 12.0 minutes" in shown
    assert "2.00% of an accuracy on 40 texts" in shown
    assert shown.endswith("next: mha evaluate run\n")
    render.tuning(dataclasses.replace(summary, standard_error=0.001), "mha evaluate run")
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "+1.10 points; perhaps luck in part: the same texts chose the best of 12" in said
    render.tuning(dataclasses.replace(summary, best=dataclasses.replace(summary.best, accuracy=0.9)), "mha evaluate run")
    assert "luck" not in capsys.readouterr().out  # a lower loss alone
    render.tuning(dataclasses.replace(summary, best=summary.recipe), "mha evaluate run")
    assert "none: no trial was better than the recipe as it is" in capsys.readouterr().out
    render.tuning(dataclasses.replace(summary, training=None), "mha train --config run/best.yaml")
    assert capsys.readouterr().out.endswith("nothing new to train; next: mha train --config run/best.yaml\n")


@pytest.mark.parametrize("importance", [True, False])
def test_the_picture_has_history_and_importance(summary: TuningSummary, importance: bool, tmp_path: Path) -> None:
    save_picture(search_figure(summary if importance else dataclasses.replace(summary, importance={})), tmp_path / "study.svg")
    drawn = (tmp_path / "study.svg").read_text()
    for text in ("best so far", "stopped early", "trial (the first is the recipe as it is)"):
        assert f"<!-- {text} -->" in drawn
    assert ("<!-- training.learning_rate -->" in drawn) == importance
    assert ("<!-- share of the differences between trials, % -->" in drawn) == importance
