"""`mha predict`: formats, what is odd or broken in them, and producers that pause."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import COMMAND, TIMEOUT, answer, environment, start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Predict

TEXTS = ("the film was superb", 'dreadful,\t"dreadful"', "not a\n\nfilm", "", "é – 🎬 a superb film")


def table(delimiter: str) -> bytes:
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=delimiter)
    writer.writerow(["id", "text"])
    writer.writerows((f"n{number}", text) for number, text in enumerate(TEXTS))
    return written.getvalue().encode()


REVIEWS = {
    "csv": table(","),
    "tsv": table("\t"),
    "jsonl": "".join(json.dumps({"text": text, "id": f"n{number}"}) + "\n" for number, text in enumerate(TEXTS)).encode(),
}


def said(stdout: str) -> list[tuple[str, int, int]]:
    """The answers without what depends on the batch that they were computed in."""
    return [(found["label"], found["tokens"], found["unknown"]) for found in map(json.loads, stdout.splitlines())]


@pytest.mark.parametrize("form", REVIEWS)
def test_every_format_on_every_way_in(form: str, predict: Predict, tmp_path: Path) -> None:
    expected = said(predict("--json", *TEXTS).stdout)
    (tmp_path / f"reviews.{form}").write_bytes(b"\xef\xbb\xbf" + REVIEWS[form])
    (tmp_path / f"reviews.{form.upper()}.gz").write_bytes(gzip.compress(REVIEWS[form]))
    for arguments, stdin in (
        (["-i", f"reviews.{form}"], b""),
        (["-i", f"reviews.{form.upper()}.gz"], b""),
        (["--format", form], gzip.compress(REVIEWS[form])),
    ):
        result = predict("--json", "--field", "id", *arguments, stdin=stdin)
        assert (result.code, result.stderr) == (0, "")
        assert said(result.stdout) == expected
        assert [json.loads(line)["fields"] for line in result.lines] == [{"id": f"n{number}"} for number in range(len(TEXTS))]


def test_several_inputs_and_standard_input_among_them(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nthe film\n")
    (tmp_path / "b").write_text("text\n")
    result = predict("--json", "-i", "b", "-i", "-", "--input", "a.csv", "-i", "b", stdin="a superb film")
    assert [json.loads(line)["id"] for line in result.lines] == [1, 2, 3, 4]
    assert [tokens for _, tokens, _ in said(result.stdout)] == [1, 3, 2, 1]


def test_a_remark_where_most_words_are_unknown(predict: Predict) -> None:
    foreign = "der Film war superb\n"  # two of four words
    assert predict(stdin=foreign * 99).stderr == ""
    result = predict(stdin=foreign * 99 + "dreadful\nlangweilig nicht\n")
    assert (result.code, len(result.lines)) == (0, 101)
    assert result.stderr == "50% of the words are not in the model's vocabulary: was it trained on such texts, in this language?\n"
    assert predict(stdin="langweilig " * 99).stderr == ""  # too few words to say
    assert predict(stdin="скучно, . , . ,\n" * 100).stderr == result.stderr.replace("50%", "100%")  # known marks are no words


def test_a_remark_where_plain_lines_look_like_another_format(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "reviews.txt").write_text("__label__pos a superb film\n\n")
    remark = "reviews.txt: read as plain lines, though the first begins with __label__"
    remark += "; add --format fasttext, or --format lines if that is right"
    result = predict("--input", "reviews.txt")
    assert (len(result.lines), result.stderr) == (2, f"{remark}\n")
    assert predict("--input", "reviews.txt", "--format", "lines").stderr == ""
    assert predict("--input", "reviews.txt", "--only", "pos", "--threshold", "1", "--quiet").stderr == ""


def test_bytes_that_are_not_utf_8(predict: Predict) -> None:
    texts = [b"caf\xe9 \xc3\x28 superb\xed\xa0\x80", b"fine", b"\xff\xfe"]
    result = predict("--json", stdin=b"\n".join(texts))
    remark = "standard input:1: not UTF-8: byte 0xE9 at place 4 of the line, the first of 2 such lines; such bytes are read as U+FFFD"
    remark += "; save it as UTF-8, or if it is from Windows, read it with --encoding windows-1252\n"
    assert (result.code, result.stderr) == (0, remark)
    assert predict("--json", *texts).lines == result.lines


def test_rows_are_not_lost_to_an_open_quote(predict: Predict) -> None:
    rows = [("bad", '"dull lamp'), ("good", "nice one"), ("bad", "late"), ("good", 'it was 5"'), ("bad", "cold"), ("good", "warm")]
    data = {cut: "".join(f"{label}{cut}{text}\n" for label, text in [("label", "text"), *rows]).encode() for cut in "\t,"}
    result = predict("--format", "tsv", stdin=data["\t"])
    assert (len(result.lines), result.stderr) == (6, "")
    assert predict("--format", "csv", "--no-quoting", stdin=data[","]).stdout == result.stdout
    result = predict("--format", "csv", stdin=data[","])
    said = "standard input:2: a quoted field holds 3 lines that would be rows without the quote; --no-quoting reads every line as a row\n"
    assert (len(result.lines), result.stderr) == (3, said)


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16"])
def test_other_encodings(encoding: str, predict: Predict) -> None:
    given = [] if encoding == "utf-16" else ["--encoding", encoding]  # whose byte-order mark is enough
    result = predict("--json", *given, stdin="the café film\nsuperb\n".encode(encoding))
    assert (said(result.stdout), result.stderr) == (said(predict("--json", "the café film", "superb").stdout), "")


def test_a_broken_record_comes_after_the_answers_before_it(predict: Predict) -> None:
    message = "standard input:4: 3 fields where the header has 2; put a text that holds a comma in double quotes"
    for number_of_workers in ("1", "2"):
        result = predict("--format", "csv", "--workers", number_of_workers, stdin="text,id\nthe film,1\n\nsuperb,2,3\nnot,4\n")
        assert (result.code, result.stderr) == (2, f"error: {message}\n")
        assert result.lines == predict("the film").lines


# Producers that pause


@pytest.mark.parametrize("form", ["jsonl", "csv", "gzip"])
def test_a_slow_producer_is_answered_at_once(form: str, small: Path, tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)

    def packed(data: bytes) -> bytes:
        return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

    records: Any = {
        "jsonl": [b'{"text": "the film"}\n', b'{"text": ""}\n{"text": "superb"}\n{"te'],
        "csv": [b"text\nthe film\n", b'"not\n\na film"\nsuperb\n"begun\n'],
        "gzip": [packed(b"the film\n"), packed(b"\nsuperb\nbeg")],
    }
    ending = {"jsonl": b'xt": "end"}', "csv": b'"', "gzip": packer.flush()}
    with start(["-c", small, "--format", "lines" if form == "gzip" else form], tmp_path) as process:
        assert process.stdin
        assert process.stdout
        for data, number in zip(records[form], (1, 2), strict=True):
            process.stdin.write(data)
            assert [answer(process).count(b"\t") for _ in range(number)] == [2] * number
        process.stdin.write(ending[form])
        process.stdin.close()
        assert [line.count(b"\t") for line in process.stdout.readlines()] == [2]


# The environment


@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}])
def test_data_is_utf8_in_every_language(env: dict[str, str], small: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "predict", "-c", small, "--field", "text"]
    given = "naïve – 映画 🎬\n".encode()
    done = subprocess.run(command, input=given, capture_output=True, cwd=tmp_path, env=environment(env), timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split(b"\t")[3] == given


def test_colours_are_for_terminals_alone(predict: Predict) -> None:
    plain = predict("the film", "xyzzy")
    for env in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert predict("the film", "xyzzy", env=env) == plain
