from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.config.settings import SampleData
from mha_cli.data.sample import SampleTexts
from tests.checkpoints import small_checkpoint, small_checkpoint_file
from tests.cli.command import (
    COMMAND,
    TIMEOUT,
    Result,
    environment,
    has_control_characters,
    run_here,
    run_mha,
    run_on_terminal,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Predict, Run

TEXTS = ("the film was superb", "dreadful, dreadful", "not a film", "a superb film, not a dreadful one .")

ODD_TEXTS = (
    "[bold]the film[/bold] was [red]superb[/] [/nonsense]",
    "\x1b[31mthe film\x1b[0m was \x1b]0;title\x07 superb \x1b[2J",
    "the film\r was \x08\x08\x08 dreadful \x7f",
    "the film 🙂👩‍👩‍👧 was superb ﷽",
    "the\u202efilm\u2028was\u2029superb\x85not\ufeff",
    "\x00the film\x00",
    "%s {0} {film} $HOME `ls` ; rm -rf \\ \\n",
    "e\u0301" * 200,
    " \t ",
    "the " * 5000,
)
"""Texts that a terminal, a parser or a formatter might take for something else."""


# One line out for every text in


def test_texts_on_the_command_line(predict: Predict) -> None:
    result = predict(*TEXTS)
    assert (result.code, result.stderr) == (0, "")
    assert len(result.lines) == len(TEXTS)
    for line in result.lines:
        label, probability, mark = line.split("\t")
        assert mark in {"-", "empty", "unknown", "cut", "unknown,cut"}
        assert label in {"neg", "pos"}
        assert len(probability) == len("0.1234")
        assert 0.5 <= float(probability) <= 1
    assert len(set(result.lines)) > 1


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ([], "LINES"),
        (["-"], "LINES"),
        (["--input", "reviews.txt"], ""),
        (["-i", "reviews.txt"], "something else\n"),
        (["--", *TEXTS], "something else\n"),
    ],
)
def test_a_text_gets_the_same_answer_on_every_way_in(arguments: list[str], stdin: str, predict: Predict, tmp_path: Path) -> None:
    lines = "".join(f"{text}\n" for text in TEXTS)
    (tmp_path / "reviews.txt").write_text(lines)
    result = predict("--json", *arguments, stdin=lines if stdin == "LINES" else stdin)
    assert (result.code, result.stderr) == (0, "")
    for said, expected in zip(result.lines, predict("--json", *TEXTS).lines, strict=True):
        assert json.loads(said) == _approximately(expected)


def _approximately(line: str) -> dict[str, Any]:
    """A prediction up to the last bits of its probabilities, which depend on the texts that it was computed together with."""
    said: dict[str, Any] = json.loads(line)
    close = {name: pytest.approx(value, abs=3e-6) for name, value in said.pop("probabilities").items()}
    return said | {"probabilities": close, "probability": pytest.approx(said["probability"], abs=3e-6)}


def test_json_lines(predict: Predict) -> None:
    text = "the film was superb, xyzzy it's not a dreadful , , , , , ,"
    first, second = map(json.loads, predict("--json", text, "").lines)
    assert list(first) == ["id", "label", "probability", "probabilities", "tokens", "unknown", "truncated", "empty", "all_unknown"]
    assert (first["id"], first["tokens"], first["unknown"], first["truncated"]) == (1, 16, 1, True)
    assert first["probabilities"].keys() == {"neg", "pos"}
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=2e-6)
    assert first["probability"] == max(first["probabilities"].values()) == first["probabilities"][first["label"]]
    assert (second["id"], second["tokens"], second["unknown"], second["truncated"]) == (2, 0, 0, False)


def test_many_lines_stay_in_order(predict: Predict) -> None:
    rng = random.Random(0)
    texts = [" ".join(rng.choices(("the", "film", "superb", "dreadful", "not"), k=rng.randrange(1, 30))) for _ in range(1500)]
    before = dict(zip(texts, (json.loads(line)["probabilities"] for line in predict("--json", stdin="\n".join(texts)).lines), strict=True))
    rng.shuffle(texts)
    said = [json.loads(line) for line in predict("--json", stdin="\n".join(texts)).lines]
    assert [answer["id"] for answer in said] == list(range(1, 1501))
    for text, answer in zip(texts, said, strict=True):
        assert answer["probabilities"] == pytest.approx(before[text], abs=3e-6)


