"""`mha batch` on this machine: its parts, resumed batches, unreadable input, signals and kills."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from mha_cli.batch.files import Folder, LocalFiles
from mha_cli.batch.part import Job, ShardReport, classify_shard
from mha_cli.batch.shards import find_shards
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.errors import MhaError
from mha_cli.records.readers import Format
from mha_cli.runtime.classifier import Classifier
from tests.batch.archive import expected, numbered, refuse_anything_else, rows_of, write_archive
from tests.checkpoints import rewrite, small_checkpoint_file
from tests.cli.command import ROOT, TIMEOUT, Mha, Result, children_of, environment, fork, refusal, run_here, run_mha, run_on_terminal, tree
from tests.cli.forks import Forked
from tests.workbooks import write_workbook

Classify = Callable[..., list[ShardReport]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an archive and a model."""
    write_archive(tmp_path / "in")
    small_checkpoint_file(tmp_path / "model.keras")
    return tmp_path


@pytest.fixture
def batch(folder: Path) -> Mha:
    """``mha batch ARGS --output out -c model.keras``, in a process of its own: it forks, and this one has many threads."""
    return partial(run_mha, "batch", "-o", "out", "-c", "model.keras", cwd=folder)


@pytest.fixture
def batch_here(folder: Path) -> Mha:
    """The same in this process and those that it forks, where a test changes what it does."""
    return partial(run_here, "batch", "-o", "out", "-c", "model.keras", cwd=folder)


@pytest.fixture
def classify(folder: Path) -> Classify:
    """The shards of an archive classified in this process, without the command."""

    def run(name: str = "", form: Format | None = None, **options: Any) -> list[ShardReport]:
        output, model = Folder(str(folder / "out")), folder / "model.keras"
        output.make()
        job = Job(Classifier(read_checkpoint(model)), sha256(model), output, **options)
        return [classify_shard(shard, job) for shard in find_shards([str(folder / "in" / name)], form, output)]

    return run


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def num_written(reports: Sequence[ShardReport]) -> int:
    """The number of parts that have been written, where none failed."""
    assert not any(report.fault for report in reports)
    return sum(not report.earlier for report in reports)


def empty(folder: Path) -> dict[str, bytes | None]:
    """What was in a folder, all of which is removed."""
    found = tree(folder)
    for name in found:
        (folder / name).unlink()
    return found


def summary_of(result: Result) -> dict[str, Any]:
    assert result.code in (0, 1), result
    return result.json


def test_rows_are_the_answers_of_predict(folder: Path, batch: Mha) -> None:
    result = batch("in").silent()
    assert result.stdout.startswith("files: 5 written; rows: 80, 0 of them unreadable; 80 texts in ")
    refuse_anything_else(folder / "out")
    rows = rows_of(folder / "out")
    for path in sorted({row["file"] for row in rows}):
        answered = run_here("predict", "--json", "-c", "model.keras", "-i", path, cwd=folder)
        marks = run_here("predict", "-c", "model.keras", "-i", path, cwd=folder)
        expected_rows = [
            {"file": path, "row": answer["id"], "flags": mark.split("\t")[2]} | {name: answer[name] for name in ("label", "probabilities")}
            for answer, mark in zip(map(json.loads, answered.lines), marks.lines, strict=True)
        ]
        assert [row for row in rows if row["file"] == path] == expected_rows
    assert {"-", "empty", "unknown", "cut"} <= {row["flags"] for row in rows}


