"""`mha predict`: what is chosen, where it goes, and how it ends."""

import csv
import gzip
import io
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pyarrow
import pytest
from pyarrow import parquet

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint, small_checkpoint_file, with_text
from tests.cli.command import TIMEOUT, Mha, Result, answer, children_of, fork, read_terminal, refusal, start
from tests.cli.forks import Forked

TEXTS = ("not a film", "dreadful, dreadful", "a superb film, not a dreadful one .", "", "dreadful film was not")
LINES = "".join(f"{text}\n" for text in TEXTS)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights that are not of one opinion. Not to be written to."""
    return small_checkpoint_file(tmp_path_factory.mktemp("divided") / "small.keras", seed=11)


@pytest.fixture(scope="session")
def labels(small: Path) -> list[str]:
    """Of TEXTS; both classes are among them."""
    found = [prediction.label for prediction in Classifier(read_checkpoint(small)).predict(TEXTS)]
    assert set(found) == {"neg", "pos"}
    return found


# Some of it


def test_only_one_class_gives_the_lines_as_they_came(predict: Mha, labels: list[str], tmp_path: Path) -> None:
    ends = (b"\r\n", b"\n", b" \xff\x00\x1b[1m\n", b"\n", b"")
    lines = [text.encode() + end for text, end in zip(TEXTS, ends, strict=True)]
    (tmp_path / "reviews").write_bytes(b"".join(lines))
    for name in ("neg", "pos"):
        result = predict("-i", "reviews", "--only", name, "-o", name)
        assert (result.code, result.stdout) == (0, "")
        kept = [line.removesuffix(b"\n") + b"\n" for line, label in zip(lines, labels, strict=True) if label == name]
        assert (tmp_path / name).read_bytes() == b"".join(kept)
        found = [json.loads(line) for line in predict("--json", "--only", name, stdin=LINES).lines]
        assert [(one["id"], one["label"]) for one in found] == [pair for pair in enumerate(labels, start=1) if pair[1] == name]


def test_quiet_ends_at_the_first_match(small: Path, labels: list[str], tmp_path: Path) -> None:
    with start(["-c", small, "--only", "pos", "-q"], tmp_path) as process:
        process.stdin.write(f"{TEXTS[labels.index('pos')]}\n{{".encode())
        assert process.stdout.read() == b""  # it ends, though its input does not
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("quiet", [["--quiet"], []])
def test_no_match_is_exit_code_1(quiet: list[str], predict: Mha, labels: list[str]) -> None:
    others = [text for text, label in zip(TEXTS, labels, strict=True) if label == "neg"]
    assert predict("--only", "pos", *quiet, *others) == Result(1, "", "")


def test_thresholds_of_the_checkpoint(predict: Mha, small: Path, tmp_path: Path) -> None:
    found = [json.loads(line) for line in predict("--json", *TEXTS).lines]
    least = min(one["probability"] for one in found if one["label"] == "neg")
    write_checkpoint(tmp_path / "own.keras", replace(read_checkpoint(small), thresholds={"neg": least + 1e-5}))
    expected = [one | ({"label": None} if one["label"] == "neg" and one["probability"] == least else {}) for one in found]
    result = predict("-c", "own.keras", "--json", *TEXTS)
    told = "no answer to 1 of 5 texts: below the checkpoint's thresholds; --threshold 0 answers all"
    assert (result.code, result.stderr) == (0, f"{told}\n")
    assert [json.loads(line) for line in result.lines] == expected
    assert len(predict("-c", "own.keras", "--only", "neg", stdin=LINES).lines) == [one["label"] for one in expected].count("neg")
    for arguments in (("--threshold", "0"), ("--threshold", "0.9")):
        assert predict("-c", "own.keras", *arguments, *TEXTS) == predict(*arguments, *TEXTS)


# The name of a file says its format

ODD = ("a,b", 'a "q"\n', "\ud800", "=1+1", None, 1.5, [{"é": True}], "é\t\0")
CELLS = ("a,b", 'a "q"\n', "\ufffd", "=1+1", "", "1.5", '[{"é": true}]', "é\t\0")
HEADER = ["label", "probability", "flags", "note", "input_label"]


@pytest.mark.parametrize("name", ["labels.CSV.gz", "labels.parquet"])
def test_a_table_has_a_header_and_can_be_read_back(name: str, predict: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_cli.cli.answers.GROUP_ROWS", 3)
    records = [json.dumps({"text": "the film", "note": note, "label": "gold"}) for note in ODD]
    (tmp_path / "notes.jsonl").write_text("\n".join(records))
    one = predict("--json", "the film").json
    assert predict("-i", "notes.jsonl", "--field", "note", "--field", "label", "-o", name) == Result(0, "", "")
    if name.endswith("gz"):
        content = gzip.decompress((tmp_path / name).read_bytes())
        assert content.startswith(b"label,probability,flags,note,input_label\r\n")
        header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
        assert header == HEADER
        assert rows == [[one["label"], f"{one['probability']:.6f}", "-", cell, "gold"] for cell in CELLS]
    else:
        table = parquet.read_table(tmp_path / name)
        assert table.schema.names == HEADER
        assert [str(kind) for kind in table.schema.types] == ["string", "double", "string", "string", "string"]
        rows = [list(row.values()) for row in table.to_pylist()]
        assert rows == [[one["label"], one["probability"], "-", cell or None, "gold"] for cell in CELLS]


@pytest.mark.parametrize(
    ("name", "options", "as_json"),
    [("labels.NDJSON", [], True), ("labels.json.gz", [], True), ("labels", ["--json"], True), ("labels.tsv.gz", [], False)],
)
def test_any_other_name_gets_what_stdout_would(name: str, options: list[str], as_json: bool, predict: Mha, tmp_path: Path) -> None:
    expected = predict("-k", "all", *["--json"] * as_json, *TEXTS)
    assert predict("-o", name, "-k", "all", *options, *TEXTS) == Result(0, "", "")
    content = (tmp_path / name).read_bytes()
    assert (gzip.decompress(content) if name.endswith("gz") else content).decode() == expected.stdout


ALL_INPUTS: dict[str, tuple[bytes, list[str], list[list[str]]]] = {
    "x.csv": (b'id,text,label\n1,"a, b",x\n2,c,y\n', ["id", "text", "input_label"], [["1", "a, b", "x"], ["2", "c", "y"]]),
    "x.jsonl": (
        b'{"text": "a", "n": {"m": 1}}\n{"n": null, "text": "b"}\n{"text": "c"}',
        ["text", "n"],
        [["a", '{"m": 1}'], ["b", ""], ["c", ""]],
    ),
    "odd.jsonl": (b'{"text": "a", "\\ud800": 1}\n', ["text", "\ufffd"], [["a", "1"]]),
    "x.ft": (b"__label__x a\nb\n", ["text", "input_label"], [["a", "x"], ["b", ""]]),
    "x.txt": (b"a\n\n", ["text"], [["a"], [""]]),
}


@pytest.mark.parametrize("name", ALL_INPUTS)
def test_all_columns_of_the_input(name: str, predict: Mha, tmp_path: Path) -> None:
    content, names, rows = ALL_INPUTS[name]
    (tmp_path / name).write_bytes(content)
    assert predict("-i", name, "--field", "*", "-o", "labels.csv") == Result(0, "", "")
    header, *found = csv.reader(io.StringIO((tmp_path / "labels.csv").read_bytes().decode(), newline=""))
    assert header == ["label", "probability", "flags", *names]
    assert [row[3:] for row in found] == rows
    assert [line.split("\t")[3:] for line in predict("-i", name, "--field", "*").lines] == rows


@pytest.mark.parametrize(("name", "options", "names"), [("x.csv", ["--text-column", "2"], ["1", "2"]), ("x.parquet", [], ["n", "text"])])
def test_all_columns_beside_one_by_name(name: str, options: list[str], names: list[str], predict: Mha, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,the film\n")
    parquet.write_table(pyarrow.table({"n": [1], "text": ["the film"]}), tmp_path / "x.parquet")
    (line,) = predict("-i", name, *options, "--field", "*", "--json").lines
    assert list(json.loads(line)["fields"]) == names
    assert predict("-i", name, *options, "--field", names[1], "--field", "*", "-o", "y.parquet").code == 0
    (row,) = parquet.read_table(tmp_path / "y.parquet").to_pylist()
    assert list(row.items())[3:] == [(names[1], "the film"), (names[0], "1")]


def test_all_columns_are_those_of_the_first_record(predict: Mha, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n")
    (tmp_path / "b.csv").write_text("text,id\nb,2\n")
    assert [line.split("\t")[3:] for line in predict("-i", "a.csv", "-i", "b.csv", "--field", "*").lines] == [["1", "a"], ["2", "b"]]
    given = '{"text": "a"}\n{"text": "b", "id": 2}\n'
    answers = predict("--format", "jsonl", "--field", "*", "--json", stdin=given).lines
    assert [json.loads(line)["fields"] for line in answers] == [{"text": "a"}, {"text": "b", "id": 2}]
    said = refusal(predict("--format", "jsonl", "--field", "*", "-o", "c.csv", stdin=given))
    assert said == 'record 2: the column "id" is not in the first record; name the columns with --field, or take --json'
    said = refusal(predict("--format", "csv", "--field", "*", stdin="text,note,note\na,b,c\n"))
    assert said.startswith('standard input:1: the column "note" occurs 2 times')


def test_no_texts_are_a_table_all_the_same(predict: Mha, tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        assert predict("-o", name, "--field", "text", stdin="") == Result(0, "", "")
    assert (tmp_path / "none.csv").read_text() == "label,probability,flags,text\n"
    assert parquet.read_table(tmp_path / "none.parquet").schema.names == ["label", "probability", "flags", "text"]


# A file


def test_an_input_may_be_the_output(predict: Mha, tmp_path: Path) -> None:
    (tmp_path / "reviews").write_text(LINES)
    expected = predict("-i", "reviews").stdout
    assert predict("-i", "reviews", "-o", "reviews") == Result(0, "", "")
    assert (tmp_path / "reviews").read_text() == expected


WAYS = [("predict", "-o", "labels.tsv"), ("attention", "--png", "picture.png"), ("explain", "--html", "page.html")]
"""Plots are written as pictures are."""


@pytest.mark.parametrize(("command", "option", "name"), WAYS)
def test_a_pipe_is_written_to_and_not_replaced(command: str, option: str, name: str, small: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with fork([command, "the film", "-c", small, option, name], tmp_path) as process:
        written = (tmp_path / name).read_bytes()
        assert process.wait(TIMEOUT) == 0
    assert written.startswith((b"neg\t", b"pos\t", b"<!", b"\x89PNG"))
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_command_leaves_the_earlier_file(ending: signal.Signals, small: Path, tmp_path: Path) -> None:
    (tmp_path / "out.tsv").write_text("old")
    with start(["-c", small, "-o", "out.tsv"], tmp_path) as process:
        process.stdin.write(b"the film\n")
        while len(os.listdir(tmp_path)) == 1:  # it has not begun yet
            time.sleep(0.01)
        time.sleep(0.5)  # nor is it making the file, which takes microseconds: a signal just then leaves it to the next command
        process.send_signal(ending)
        assert process.wait(TIMEOUT) == 128 + ending
    assert (os.listdir(tmp_path), (tmp_path / "out.tsv").read_text()) == (["out.tsv"], "old")


# Several processes


@contextmanager
def answering(small: Path, number: int, tmp_path: Path, stdin: int = PIPE) -> Iterator[tuple[Forked, list[int]]]:
    """A command that has begun to answer, and its workers, which end with it."""
    with start(["-c", small, "--workers", str(number)], tmp_path, stdin=stdin) as process:
        if stdin == PIPE:
            process.stdin.write(b"the film\n" * 100)
        assert b"\t" in answer(process)
        workers = children_of(process.pid)
        assert len(workers) == (number if number > 1 else 0)
        yield process, workers
        assert not any(os.path.exists(f"/proc/{worker}/fd") for worker in workers)


@pytest.mark.parametrize("number", [1, 2])
def test_a_reader_that_leaves_ends_the_workers_too(number: int, small: Path, tmp_path: Path) -> None:
    producer = subprocess.Popen(["yes", "the film"], stdout=subprocess.PIPE)
    assert producer.stdout
    with answering(small, number, tmp_path, producer.stdout.fileno()) as (process, _):
        producer.stdout.close()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT) == -signal.SIGPIPE
    producer.wait(TIMEOUT)


@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_ends_the_workers_in_silence(number: int, small: Path, tmp_path: Path) -> None:
    with answering(small, number, tmp_path) as (process, workers):
        for worker in workers:
            os.kill(worker, signal.SIGINT)  # as a terminal would, were they in its group; they leave it to the parent
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        assert process.stderr.read() == b"error: interrupted\n"


def test_workers_end_in_the_middle_of_a_product_when_their_parent_is_killed(tmp_path: Path) -> None:
    heads = {"num_blocks": 100, "num_heads": 256, "key_dim": 1, "embed_dim": 1, "feed_forward_dim": 1, "positions": "none"}
    write_checkpoint(tmp_path / "long.keras", with_text(small_checkpoint(**heads), sequence_length=1000))
    (tmp_path / "long.txt").write_text(("film " * 1000 + "\n") * 64)  # a batch that takes an hour
    with start(["-c", "long.keras", "-i", "long.txt", "--workers", "2"], tmp_path) as process:
        while not (workers := children_of(process.pid)) or processor_ticks(workers[0]) < 20:
            time.sleep(0.1)
        descriptors = [os.pidfd_open(worker) for worker in children_of(process.pid)]
        assert len(descriptors) == 2
        process.kill()
        for descriptor in descriptors:
            assert select.select([descriptor], [], [], TIMEOUT)[0]
            os.close(descriptor)


def processor_ticks(process: int) -> int:
    """Time that a process has computed, in hundredths of a second."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11])


