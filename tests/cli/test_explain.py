import gzip
import json
import math
import os
import pty
import re
from pathlib import Path
from subprocess import PIPE

import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.runtime.inspection import explain as explain_text
from tests.cli.command import TIMEOUT, Mha, Result, fork, run_on_terminal
from tests.cli.test_attention import TEXT, WORDS, even_heads
from tests.pages.pages import data_of


@pytest.fixture
def explain(small: Path, mha: Mha) -> Mha:
    """``mha explain ARGS -c SMALL``."""
    return lambda *args: mha("explain", *args, "-c", small)


def test_the_review_and_a_table_of_its_words(explain: Mha, small: Path) -> None:
    result = explain(TEXT).silent()
    expected = explain_text(read_checkpoint(small), TEXT)
    heading, review, *table = result.lines
    label = expected.prediction.label
    legend = "+ before a word: it speaks for it, - against it; the more, the stronger"
    assert heading == f"{label} {expected.prediction.probability:.4f}; {legend}"
    largest = max(map(abs, expected.occlusion))
    signed = []
    for word, fall in zip(WORDS, expected.occlusion, strict=True):
        strength = sum(abs(fall) / largest > limit for limit in (0.1, 0.33, 0.66))
        signed.append("+-"[fall < 0] * strength + word)
    assert review.split() == signed
    assert {word[0] for word in signed} >= {"+", "-"}
    assert f"What decides for {label}" in result.stdout
    assert "integrated" not in result.stdout
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in table if line.startswith("│")]
    order = sorted(range(len(WORDS)), key=lambda place: -abs(expected.occlusion[place]))
    assert rows == [[WORDS[place], f"{expected.occlusion[place]:+.4f}", f"{expected.attention[place]:.1%}"] for place in order]
    assert result.lines[-1] == "how much a word is looked at is not by itself an explanation (Jain and Wallace 2019)"


def test_words_are_coloured_by_what_they_decide_on_a_terminal(small: Path, tmp_path: Path) -> None:
    result = run_on_terminal("explain", TEXT, "-c", small, cwd=tmp_path).silent()
    assert "; blue words speak for it, orange ones against it" in result.lines[0]
    assert "+" not in result.lines[1]
    expected = explain_text(read_checkpoint(small), TEXT)
    largest = max(map(abs, expected.occlusion))
    for word, fall in zip(WORDS, expected.occlusion, strict=True):
        found = re.search(rf"(\x1b\[([\d;]*)m)?{re.escape(word)}(?=\x1b|\s|$)", result.lines[1])
        assert found is not None
        codes = set((found[2] or "").split(";"))
        assert ("34" in codes) == (fall / largest >= 0.1), (word, found[0])
        assert ("91" in codes) == (fall / largest <= -0.1), (word, found[0])  # orange, of sixteen colours
        assert ("7" in codes) == (abs(fall) / largest > 0.66)
    heading, review = run_on_terminal("explain", TEXT, "-c", small, cwd=tmp_path, env={"NO_COLOR": "1"}).lines[:2]
    assert heading.endswith("; + before a word: it speaks for it, - against it; the more, the stronger")
    assert ("++" in review or "--" in review) and "\x1b" not in review


def test_unknown_words_are_marked_and_the_mark_explained(explain: Mha, tmp_path: Path) -> None:
    legend = "* not in the model's vocabulary: it reads all such words as one"
    result = explain("the Zyzzyva was superb", "--html", "why.html")
    assert legend in result.lines
    assert [word.strip("+-") for word in result.lines[1].split()] == ["the", "Zyzzyva*", "was", "superb"]
    assert "│ Zyzzyva* │" in result.stdout
    assert explain("the Zyzzyva was superb", "--json").json["unknown"] == [False, True, False, False]
    data = data_of(tmp_path / "why.html")
    assert (data["unknown"], data["notes"]) == ([False, True, False, False], [legend])


def test_attention_close_to_uniform_is_said(explain: Mha, mha: Mha, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "uniform.keras", even_heads(0, 1))
    result = mha("explain", TEXT, "-c", "uniform.keras", "--html", "why.html")
    assert result.lines[-2] == "all words are looked at about equally: entropy 2.079 of at most 2.079 nats"
    assert data_of(tmp_path / "why.html")["entropy"] == "Close to uniform: entropy 2.079 of at most 2.079 nats"
    assert "about equally" not in explain("the was superb").stdout


def test_json_and_the_page_have_everything(explain: Mha, small: Path, tmp_path: Path) -> None:
    result, expected = explain(TEXT, "--json", "--html", "why.html"), explain_text(read_checkpoint(small), TEXT)
    assert (result.code, result.stderr) == (0, "")
    label, probability = expected.prediction.label, expected.prediction.probability
    both = {
        "words": WORDS,
        "unknown": [False] * 8,
        "probability": pytest.approx(probability),
        "occlusion": pytest.approx(expected.occlusion),
        "attention": pytest.approx(expected.attention),
        "gradients": None,
    }
    entropy = -sum(share * math.log(share) for share in expected.attention)
    numbers = {"label": label, "entropy": pytest.approx(entropy), "max_entropy": pytest.approx(math.log(8))}
    assert result.json == both | numbers
    data = data_of(tmp_path / "why.html")
    assert data.pop("model")["model"].endswith("/small.keras")
    assert data.pop("entropy").endswith(" of at most 2.079 nats")
    assert data == both | {"notes": [], "label": label}
    page = " ".join((tmp_path / "why.html").read_text().split())
    assert "How much a word is looked at is not by itself an explanation" in page
    assert 'Jain and Wallace 2019, "Attention is not Explanation"' in page


def test_gradients_beside_it(explain: Mha, small: Path, tmp_path: Path) -> None:
    from mha_cli.analysis.inside.attribution import integrated_gradients

    result, class_ids = explain(TEXT, "--gradients", "--html", "why.html"), explain_text(read_checkpoint(small), TEXT).class_ids
    expected, _ = integrated_gradients(read_checkpoint(small), TEXT, class_ids)
    assert result.code == 0
    assert "integrated" in result.stdout
    for value in expected:
        assert f"{value:+.4f}" in result.stdout
    assert data_of(tmp_path / "why.html")["gradients"] == pytest.approx(expected, abs=1e-6)


# Where the one text of `mha explain` and `mha attention` comes from

PARAGRAPHS = "The film was\n\nnot dreadful,\r\nit’s superb"
PARAGRAPH_WORDS = ["The", "film", "was", "not", "dreadful", ",", "it’s", "superb"]
TABLE = 'id,review\n1,dreadful\n2,"The film\nwas superb"\n'


@pytest.mark.parametrize(
    "arguments", [["attention", "-"], ["explain"], ["explain", "--input", "-"], ["explain", "-i", "a.txt"], ["attention", "-i", "a.txt.gz"]]
)
def test_standard_input_or_a_file_of_paragraphs_is_one_text(arguments: list[str], small: Path, mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + PARAGRAPHS.encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(PARAGRAPHS.encode()))
    found = mha(*arguments, "-c", small, "--json", stdin="superb" if "-i" in arguments else PARAGRAPHS).silent()
    assert found.json["words"] == PARAGRAPH_WORDS


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
        ("reviews.jsonl", '{"review": "dreadful"}\n\n{"review": "The film was superb"}\n', ["--text-column", "review"]),
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
    assert result.silent().json["words"] == ["The", "film", "was", "superb"]
    assert result.json["label"] == json.loads(predicted.lines[1])["label"]


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
