from __future__ import annotations

import dataclasses
import json
import os
import pty
import subprocess
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.cli import progress, render
from mha_cli.cli.progress import status, step_text, training_progress
from mha_cli.config.loading import load_config
from mha_cli.config.settings import SampleData
from mha_cli.data.corpus import Corpus
from mha_cli.data.sample import SampleTexts
from mha_cli.system.callbacks import EpochRecord, StepProgress
from tests.cli.command import (
    TIMEOUT,
    TINY,
    TINY_SETTINGS,
    environment,
    has_control_characters,
    read_terminal,
    run_here,
    run_mha,
    tree,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Run

TIMES = ("seconds", "reviews_per_second")


def history_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "history.jsonl").read_text().splitlines()]


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key not in TIMES} for record in records]


# The run directory


def test_the_run_directory_is_named_for_the_config(trained: Run) -> None:
    assert trained.result.code == 0, trained.result.stderr
    assert [path.name for path in (trained.cwd / "runs").iterdir()] == ["tiny"]
    assert {"checkpoint.keras", "config.yaml", "history.jsonl", "metrics.json"} <= {path.name for path in trained.directory.iterdir()}


def test_nothing_is_left_half_written(trained: Run) -> None:
    assert not [name for name in tree(trained.cwd) if name.endswith((".tmp", ".lock"))]


def test_the_resolved_config_is_the_run_again(trained: Run) -> None:
    asked_for = load_config(TINY, TINY_SETTINGS)
    assert load_config(trained.directory / "config.yaml") == asked_for
    assert read_checkpoint(trained.checkpoint).config == asked_for


def test_the_history_has_a_line_an_epoch(trained: Run) -> None:
    history = history_of(trained.directory)
    assert [record["epoch"] for record in history] == list(range(1, 13))
    assert {frozenset(record) for record in history} == {frozenset(field.name for field in dataclasses.fields(EpochRecord))}
    best = 0.0
    for record in history:
        assert 0 <= record["train_accuracy"] <= 1
        assert record["best"] == (record["validation_accuracy"] > best)
        best = max(best, record["validation_accuracy"])


def test_the_metrics_are_those_of_the_best_epoch(trained: Run) -> None:
    metrics = json.loads((trained.directory / "metrics.json").read_text())
    best = [record for record in history_of(trained.directory) if record["best"]][-1]
    assert metrics["best"] == best
    assert metrics["checkpoint"] == "checkpoint.keras"
    assert (metrics["epochs_run"], metrics["num_train"], metrics["num_validation"]) == (12, 1080, 120)
    checkpoint = read_checkpoint(trained.checkpoint)
    assert metrics["vocabulary_size"] == len(checkpoint.vocabulary)
    assert metrics["num_parameters"] == sum(weight.size for weight in checkpoint.weights.values())
    assert checkpoint.metrics == metrics["metrics"]
    figures = ("epoch", "validation_accuracy", "validation_loss")
    assert [checkpoint.metrics[figure] for figure in figures] == [best[figure] for figure in figures]


def test_it_learns(trained: Run) -> None:
    history = history_of(trained.directory)
    assert history[-1]["train_loss"] < history[0]["train_loss"] / 2
    assert max(record["validation_accuracy"] for record in history) > 0.75


@pytest.mark.process
def test_the_same_seed_gives_the_same_numbers(trained: Run, compared: Run) -> None:
    """`mha shuffle-test` trains the same model in another process."""
    assert compared.result.code == 0, compared.result.stderr
    again = compared.cwd / "both" / "with-positions"
    assert without_times(history_of(again)) == without_times(history_of(trained.directory))
    first, second = read_checkpoint(trained.checkpoint).weights, read_checkpoint(again / "checkpoint.keras").weights
    assert first.keys() == second.keys()
    for path, weight in first.items():
        np.testing.assert_array_equal(weight, second[path], err_msg=path)


# With n-gram scores, batches by tokens and bfloat16


def test_scores_are_in_the_checkpoint(scored: Run) -> None:
    assert scored.result.code == 0, scored.result.stderr
    assert json.loads((scored.directory / "metrics.json").read_text())["precision"] == "bfloat16"
    weights = read_checkpoint(scored.checkpoint).weights
    assert weights["scores/table"].shape == (4096, 1)
    assert weights["scores/salience"].shape[1] == 2
    assert (weights["scores/salience"] != 0).any(axis=0).all()
    assert weights["classifier/kernel"].shape == (17, 1)
    assert weights["classifier/kernel"][-1] > 0  # the scores are listened to
    assert "fitting n-gram scores" in scored.result.stderr