def test_an_answer_below_its_threshold_is_withheld(folder: Path, classify: Classify) -> None:
    classify()
    before = rows_of(folder / "out")
    middle = sorted(max(row["probabilities"].values()) for row in before)[len(before) // 2]
    rewrite(folder / "model.keras", thresholds={"neg": middle - 1e-5, "pos": middle - 1e-5})
    classify()
    rows = rows_of(folder / "out")
    assert rows == [row | {"label": row["label"] if max(row["probabilities"].values()) >= middle else None} for row in before]
    assert {None, "neg", "pos"} >= {row["label"] for row in rows} > {None}


def test_a_manifest_says_what_the_part_was_made_of(folder: Path, batch: Mha) -> None:
    batch("in/more/c.jsonl.gz")
    (path,) = (folder / "out").glob("_*")
    manifest = json.loads(path.read_bytes())
    source, part = folder / "in" / "more" / "c.jsonl.gz", folder / "out" / manifest["part"]["name"]
    assert path.name == f"_{part.stem}.manifest.json"
    status = {"size": source.stat().st_size, "modified_ns": source.stat().st_mtime_ns, "sha256": sha256(source)}
    settings = {"format": "jsonl", "text_column": "text", "encoding": None, "quoting": True}
    assert manifest["input"] == {"name": str(source), **settings, **status}
    assert manifest["model"] == {"sha256": sha256(folder / "model.keras")}
    assert manifest["part"]["sha256"] == sha256(part)
    assert (manifest["rows"], manifest["unreadable"], manifest["faults"]) == (20, 0, [])


def test_parquet_holds_the_same(folder: Path, batch: Mha, classify: Classify) -> None:
    classify()
    expected_rows = rows_of(folder / "out")
    assert batch("in", "--output-format", "parquet").code == 0
    refuse_anything_else(folder / "out")
    assert {path.suffix for path in (folder / "out").iterdir()} == {".json", ".parquet"}
    rows = rows_of(folder / "out")
    for row in (*rows, *expected_rows):
        row["probabilities"] = {name: round(value, 5) for name, value in row["probabilities"].items()}
    assert rows == expected_rows


# What is done again


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: json.dumps({**manifest, "rows": "20"}),
        lambda manifest: json.dumps({**manifest, "unreadable": 21}),
        lambda manifest: json.dumps({name: value for name, value in manifest.items() if name != "rows"}),
        lambda manifest: '{"input": 3, "part": []}',
        lambda manifest: "[" * 100_000,
        lambda manifest: " " * (1 << 20) + json.dumps(manifest),
    ],
)
def test_a_manifest_that_says_something_odd_counts_for_nothing(change: Callable[[Any], str], folder: Path, classify: Classify) -> None:
    for part_format in ("jsonl", "parquet"):
        classify("a.txt", part_format=part_format)
        (path,) = (folder / "out").glob("_*.manifest.json")
        whole = path.read_bytes()
        path.write_text(change(json.loads(whole)))
        assert classify("a.txt", part_format=part_format) == [ShardReport(f"{folder}/in/a.txt", rows=20)]
        assert path.read_bytes() == whole


def test_what_leads_out_of_the_output_folder_is_replaced(folder: Path, classify: Classify) -> None:
    classify("a.txt")
    parts = empty(folder / "out")
    (folder / "precious").write_text("of somebody")
    for name in parts:
        (folder / "out" / name).symlink_to(folder / "precious") if name[0] != "_" else os.mkfifo(folder / "out" / name)
    assert num_written(classify("a.txt")) == 1
    assert (folder / "precious").read_text() == "of somebody"
    assert tree(folder / "out") == parts


def test_what_is_done_is_not_done_again(folder: Path, batch: Mha, classify: Classify) -> None:
    classify()
    times = {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()}
    os.utime(folder / "in" / "a.txt")  # the same bytes
    again = summary_of(batch("in", "--json"))
    assert (again["earlier"], again["written"], again["rows"], again["texts"]) == (5, 0, 80, 0)
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()} == times


@pytest.mark.parametrize(
    ("change", "written"),
    [
        (lambda folder: (folder / "in" / "a.txt").write_text("the film\n"), 1),
        (lambda folder: (folder / "in" / "new.txt").write_text("the film\n"), 1),
        (lambda folder: small_checkpoint_file(folder / "model.keras", seed=1), 5),
        (lambda folder: of_another_model(next((folder / "out").glob("a-*"))), 1),
        (lambda folder: next((folder / "out").glob("a-*")).unlink(), 1),
        (lambda folder: next((folder / "out").glob("_a-*")).unlink(), 1),
    ],
)
def test_what_does_not_fit_is_done_again(change: Callable[[Path], object], written: int, folder: Path, classify: Classify) -> None:
    classify()
    change(folder)
    assert num_written(classify()) == written
    whole = empty(folder / "out")
    classify()
    assert tree(folder / "out") == whole


