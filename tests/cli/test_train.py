import dataclasses
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.cli import render
from mha_cli.cli.progress import progress, step_text
from mha_cli.config.loading import load_config
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.training.run_files import TrainingSummary
from tests.cli.command import TIMEOUT, TINY, TINY_SETTINGS, Mha, Run, environment, has_control_characters, read_terminal, tree


def test_the_run_directory(trained: Run) -> None:
    assert trained.result.code == 0, trained.result.stderr
    assert [path.name for path in (trained.cwd / "runs").iterdir()] == ["tiny"]
    assert set(tree(trained.directory)) == {"checkpoint.keras", "config.yaml", "history.jsonl", "metrics.json"}
    asked_for = load_config(TINY, TINY_SETTINGS)
    assert load_config(trained.directory / "config.yaml") == read_checkpoint(trained.checkpoint).config == asked_for


def test_the_history_and_the_metrics_of_the_best_epoch(trained: Run) -> None:
    history = [json.loads(line) for line in (trained.directory / "history.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    assert {frozenset(record) for record in history} == {frozenset(field.name for field in dataclasses.fields(EpochRecord))}
    best = 0.0
    for record in history:
        assert record["best"] == (record["validation_accuracy"] > best)
        best = max(best, record["validation_accuracy"])

    metrics = json.loads((trained.directory / "metrics.json").read_text())
    assert trained.result.json == metrics | {"checkpoint": "runs/tiny/checkpoint.keras"}
    assert metrics["best"] == [record for record in history if record["best"]][-1]
    assert metrics["checkpoint"] == "checkpoint.keras"
    assert (metrics["epochs_run"], metrics["num_train"], metrics["num_validation"]) == (4, 360, 40)
    checkpoint = read_checkpoint(trained.checkpoint)
    assert metrics["vocabulary_size"] == len(checkpoint.vocabulary)
    assert metrics["num_parameters"] == sum(weight.size for weight in checkpoint.weights.values())
    assert checkpoint.metrics == metrics["metrics"]
    assert checkpoint.metrics.items() >= {name: metrics["best"][name] for name in ("epoch", "validation_accuracy")}.items()


def test_the_linear_model_is_in_the_checkpoint(scored: Run) -> None:
    assert scored.result.code == 0, scored.result.stderr
    assert json.loads((scored.directory / "metrics.json").read_text())["precision"] == "bfloat16"
    weights = read_checkpoint(scored.checkpoint).weights
    assert weights["linear/table"].shape == (4096, 1)
    assert (weights["linear/context_weights"] != 0).any(axis=0).tolist() == [True, True]
    assert weights["classifier/kernel"].shape == (17, 1)
    assert weights["classifier/kernel"][-1] > 0  # the scores are listened to


def test_evaluate_agrees_with_the_figures_that_were_recorded(scored: Run, mha: Mha) -> None:
    best = json.loads((scored.directory / "metrics.json").read_text())["best"]
    figures = mha("evaluate", scored.checkpoint, "--split", "validation", "--json").json
    assert figures["num_texts"] == 40
    assert figures["accuracy"] == best["validation_accuracy"]
    assert figures["loss"] == pytest.approx(best["validation_loss"], abs=1e-5)


def test_plain_lines_on_stderr_that_is_no_terminal(trained: Run) -> None:
    assert not has_control_characters(trained.result.stderr)
    lines = trained.result.stderr.splitlines()
    assert lines[0] == "starting TensorFlow"
    epochs = [line.split(":")[0] for line in lines if line.startswith("epoch ") and ", step " not in line]
    assert epochs == [f"epoch {epoch}" for epoch in range(1, 5)]


STEP = StepProgress(12, 20, 123, 456, loss=0.25, accuracy=0.875, done=0.5, texts_per_second=1234.5, seconds_left=3661.0)
EPOCH = EpochRecord(12, 0.25, 0.875, 0.5, 0.75, 1.5, 1234.0, True)


@pytest.mark.parametrize(("width", "rate"), [(80, ""), (100, ""), (150, ", 1,234 texts/s")])
def test_a_terminal_gets_a_live_display(width: int, rate: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mha_cli.cli.progress._console", lambda: nullcontext(Console(stderr=True, force_terminal=True, width=width)))
    with progress() as callbacks:
        callbacks.log("reading [bold]\x1b[31m")
        callbacks.note("odd [bold]\x1b[31m")
        callbacks.on_step(STEP)
        callbacks.on_epoch(EPOCH)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "odd [bold]\\x1b[31m\n" in shown.err  # a line of its own
    (bar, *_) = re.findall(rf"epoch 12/20, step 123/456, loss 0.2500, accuracy 0.8750, 61:01 left{rate} (.*)", shown.err)
    assert len(re.findall("[━╸╺]", bar)) >= 10
    assert f"{EPOCH}\n" in shown.err
    assert str(EPOCH) == "epoch 12: loss 0.2500, validation loss 0.5000, accuracy 0.7500, kept so far"
    assert "\x1b[31m" not in shown.err
    first = dataclasses.replace(STEP, texts_per_second=None, seconds_left=None)  # the first step is no measure of the others
    assert step_text(first) == ("epoch 12/20, step 123/456, loss 0.2500, accuracy 0.8750", "")


PROGRESS = """
import os, sys
from mha_cli.cli.progress import progress
terminal = os.dup(2)
nowhere = os.open(os.devnull, os.O_WRONLY)
for shown in (progress, lambda: progress("reading")):
    with shown() as callbacks:
        os.dup2(nowhere, 2)  # as it is while TensorFlow starts
        callbacks.log("starting TensorFlow")
        callbacks.log("building the model")
    os.dup2(terminal, 2)
    print("over", file=sys.stderr)
"""


def test_a_terminal_shows_progress_while_stderr_is_held_back(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment({"TERM": "xterm"})
    process = subprocess.Popen([sys.executable, "-c", PROGRESS], stdout=subprocess.DEVNULL, stderr=theirs, cwd=tmp_path, env=env)
    os.close(theirs)
    training, status, _ = read_terminal(ours).decode().split("over\r\n")
    os.close(ours)
    assert process.wait(TIMEOUT) == 0
    assert training.index("starting TensorFlow") < training.index("building the model")
    assert "building the model" in status


@pytest.mark.parametrize("colours", ["", "1"])
def test_a_note_is_a_line_where_there_is_no_terminal(
    colours: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", colours)
    for shown in (progress(), progress("reading")):
        with shown as callbacks:
            callbacks.note("odd")
        assert capsys.readouterr() == ("", "odd\n")


def test_the_closing_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    metrics = {"calibration_error_before": 0.125, "calibration_error_after": 0.0625}
    path = tmp_path / "[bold]" / "checkpoint.keras"
    render.training(TrainingSummary(path, EPOCH, 20, 1080, 120, 16385, 245, 4.5, "bfloat16", metrics), "mha evaluate runs/x")
    shown = capsys.readouterr().out
    calibration = "0.0625, without a scale and a shift 0.1250"
    figures = ("12 of 20", "75.00% of 120 texts", "0.5000", calibration, "1,080 texts", "16,385", "245 ids")
    for figure in (*figures, "4.5 s (1,234 texts/s, bfloat16)"):
        assert figure in shown
    assert shown.endswith("\nnext: mha evaluate runs/x\n")


@pytest.mark.parametrize("of_tensorflow", [False, True])
def test_out_of_memory_names_the_settings_that_help(of_tensorflow: bool, mha: Mha, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor") if of_tensorflow else MemoryError()

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("mha_cli.training.run.Trainer", fail)
    result = mha("train", "--config", TINY, "--set", "data.num_texts=200")
    said = "error: out of memory; lower training.batch_size, text.sequence_length or model.embed_dim"
    assert (result.code, result.stderr.splitlines()[-1]) == (1, said)