def test_blank_lines_keep_their_place(predict: Predict) -> None:
    said = [json.loads(line) for line in predict("--json", stdin="the film\n\n\r\n   \nsuperb\n\n").lines]
    assert [answer["tokens"] for answer in said] == [2, 0, 0, 0, 1, 0]


# Text is data


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_odd_texts_are_printed_harmlessly(arguments: list[str], predict: Predict) -> None:
    result = predict(*arguments, stdin="".join(f"{text}\n" for text in ODD_TEXTS))
    assert (result.code, result.stderr) == (0, "")
    assert len(result.lines) == len(ODD_TEXTS)
    assert not has_control_characters(result.stdout)
    assert result.stdout.isascii()
    as_arguments = [text for text in ODD_TEXTS if "\0" not in text]
    assert len(predict(*arguments, *as_arguments).lines) == len(as_arguments)


def test_bytes_that_are_not_utf8(predict: Predict) -> None:
    raw = b"the film\xff was \xc3\x28 superb\xed\xa0\x80"
    result = predict("--json", stdin=raw + b"\n\xff\xfe\n")
    said = "standard input:1: not UTF-8: byte 0xFF at place 9 of the line, the first of 2 such lines; such bytes are read as U+FFFD; "
    assert (result.code, result.stderr) == (0, f"{said}save it as UTF-8, or if it is from Windows, read it with --encoding windows-1252\n")
    assert len(result.lines) == 2
    assert predict("--json", raw, b"\xff\xfe").lines == result.lines


def test_class_names_are_data_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_checkpoint_file(tmp_path / "odd.keras", ("[bold]\x1b[31mred[/]", "a\tb\nc\x00", "🙂"), seed=3)
    plain = run_here("predict", "-c", "odd.keras", *TEXTS, cwd=tmp_path, monkeypatch=monkeypatch)
    assert not has_control_characters(plain.stdout)
    assert {line.split("\t")[0] for line in plain.lines} <= {r"[bold]\x1b[31mred[/]", r"a\tb\nc\x00", "🙂"}
    as_json = run_here("predict", "-c", "odd.keras", "--json", *TEXTS, cwd=tmp_path, monkeypatch=monkeypatch)
    assert not has_control_characters(as_json.stdout)
    assert set(json.loads(as_json.lines[0])["probabilities"]) == {"[bold]\x1b[31mred[/]", "a\tb\nc\x00", "🙂"}


def test_a_terminal_sees_the_beginning_of_each_text(small: Path, tmp_path: Path) -> None:
    stdin = "".join(f"{text}\n" for text in ODD_TEXTS)
    result = run_on_terminal("predict", "-c", small, "-", cwd=tmp_path, stdin=stdin, env={"COLUMNS": "110", "NO_COLOR": "1"})
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    assert len(result.lines) == len(ODD_TEXTS)
    texts = [line.split("\t")[2] for line in result.lines]
    assert texts[0] == f"{ODD_TEXTS[0]} (13 of 21 tokens read)"
    assert texts[1].startswith(r"\x1b[31mthe film\x1b[0m was \x1b]0;title\x07 superb ")
    assert texts[5] == r"\x00the film\x00"
    assert texts[8] == r" \t  (no words)"
    assert texts[9].startswith("the the ")
    assert texts[9].endswith("… (13 of 5,000 tokens read)")
    assert len(result.lines[9].expandtabs()) <= 110


# Nothing to read: help, never a silent wait