def of_another_model(part: Path) -> None:
    """Another part of the same size in its place."""
    part.write_bytes(part.read_bytes().replace(b"neg", b"POS"))


def test_another_format_or_column_is_another_part(folder: Path, classify: Classify) -> None:
    (folder / "in" / "d.csv").write_text("text,review\na,b\n")
    for name, other in (("b.jsonl", {"form": "lines"}), ("d.csv", {"text_column": "review"}), ("a.txt", {"part_format": "parquet"})):
        assert [num_written(classify(name, **options)) for options in ({}, {}, other, other)] == [1, 0, 1, 0]  # type: ignore[arg-type]


# By hand


def test_shares_and_workers_make_the_same_parts_as_one_process(folder: Path, batch: Mha) -> None:
    write_archive(folder / "long", rows=1000)
    batch("long", "--workers", "1")
    whole = empty(folder / "out")
    assert [summary_of(batch("long", "--json", "--shard", f"{part}/3"))["written"] for part in (1, 2, 3)] == [2, 2, 1]
    assert tree(folder / "out") == whole
    empty(folder / "out")
    assert summary_of(batch("long/a.txt", "--json", "--workers", "3"))["written"] == 1  # who share a file
    assert summary_of(batch("long", "--json", "--workers", "2"))["written"] == 4
    assert tree(folder / "out") == whole


def long_archive(folder: Path) -> dict[str, int]:
    """An archive that takes a while; the rows of each file."""
    counts = write_archive(folder / "long", rows=500)
    for copy in range(10):
        shutil.copy(folder / "long" / "a.txt", folder / "long" / f"{copy}.txt")
        counts[f"{folder}/long/{copy}.txt"] = 500
    return counts


def begun(folder: Path, workers: int) -> Forked:
    """A batch of that archive that has written its first part."""
    process = fork(["batch", "long", "-o", "out", "-c", "model.keras", "--workers", str(workers)], folder, text=True)
    while not [*folder.glob("out/_*")]:
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_two_batches_in_one_folder_have_to_write_the_same(folder: Path, batch: Mha) -> None:
    small_checkpoint_file(folder / "other.keras", seed=1)
    long_archive(folder)
    with begun(folder, workers=1) as first:
        first.send_signal(signal.SIGSTOP)
        second = run_mha("batch", "in/b.jsonl", "-o", "out", "-c", "other.keras", cwd=folder)
        said = f"{folder}/out: another batch writes there, of another model, format or column; wait for it, or choose another folder"
        assert refusal(second) == said
        batch("in/b.jsonl").well()
        first.send_signal(signal.SIGCONT)
        assert first.wait(TIMEOUT) == 0
    refuse_anything_else(folder / "out")
    run_mha("batch", "in/b.jsonl", "-o", "out", "-c", "other.keras", cwd=folder).well()


# What cannot be read


def test_a_poisoned_row_is_marked_and_counted(folder: Path, classify: Classify) -> None:
    lines = ['{"text": "the film"}', "rubbish", '{"text": 7}', "{}", "[]", '{"text": "superb"}', "?", '{"text": "not \xff UTF-8"}']
    (folder / "in" / "b.jsonl").write_text("\n".join(lines), "latin-1")
    (report,) = classify("b.jsonl")
    assert (report.unreadable, report.rows) == (5, 8)
    rows = [row for row in rows_of(folder / "out") if row["flags"] == "unreadable"]
    assert [(row["row"], row["label"], row["probabilities"]) for row in rows] == [(number, None, None) for number in (2, 3, 4, 5, 7)]
    faults = json.loads(next((folder / "out").glob("_b-*")).read_bytes())["faults"]
    assert faults[1] == f'{folder}/in/b.jsonl:3: the text "text" is the value 7'
    assert len(faults) == 5


