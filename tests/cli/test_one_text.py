"""`mha attention` and `mha explain`: where their one text comes from."""

from __future__ import annotations

import gzip
import json
import os
import pty
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import TIMEOUT, Result, fork

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Mha

PARAGRAPHS = "The film was\n\nnot dreadful,\r\nit’s superb"
WORDS = ["The", "film", "was", "not", "dreadful", ",", "it’s", "superb"]
TABLE = 'id,review\n1,dreadful\n2,"The film\nwas superb"\n'
RECORDS = '{"review": "dreadful"}\n\n{"review": "The film was superb"}\n'


def words_of(result: Result) -> list[str]:
    assert (result.code, result.stderr) == (0, "")
    words: list[str] = json.loads(result.stdout)["words"]
    return words


@pytest.mark.parametrize("arguments", [["attention", "-"], ["explain"], ["explain", "--input", "-"]])
def test_standard_input_is_one_text(arguments: list[str], small: Path, mha: Mha) -> None:
    assert words_of(mha(*arguments, "-c", small, "--json", stdin=PARAGRAPHS)) == WORDS


def test_a_file_of_paragraphs_is_one_text(small: Path, mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "review.txt").write_bytes(b"\xef\xbb\xbf" + PARAGRAPHS.encode())
    (tmp_path / "review.txt.gz").write_bytes(gzip.compress(PARAGRAPHS.encode()))
    for command, name in (("explain", "review.txt"), ("attention", "review.txt.gz")):
        assert words_of(mha(command, "-i", name, "-c", small, "--json")) == WORDS


@pytest.mark.parametrize(
    ("command", "text", "way_out"),
    [
        ("explain", "film.txt", "film.txt"),
        ("predict", "films", "'films/*'"),
        ("attention", "f*m.txt", "'f*m.txt'"),
        ("predict", "film", ""),
        ("explain", "Good? [No] *!", ""),
    ],
)
def test_a_text_that_names_files_gets_a_remark(command: str, text: str, way_out: str, small: Path, mha: Mha, tmp_path: Path) -> None:
    plain = mha(command, text, "-c", small, "--json")
    (tmp_path / "films").mkdir()
    for name in ("film.txt", "films/superb.txt"):
        (tmp_path / name).write_text("superb")
    remark = f"{text}: classified as a text; --input {way_out} reads the texts in it\n" if way_out else ""
    assert plain.code == 0
    assert mha(command, text, "-c", small, "--json") == Result(0, plain.stdout, plain.stderr + remark)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("reviews", TABLE.replace(",", "\t"), ["--text-column", "review", "--format", "tsv"]),
        ("reviews.jsonl", RECORDS, ["--text-column", "review"]),
        ("reviews.txt", "dreadful\nThe film was superb\n", []),
    ],
)
def test_one_record_of_many_by_the_id_that_predict_gives(
    name: str, content: str, options: list[str], small: Path, mha: Mha, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    predicted = mha("predict", "-i", name, *options, "-c", small, "--json")
    assert [json.loads(line)["id"] for line in predicted.lines] == [1, 2]
    result = mha("explain", "-i", name, *options, "--record", "2", "-c", small, "--json")
    assert words_of(result) == ["The", "film", "was", "superb"]
    assert json.loads(result.stdout)["label"] == json.loads(predicted.lines[1])["label"]


def test_the_only_record_of_a_table_needs_no_number(small: Path, mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "review.csv").write_text('text\n"The film\nwas superb"\n')
    assert words_of(mha("explain", "-i", "review.csv", "-c", small, "--json")) == ["The", "film", "was", "superb"]


@pytest.mark.parametrize("command", ["explain", "predict"])
def test_a_terminal_as_stdin_gets_help(command: str, small: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = fork([command, "-c", small], tmp_path, (theirs, PIPE, PIPE))
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    os.close(ours)
    os.close(theirs)
    assert (process.wait(), stdout) == (2, b"")
    assert f"Usage: mha {command}".encode() in stderr
    assert b"Examples" in stderr