def run_with_closed(descriptor: str, *args: str | Path, cwd: Path) -> Result:
    """Run ``mha predict ARGS`` with a standard stream closed, as ``<&-``, ``>&-`` or ``2>&-`` does."""
    shell = ["sh", "-c", f'exec "$@" {descriptor}', "sh", *COMMAND, "predict", *args]
    done = subprocess.run(shell, capture_output=True, cwd=cwd, env=environment(), timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_closed_stdin_does_not_matter_to_texts(small: Path, tmp_path: Path) -> None:
    assert len(run_with_closed("<&-", "-c", small, "the film", cwd=tmp_path).lines) == 1


def test_what_goes_to_a_closed_stderr_does_not_end_among_the_labels(small: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "checkpoint.keras").write_bytes(small.read_bytes())
    result = run_with_closed("2>&-", "the film", cwd=tmp_path)
    assert result.code == 0
    assert len(result.lines) == 1
    assert "\t" in result.lines[0]


# Which checkpoint


def test_the_checkpoint_of_the_environment(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine\x1b[31m.keras").write_bytes(small.read_bytes())
    env = {"MHA_CHECKPOINT": "mine\x1b[31m.keras"}
    result = run_here("predict", "the film", cwd=tmp_path, env=env, monkeypatch=monkeypatch)
    assert (result.code, len(result.lines)) == (0, 1)
    assert result.stderr == "using mine\\x1b[31m.keras ($MHA_CHECKPOINT)\n"


def test_the_model_that_comes_with_mha(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_here("predict", "A superb, moving film.", "A dreadful waste of two hours.", cwd=tmp_path, monkeypatch=monkeypatch)
    assert [line.split("\t")[0] for line in result.lines] == ["pos", "neg"]
    assert result.stderr.endswith("imdb.keras (the model that comes with mha)\n")


# The trained model

KERAS = """
import json, sys
import numpy as np
import keras
import mha_cli.layers
model = keras.models.load_model(sys.argv[1])
token_ids = json.load(sys.stdin)
padded = np.zeros((len(token_ids), max(map(len, token_ids))), "int32")
for row, ids in zip(padded, token_ids):
    row[: len(ids)] = ids
print(json.dumps(model(padded).numpy()[:, 0].tolist()))
"""


@pytest.mark.parametrize("run", ["scored", pytest.param("trained", marks=pytest.mark.process)])
def test_keras_itself_opens_the_checkpoint_and_says_the_same(run: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.text.encoding import TextPipeline

    trained: Run = request.getfixturevalue(run)
    texts = [review.text for review in SampleTexts(SampleData(num_texts=200)).read("test")]
    checkpoint = read_checkpoint(trained.checkpoint)
    encoder = TextPipeline(checkpoint.config.text, checkpoint.vocabulary)
    done = subprocess.run(
        [sys.executable, "-c", KERAS, trained.checkpoint],
        input=json.dumps([encoder.encode(text).tokens.tolist() for text in texts]),
        capture_output=True,
        text=True,
        env=environment({"KERAS_BACKEND": "tensorflow"}),
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours: list[dict[str, Any]] = [
        json.loads(line) for line in run_mha("predict", "--json", "-c", trained.checkpoint, stdin="\n".join(texts), cwd=tmp_path).lines
    ]
    np.testing.assert_allclose([said["probabilities"]["pos"] for said in ours], json.loads(done.stdout), rtol=0, atol=1e-5)


def test_the_last_trained_run_is_the_real_one(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_here("predict", "the acting was superb , not dreadful", cwd=trained.cwd, monkeypatch=monkeypatch)
    assert result.stderr == "using runs/tiny/checkpoint.keras (the last trained run)\n"
    assert len(result.lines) == 1


# A model that cannot answer


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_model_whose_numbers_overflow_is_refused_in_one_line(workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_checkpoint()
    write_checkpoint(tmp_path / "large.keras", replace(model, weights={path: weight * 1e38 for path, weight in model.weights.items()}))
    for command in (["predict", "--workers", workers], ["attention", "the film"], ["explain", "the film"]):
        stdin = "the film\n" * 200 if command[0] == "predict" else ""
        result = run_here(*command, "-c", "large.keras", stdin=stdin, cwd=tmp_path, monkeypatch=monkeypatch)
        refused = "the model's weights are so large that its numbers overflow; train it anew, with a lower learning rate"
        assert result == Result(2, "", f"error: large.keras: {refused}\n")