@pytest.mark.extras
def test_openvino_answers_a_slow_producer_at_once_and_then_a_fast_one(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    with start(["-c", small, "--engine", "openvino", "--workers", "2", "--field", "*"], tmp_path) as process:
        for lines in (1, 2, 300, 1):
            process.stdin.write(b"the film\n" * lines)
            for _ in range(lines):
                assert b"\t" in answer(process)
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(TIMEOUT) == 0


# A terminal


def answer_slowly(process: Forked, sent: int) -> None:
    """Send texts for longer than somebody waits without a sign."""
    for _ in range(3):
        os.write(sent, b"the film\n")
        assert re.fullmatch(rb"(neg|pos)\t0\.\d{4}\t-\n", answer(process))
        time.sleep(0.3)


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_a_count_on_a_terminal(kind: str, small: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with start(["-c", small], tmp_path, stderr=theirs, env={"TERM": kind}) as process:
        os.close(theirs)
        answer_slowly(process, process.stdin.fileno())
        process.stdin.close()
        assert process.stdout.read() == b""
        shown = read_terminal(ours)
    os.close(ours)
    assert (b"3 texts in " in shown and b" texts/s" in shown) if kind == "xterm" else shown == b""


def test_somebody_who_types_sees_no_count(small: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with start(["-c", small, "-"], tmp_path, stdin=theirs, stderr=theirs) as process:
        os.close(theirs)
        answer_slowly(process, ours)
        os.write(ours, b"\x04")  # the end of what is typed
        assert b"texts" not in read_terminal(ours)
    os.close(ours)


@pytest.mark.parametrize("name", ["labels.csv", "labels.csv.gz"])
def test_csv_begins_with_the_mark_of_its_input(name: str, predict: Mha, tmp_path: Path) -> None:
    mark, table = b"\xef\xbb\xbf", "text\nthe café\nsuperb\n".encode()
    (tmp_path / "reviews.csv").write_bytes(table)
    (tmp_path / "marked.csv").write_bytes(mark + table)

    def written(*args: str) -> bytes:
        assert predict(*args, "-o", name).code == 0
        content = (tmp_path / name).read_bytes()
        return gzip.decompress(content) if name.endswith(".gz") else content

    without = written("-i", "reviews.csv", "--field", "text")
    assert without.startswith(b"label,") and "café".encode() in without
    assert written("-i", "marked.csv", "--field", "text") == mark + without
    assert written("-i", "*.csv", "-i", "-", "--field", "text").startswith(mark + b"label,")
    assert written("-i", "marked.csv", "--only", "pos", "--threshold", "0") == mark + written(
        "-i", "reviews.csv", "--only", "pos", "--threshold", "0"
    )
    predict("-i", "marked.csv", "-o", "labels.tsv")
    assert (tmp_path / "labels.tsv").read_bytes()[:3] != mark


@pytest.mark.extras
def test_answers_as_a_workbook(predict: Mha, tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    (tmp_path / "reviews.csv").write_text('id,text\n=1+1,the film\n"{2}","superb, café"\n')
    given = ("-i", "reviews.csv", "--field", "id", "--field", "text", "--top-k", "all", "-o")
    assert predict(*given, "a.csv").code == predict(*given, "a.xlsx").code == 0
    result = predict("-i", "a.xlsx", "--field", "*", "--json")  # what it holds is read again
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = [row | {name: float(row[name]) for name in row if name.startswith("prob")} for row in csv.DictReader(file)]
    found = [json.loads(line)["fields"] for line in result.lines]
    assert [row | {name: float(row[name]) for name in row if name.startswith("prob")} for row in found] == rows
    assert [row["id"] for row in rows] == ["=1+1", "{2}"]
    assert predict(*given, "a.ods").code == 2
