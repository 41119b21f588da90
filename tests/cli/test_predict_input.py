"""`mha predict`: formats, what is odd or broken in them, and producers that pause."""

import json
import zlib
from pathlib import Path

import pytest

from tests.cli.command import Mha, answer, start


def said(stdout: str) -> list[tuple[str, int, int]]:
    """The answers without what depends on the batch that they were computed in."""
    return [(found["label"], found["tokens"], found["unknown"]) for found in map(json.loads, stdout.splitlines())]


def test_several_inputs_and_standard_input_among_them(predict: Mha, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nthe film\n")
    (tmp_path / "b").write_text("text\n")
    result = predict("--json", "-i", "b", "-i", "-", "--input", "a.csv", "-i", "b", stdin="a superb film")
    assert [json.loads(line)["id"] for line in result.lines] == [1, 2, 3, 4]
    assert [tokens for _, tokens, _ in said(result.stdout)] == [1, 3, 2, 1]


def test_a_remark_where_most_words_are_unknown(predict: Mha) -> None:
    foreign = "der Film war superb\n"  # two of four words
    assert predict(stdin=foreign * 99).stderr == ""
    result = predict(stdin=foreign * 99 + "dreadful\nlangweilig nicht\n")
    assert (result.code, len(result.lines)) == (0, 101)
    assert result.stderr == "50% of the words are not in the model's vocabulary: was it trained on such texts, in this language?\n"
    assert predict(stdin="langweilig " * 99).stderr == ""  # too few words to say
    assert predict(stdin="скучно, . , . ,\n" * 100).stderr == result.stderr.replace("50%", "100%")  # known marks are no words


def test_rows_are_not_lost_to_an_open_quote(predict: Mha) -> None:
    rows = [("bad", '"dull lamp'), ("good", "nice one"), ("bad", "late"), ("good", 'it was 5"'), ("bad", "cold"), ("good", "warm")]
    data = {cut: "".join(f"{label}{cut}{text}\n" for label, text in [("label", "text"), *rows]).encode() for cut in "\t,"}
    result = predict("--format", "tsv", stdin=data["\t"])
    assert (len(result.lines), result.stderr) == (6, "")
    assert predict("--format", "csv", "--no-quoting", stdin=data[","]).stdout == result.stdout
    result = predict("--format", "csv", stdin=data[","])
    said = "standard input:2: a quoted field holds 3 lines that would be rows without the quote; --no-quoting reads every line as a row\n"
    assert (len(result.lines), result.stderr) == (3, said)
    assert predict("--format", "csv", "--only", "pos", "--quiet", stdin=data[","]).stderr == ""


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16"])
def test_other_encodings(encoding: str, predict: Mha) -> None:
    given = [] if encoding == "utf-16" else ["--encoding", encoding]  # whose byte-order mark is enough
    result = predict("--json", *given, stdin="the café film\nsuperb\n".encode(encoding))
    assert (said(result.stdout), result.stderr) == (said(predict("--json", "the café film", "superb").stdout), "")


def test_a_slow_producer_is_answered_at_once(small: Path, tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    with start(["-c", small, "--format", "csv"], tmp_path) as process:
        for data, number in ((b"text\nthe film\n", 1), (b'"not\n\na film"\nsuperb\n"begun\n', 2)):
            process.stdin.write(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))
            assert [answer(process).count(b"\t") for _ in range(number)] == [2] * number
        process.stdin.write(packer.compress(b'"') + packer.flush())
        process.stdin.close()
        assert [line.count(b"\t") for line in process.stdout.readlines()] == [2]


def test_colours_are_for_terminals_alone(predict: Mha) -> None:
    plain = predict("the film", "xyzzy")
    for env in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert predict("the film", "xyzzy", env=env) == plain
