"""`mha attention` and `mha explain`: where their one text comes from."""

from __future__ import annotations

import gzip
import json
import os
import pty
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import TIMEOUT, fork, run_here

if TYPE_CHECKING:
    from pathlib import Path

PARAGRAPHS = "The film was\n\nnot dreadful,\r\nit’s superb"
WORDS = ["The", "film", "was", "not", "dreadful", ",", "it’s", "superb"]
TABLE = 'id,review\n1,dreadful\n2,"The film\nwas superb"\n'
RECORDS = '{"review": "dreadful"}\n\n{"review": "The film was superb"}\n'
COMMANDS = ("attention", "explain")


def words_of(stdout: str) -> list[str]:
    words: list[str] = json.loads(stdout)["words"]
    return words


@pytest.mark.parametrize("command", COMMANDS)
def test_standard_input_is_one_text(command: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["-"], [], ["--input", "-"]):
        result = run_here(command, *arguments, "-c", small, "--json", stdin=PARAGRAPHS, cwd=tmp_path, monkeypatch=monkeypatch)
        assert (result.code, result.stderr) == (0, "")
        assert words_of(result.stdout) == WORDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_paragraphs_is_one_text(command: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "review.txt").write_bytes(b"\xef\xbb\xbf" + PARAGRAPHS.encode())
    (tmp_path / "review.txt.gz").write_bytes(gzip.compress(PARAGRAPHS.encode()))
    for name in ("review.txt", "review.txt.gz"):
        result = run_here(command, "-i", name, "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
        assert (result.code, result.stderr) == (0, "")
        assert words_of(result.stdout) == WORDS


@pytest.mark.parametrize("command", [*COMMANDS, "predict"])
@pytest.mark.parametrize(
    ("text", "way_out"), [("film.txt", "film.txt"), ("films", "'films/*'"), ("f*m.txt", "'f*m.txt'"), ("film", ""), ("Good? [No] *!", "")]
)
def test_a_text_that_names_files_gets_a_remark(
    text: str, way_out: str, command: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run_here(command, text, "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
    (tmp_path / "films").mkdir()
    for name in ("film.txt", "films/superb.txt"):
        (tmp_path / name).write_text("superb")
    named = run_here(command, text, "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (plain.code, plain.stderr) == (0, "")
    remark = f"{text}: classified as a text; --input {way_out} reads the texts in it\n" if way_out else ""
    assert (named.code, named.stdout, named.stderr) == (0, plain.stdout, remark)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("reviews.csv", TABLE, ["--text-column", "review"]),
        ("reviews", TABLE.replace(",", "\t"), ["--text-column", "review", "--format", "tsv"]),
        ("reviews.jsonl", RECORDS, ["--text-column", "review"]),
        ("reviews.txt", "dreadful\nThe film was superb\n", []),
    ],
)
def test_one_record_of_many_by_the_id_that_predict_gives(
    name: str, content: str, options: list[str], small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(content)
    predicted = run_here("predict", "-i", name, *options, "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
    assert [json.loads(line)["id"] for line in predicted.lines] == [1, 2]
    for command in COMMANDS:
        result = run_here(command, "-i", name, *options, "--record", "2", "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
        assert (result.code, result.stderr) == (0, "")
        assert words_of(result.stdout) == ["The", "film", "was", "superb"]
        assert json.loads(result.stdout)["label"] == json.loads(predicted.lines[1])["label"]


def test_the_only_record_of_a_table_needs_no_number(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "review.csv").write_text('text\n"The film\nwas superb"\n')
    result = run_here("explain", "-i", "review.csv", "-c", small, "--json", cwd=tmp_path, monkeypatch=monkeypatch)
    assert words_of(result.stdout) == ["The", "film", "was", "superb"]


@pytest.mark.parametrize("command", [*COMMANDS, "predict"])
def test_a_terminal_as_stdin_gets_help(command: str, small: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = fork([command, "-c", small], tmp_path, (theirs, PIPE, PIPE))
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    os.close(ours)
    os.close(theirs)
    assert (process.wait(), stdout) == (2, b"")
    assert f"Usage: mha {command}".encode() in stderr
    assert b"Examples" in stderr