def test_what_is_odd_and_read_all_the_same_is_told(folder: Path, batch: Mha) -> None:
    (folder / "in" / "a.txt").write_bytes(b"__label__pos the caf\xe9\n")
    (folder / "in" / "b.jsonl").write_text('{"text": "the film"}\nrubbish\n')
    result = batch("in", "--json")
    assert summary_of(result)["unreadable"] == 1  # no failure
    (warnings,) = summary_of(result)["warnings"].values()
    assert warnings[0].startswith(f"{folder}/in/a.txt: read as plain lines, though the first begins with __label__; add --format fasttext")
    assert warnings[1].startswith(f"{folder}/in/a.txt:1: not UTF-8: byte 0xE9 at position 21 of the line; such bytes are read as U+FFFD;")
    assert (result.code, result.stderr) == (0, "".join(f"{warning}\n" for warning in warnings))
    assert json.loads(next((folder / "out").glob("_a-*")).read_bytes())["warnings"] == warnings
    assert batch("in").stderr == ""  # the part is there


def test_a_poisoned_file_is_reported_and_the_rest_goes_on(folder: Path, batch: Mha) -> None:
    whole = (folder / "in" / "more" / "c.jsonl.gz").read_bytes()
    batch("in")
    (folder / "in" / "more" / "c.jsonl.gz").write_bytes(whole[:-9])
    (folder / "in" / "b.jsonl").write_text("[\n1\n]\n")
    (folder / "in" / "gone.txt").symlink_to("nowhere")
    (folder / "in" / "new.txt").write_text("the film\n")
    result = batch("in", "--json")
    assert result.code == 1
    failed = summary_of(result)["failed"]
    source = f"{folder}/in"
    assert failed == {
        f"{source}/b.jsonl": f"{source}/b.jsonl:1: JSON that spans several lines; nor can any other record be read",
        f"{source}/gone.txt": f"{source}/gone.txt: no such file",
        f"{source}/more/c.jsonl.gz": f"{source}/more/c.jsonl.gz: the gzip data is cut short or damaged; copy or compress the file again",
    }
    assert sorted(result.stderr.splitlines()) == sorted(f"failed: {fault}" for fault in failed.values())
    refuse_anything_else(folder / "out")
    assert {os.path.relpath(row["file"], folder / "in") for row in rows_of(folder / "out")} == {"a.txt", "more/d.csv", "new.txt"}


def test_a_shard_that_fails_keeps_the_part_of_an_earlier_batch(folder: Path, classify: Classify) -> None:
    name = "more/d.csv"
    classify(name)
    before = tree(folder / "out")
    assert classify(name, text_column="review")[0].fault
    os.utime(folder / "in" / name)  # the same bytes
    assert classify(name, "jsonl")[0].fault
    assert tree(folder / "out") == before


def test_a_file_that_changes_while_it_is_read_has_no_part(folder: Path, classify: Classify, monkeypatch: pytest.MonkeyPatch) -> None:
    classify("a.txt")
    small_checkpoint_file(folder / "model.keras", seed=1)
    opened, source = LocalFiles.open, folder / "in" / "a.txt"

    def grow(files: LocalFiles, path: str) -> IO[bytes]:
        source.write_text("another film\n")
        return opened(files, path)

    monkeypatch.setattr(LocalFiles, "open", lambda files, path: (grow if path == str(source) else opened)(files, path))
    assert classify("a.txt")[0].fault == f"{source}: has changed while it was read; run the same again"
    assert tree(folder / "out") == {}