def test_evaluate_and_predict_agree_with_the_accuracy_that_was_recorded(
    scored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = json.loads((scored.directory / "metrics.json").read_text())["best"]
    arguments = ("evaluate", scored.checkpoint, "--split", "validation", "--json")
    figures = json.loads(run_here(*arguments, cwd=tmp_path, monkeypatch=monkeypatch).stdout)
    assert figures["num_texts"] == 40
    assert figures["accuracy"] == best["validation_accuracy"] > 0.5
    assert figures["loss"] == pytest.approx(best["validation_loss"], abs=1e-5)

    config = read_checkpoint(scored.checkpoint).config
    reviews = list(SampleTexts(SampleData(num_texts=400)).read("train"))
    _, rows = Corpus(reviews, config.text, None, "sample").split(config.data.validation_share, config.seed)
    texts = "\n".join(reviews[row].text for row in rows)
    lines = run_mha("predict", "--json", "-c", scored.checkpoint, stdin=texts, cwd=tmp_path).lines
    right = [json.loads(line)["label"] == reviews[row].label for line, row in zip(lines, rows, strict=True)]
    assert sum(right) / len(right) == pytest.approx(best["validation_accuracy"])


# What is shown


def test_json_on_stdout_and_nothing_else(trained: Run) -> None:
    printed = json.loads(trained.result.stdout)
    assert printed == json.loads((trained.directory / "metrics.json").read_text()) | {"checkpoint": "runs/tiny/checkpoint.keras"}


def test_plain_lines_on_stderr_that_is_no_terminal(trained: Run) -> None:
    assert not has_control_characters(trained.result.stderr)
    lines = trained.result.stderr.splitlines()
    assert lines[0] == "starting TensorFlow"
    assert [line.split(":")[0] for line in lines if line.startswith("epoch ") and ", step " not in line] == [
        f"epoch {epoch}" for epoch in range(1, 13)
    ]


STEP = StepProgress(epoch=2, epochs=3, step=5, steps=7, loss=0.25, accuracy=0.875, done=0.5, reviews_per_second=1234.5, seconds_left=61.0)
EPOCH = EpochRecord(2, 0.25, 0.875, 0.5, 0.75, 1.5, 1234.0, True)


def test_a_terminal_gets_a_live_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_console", lambda: nullcontext(Console(stderr=True, force_terminal=True, width=150)))
    with training_progress() as callbacks:
        callbacks.log("reading [bold]\x1b[31m")
        callbacks.note("odd [bold]\x1b[31m")
        callbacks.on_step(STEP)
        callbacks.on_epoch(EPOCH)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "odd [bold]\\x1b[31m\n" in shown.err  # a line of its own
    assert "epoch 2/3, step 5/7, loss 0.2500, accuracy 0.8750, 1,234 texts/s, 1:01 left" in shown.err
    assert "epoch 2: loss 0.2500, validation loss 0.5000, validation accuracy 0.7500, 1.5 s (1,234 texts/s), kept" in shown.err
    assert "\x1b[31m" not in shown.err


PROGRESS = """
import os, sys
from mha_cli.cli.progress import status, training_progress
terminal = os.dup(2)
nowhere = os.open(os.devnull, os.O_WRONLY)
for shown in (training_progress, lambda: status("reading")):
    with shown() as callbacks:
        os.dup2(nowhere, 2)  # as it is while TensorFlow starts
        callbacks.log("starting TensorFlow")
        callbacks.log("building the model")
    os.dup2(terminal, 2)
    print("over", file=sys.stderr)
"""


def test_a_terminal_is_told_what_goes_on_while_stderr_is_held_back(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment({"TERM": "xterm"})
    process = subprocess.Popen([sys.executable, "-c", PROGRESS], stdout=subprocess.DEVNULL, stderr=theirs, cwd=tmp_path, env=env)
    os.close(theirs)
    training, status, _ = read_terminal(ours).decode().split("over\r\n")
    os.close(ours)
    assert process.wait(TIMEOUT) == 0
    assert training.index("starting TensorFlow") < training.index("building the model")
    assert "building the model" in status


def test_the_first_step_is_no_measure_of_the_others() -> None:
    first = dataclasses.replace(STEP, reviews_per_second=None, seconds_left=None)
    assert step_text(first) == "epoch 2/3, step 5/7, loss 0.2500, accuracy 0.8750"


@pytest.mark.parametrize("colours", ["", "1"])
def test_a_note_is_a_line_where_there_is_no_terminal(
    colours: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", colours)
    for shown in (training_progress(), status("reading")):
        with shown as callbacks:
            callbacks.note("odd")
        assert capsys.readouterr() == ("", "odd\n")


def test_the_closing_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mha_cli.training.run import TrainingSummary

    monkeypatch.setenv("COLUMNS", "150")
    summary = TrainingSummary(
        checkpoint=tmp_path / "[bold]" / "checkpoint.keras",
        best=EPOCH,
        epochs_run=3,
        num_train=1080,
        num_validation=120,
        num_parameters=16385,
        vocabulary_size=245,
        seconds=4.5,
        precision="bfloat16",
        metrics={"calibration_error_before": 0.125, "calibration_error_after": 0.0625},
    )
    render.training(summary, "mha evaluate runs/x")
    shown = capsys.readouterr().out
    for figure in (
        "2 of 3",
        "75.00% of 120 texts",
        "0.5000",
        "0.0625, without a scale and a shift 0.1250",
        "1,080 texts",
        "16,385",
        "245 ids",
        "4.5 s (1,234 texts/s, bfloat16)",
    ):
        assert figure in shown
    assert shown.endswith("\nnext: mha evaluate runs/x\n")


# What is refused once the data is read


@pytest.mark.parametrize("of_tensorflow", [False, True])
def test_out_of_memory_names_the_settings_that_help(of_tensorflow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor") if of_tensorflow else MemoryError()

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("mha_cli.training.run.Trainer", fail)
    result = run_here("train", "--config", TINY, "--set", "data.num_texts=200", cwd=tmp_path, monkeypatch=monkeypatch)
    said = "error: out of memory; lower training.batch_size, text.sequence_length or model.embed_dim"
    assert (result.code, result.stderr.splitlines()[-1]) == (1, said)
