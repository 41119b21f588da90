"""`mha predict`: texts in, one line out for each, and which model answers."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mha_cli.checkpoint.file import write_checkpoint
from tests.checkpoints import small_checkpoint
from tests.cli.command import Mha, Result, has_control_characters, nearly, run_on_terminal

TEXTS = ("the film was superb", "dreadful, dreadful", "not a film", "a superb film, not a dreadful one .")


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
def test_a_text_gets_the_same_answer_on_every_way_in(arguments: list[str], stdin: str, predict: Mha, tmp_path: Path) -> None:
    lines = "".join(f"{text}\n" for text in TEXTS)
    (tmp_path / "reviews.txt").write_text(lines)
    result = predict("--json", *arguments, stdin=lines if stdin == "LINES" else stdin).silent()
    for said, expected in zip(result.lines, predict("--json", *TEXTS).lines, strict=True):
        assert json.loads(said) == nearly(json.loads(expected))


def test_a_terminal_sees_the_beginning_of_each_text(small: Path, tmp_path: Path) -> None:
    texts = ("[bold]the film[/] \x1b[31mwas\x1b[0m \x1b]0;title\x07 \x1b[2J\x00", " \t ", "the " * 5000)
    given = {"stdin": "".join(f"{text}\n" for text in texts), "cwd": tmp_path}
    styled = run_on_terminal("predict", "-c", small, "-", **given, env={"COLUMNS": "110"})
    result = run_on_terminal("predict", "-c", small, "-", **given, env={"COLUMNS": "110", "NO_COLOR": "1"}).silent()
    assert result.stdout == re.sub(r"\x1b\[[012]m", "", styled.stdout) != styled.stdout
    assert not has_control_characters(result.stdout)
    odd, blank, long = (line.split("\t")[2] for line in result.lines)
    assert odd.startswith(r"[bold]the film[/] \x1b[31mwas\x1b[0m \x1b]0;title\x07 \x1b[2J\x00")
    assert blank == r" \t  (no words)"
    assert long.startswith("the the ") and long.endswith("… (13 of 5,000 tokens read)")
    assert len(result.lines[2].expandtabs()) <= 110


def test_the_last_trained_run_and_the_model_that_comes_with_mha(small: Path, mha: Mha, tmp_path: Path) -> None:
    result = mha("predict", "A superb, moving film.", "A dreadful waste of two hours.")
    assert [line.split("\t")[0] for line in result.lines] == ["pos", "neg"]
    assert result.stderr.endswith("imdb.keras (the model that comes with mha)\n")
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "checkpoint.keras").write_bytes(small.read_bytes())
    result = mha("predict", "the film")
    assert (len(result.lines), result.stderr) == (1, "using runs/one/checkpoint.keras (the last trained run)\n")


@pytest.mark.parametrize("command", [["predict", "the film", "--workers", "2"], ["attention", "the film"], ["explain", "the film"]])
def test_a_model_whose_numbers_overflow_is_refused_in_one_line(command: list[str], mha: Mha, tmp_path: Path) -> None:
    model = small_checkpoint()
    write_checkpoint(tmp_path / "large.keras", replace(model, weights={path: weight * 1e38 for path, weight in model.weights.items()}))
    refused = "the model's weights are so large that its numbers overflow; train it anew, with a lower learning rate"
    assert mha(*command, "-c", "large.keras") == Result(2, "", f"error: large.keras: {refused}\n")