def test_a_shard_that_breaks_off_leaves_nothing(folder: Path, classify: Classify) -> None:
    (folder / "in" / "bad.csv.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    for part_format in ("jsonl", "parquet"):
        assert classify("bad.csv.gz", part_format=part_format)[0].fault.startswith(f"{folder}/in/bad.csv.gz: the gzip data is ")
    assert classify("b.jsonl", text_column="review")[0].fault.endswith("; nor can any other record be read")
    assert tree(folder / "out") == {}


def test_a_folder_that_cannot_be_read_is_told_and_a_file_that_goes_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan, status = os.scandir, os.lstat
    whole = [found.path for found in LocalFiles().matching(f"{folder}/in")]

    def refuse(path: Any) -> Any:
        if str(path).endswith("/more"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lambda path: status(f"{path}.gone" if str(path).endswith("b.jsonl") else path))
        assert [found.path for found in LocalFiles().matching(f"{folder}/in")] == [path for path in whole if not path.endswith("b.jsonl")]
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(MhaError, match="in/more: cannot be read: Permission denied; make it readable, or name the others"):
        list(LocalFiles().matching(f"{folder}/in"))


# Signals and kills


@pytest.mark.parametrize("times", [2, 3])
def test_a_process_that_is_killed_is_replaced_three_times(
    times: int, folder: Path, batch_here: Mha, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = LocalFiles.open

    def die(files: LocalFiles, path: str) -> IO[bytes]:
        if path.endswith("b.jsonl") and len(killed := [*folder.glob("killed*")]) < times:
            (folder / f"killed{len(killed)}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return opened(files, path)

    monkeypatch.setattr(LocalFiles, "open", die)
    result = batch_here("in", "--json", "--workers", "2")
    name = f"{folder}/in/b.jsonl"
    given_up = {name: f"{name}: the process that read it has ended 3 times; look at its memory"} if times == 3 else {}
    assert (result.code, summary_of(result)["failed"]) == (len(given_up), given_up)
    assert len(rows_of(folder / "out")) == 80 - 20 * len(given_up)


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "error: interrupted\n"), (signal.SIGTERM, 143, ""), (signal.SIGKILL, -9, "")]
)
def test_a_batch_that_is_ended_goes_on(number: int, code: int, said: str, folder: Path, batch: Mha) -> None:
    counts = long_archive(folder)
    with begun(folder, workers=2) as process:
        started = children_of(process.pid)
        assert len(started) == 2
        process.send_signal(number)
        assert process.communicate(timeout=TIMEOUT) == ("", said)
        assert process.returncode == code
    while any(Path(f"/proc/{pid}").exists() for pid in started):  # they end with it
        time.sleep(0.01)
    done = numbered(rows_of(folder / "out"))
    assert len({*done}) == len(done) < sum(counts.values())
    assert summary_of(batch("long", "--json"))["earlier"] == len([*{file for file, _ in done}])
    assert numbered(rows_of(folder / "out")) == expected(counts)
    refuse_anything_else(folder / "out")


def test_a_terminal_shows_only_how_far_it_is(folder: Path) -> None:
    result = run_on_terminal("batch", "in", "-o", "out", "-c", "model.keras", cwd=folder, stream="stderr").well()
    shown = [text for text in re.split(r"[\r\n]|\x1b\[\??[0-9]*[a-zA-Z]", result.stderr) if len(text) > 1]
    assert [text for text in shown if not re.fullmatch(r" (looking for files|files: .* texts/s)", text)] == []


def test_a_kill_at_any_rename_or_removal_is_made_good(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.batch.kills", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["faults"] == []
    assert told["operations"].count("replace .json") == told["operations"].count("replace .jsonl") == 6


@pytest.mark.extras
def test_workbooks_and_one_of_their_sheets(batch: Mha, folder: Path) -> None:
    pytest.importorskip("python_calamine")
    pytest.importorskip("xlsxwriter")
    write_workbook(folder / "in" / "a.xlsx", {"May": [["Films"], ["text"], ["a superb film"]], "June": [["text"], ["dull"], ["a film"]]})
    assert batch("in/a.xlsx#June", "in/a.xlsx").code == 0
    files = [Path(row["file"]).name for row in rows_of(folder / "out")]
    assert sorted(files) == ["a.xlsx", "a.xlsx#June", "a.xlsx#June"]
    manifests = [json.loads(path.read_text()) for path in (folder / "out").glob("_*.json")]
    assert sorted(len(manifest["warnings"]) for manifest in manifests) == [0, 2]
    result = batch("sqlite:films.db#SELECT text FROM films")
    told = "error: sqlite:films.db#SELECT text FROM films: a query, and mha batch reads files; answer it with mha predict --input\n"
    assert (result.code, result.stderr) == (2, told)
