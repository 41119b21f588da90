"""`mha batch` on this machine: its parts, resumed batches, unreadable input, signals and kills."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from mha_cli.batch.files import LocalFiles
from mha_cli.errors import MhaError
from mha_cli.runtime.workers import Worker
from tests.batch.archive import expected, numbered, refuse_anything_else, rows_of, write_archive
from tests.checkpoints import rewrite, small_checkpoint_file
from tests.cli.command import ROOT, TIMEOUT, Result, environment, fork, refusal, run_here, run_mha, run_on_terminal, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    Batch = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an archive and a model."""
    write_archive(tmp_path / "in")
    small_checkpoint_file(tmp_path / "model.keras")
    return tmp_path


@pytest.fixture
def batch(folder: Path) -> Batch:
    """``mha batch ARGS --output out -c model.keras``, in a process of its own: it forks, and this one has many threads."""

    def run(*args: str) -> Result:
        return run_mha("batch", "-o", "out", "-c", "model.keras", *args, cwd=folder)

    return run


@pytest.fixture
def batch_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Batch:
    """The same in this process and those that it forks, where a test changes what it does."""

    def run(*args: str) -> Result:
        return run_here("batch", "-o", "out", "-c", "model.keras", *args, cwd=folder, monkeypatch=monkeypatch)

    return run


def summary_of(result: Result) -> dict[str, Any]:
    assert result.code in (0, 1), result
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_rows_are_the_answers_of_predict(folder: Path, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    result = batch("in")
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("files: 5 written; rows: 80, 0 of them unreadable; 80 texts in ")
    refuse_anything_else(folder / "out")
    rows = rows_of(folder / "out")
    for path in sorted({row["file"] for row in rows}):
        answered = run_here("predict", "--json", "-c", "model.keras", "-i", path, cwd=folder, monkeypatch=monkeypatch)
        marks = run_here("predict", "-c", "model.keras", "-i", path, cwd=folder, monkeypatch=monkeypatch)
        assert [row for row in rows if row["file"] == path] == [
            {
                "file": path,
                "row": answer["id"],
                "label": answer["label"],
                "probabilities": answer["probabilities"],
                "flags": mark.split("\t")[2],
            }
            for answer, mark in zip(map(json.loads, answered.lines), marks.lines, strict=True)
        ]
    assert {"-", "empty", "unknown", "cut"} <= {row["flags"] for row in rows}


def test_an_answer_below_its_threshold_is_withheld(folder: Path, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch("in").code == 0
    before = rows_of(folder / "out")
    probabilities = [max(row["probabilities"].values()) for row in before]
    middle = sorted(probabilities)[len(before) // 2]
    rewrite(folder / "model.keras", thresholds={"neg": middle - 1e-5, "pos": middle - 1e-5})
    assert batch("in").code == 0
    rows = rows_of(folder / "out")
    assert rows == [
        row | {"label": row["label"] if probability >= middle else None} for row, probability in zip(before, probabilities, strict=True)
    ]
    assert {None, "neg", "pos"} >= {row["label"] for row in rows} > {None}


def test_a_manifest_says_what_the_part_was_made_of(folder: Path, batch: Batch) -> None:
    batch("in/more/c.jsonl.gz")
    (path,) = (folder / "out").glob("_*")
    manifest = json.loads(path.read_bytes())
    source, part = folder / "in" / "more" / "c.jsonl.gz", folder / "out" / manifest["part"]["name"]
    assert path.name == f"_{part.stem}.manifest.json"
    assert manifest["input"] == {
        "name": str(source),
        "format": "jsonl",
        "text_column": "text",
        "encoding": None,
        "quoting": True,
        "size": source.stat().st_size,
        "modified_ns": source.stat().st_mtime_ns,
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }
    assert manifest["model"] == {"sha256": hashlib.sha256((folder / "model.keras").read_bytes()).hexdigest()}
    assert manifest["part"]["sha256"] == hashlib.sha256(part.read_bytes()).hexdigest()
    assert (manifest["rows"], manifest["unreadable"], manifest["faults"]) == (20, 0, [])


def test_parquet_holds_the_same(folder: Path, batch: Batch) -> None:
    batch("in")
    expected_rows = rows_of(folder / "out")
    assert batch("in", "--output-format", "parquet").code == 0
    refuse_anything_else(folder / "out")
    assert {path.suffix for path in (folder / "out").iterdir()} == {".json", ".parquet"}
    rows = rows_of(folder / "out")
    for row in (*rows, *expected_rows):
        row["probabilities"] = {name: round(value, 5) for name, value in row["probabilities"].items()}
    assert rows == expected_rows


def test_it_reads_parquet(folder: Path, batch: Batch) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"review": ["the film", None, "superb"]}), folder / "in" / "x.parquet")
    assert batch("in/x.parquet", "--text-column", "review").code == 0
    assert [row["flags"] for row in rows_of(folder / "out")] == ["-", "unreadable", "-"]


# What is done again


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: json.dumps({**manifest, "rows": "20"}),
        lambda manifest: json.dumps({**manifest, "unreadable": 21}),
        lambda manifest: json.dumps({**manifest, "rows": 10**18}),
        lambda manifest: json.dumps({**manifest, "rows": 19}),
        lambda manifest: json.dumps({name: value for name, value in manifest.items() if name != "rows"}),
        lambda manifest: "[" * 100_000,
        lambda manifest: " " * (1 << 20) + json.dumps(manifest),
    ],
)
@pytest.mark.parametrize("part_format", ["jsonl", "parquet"])
def test_a_manifest_that_says_something_odd_counts_for_nothing(
    part_format: str, change: Callable[[dict[str, Any]], str], folder: Path, batch: Batch
) -> None:
    batch("in/a.txt", "--output-format", part_format)
    (path,) = (folder / "out").glob("_*.manifest.json")
    whole = path.read_bytes()
    path.write_text(change(json.loads(whole)))
    assert batch("in/a.txt", "--output-format", part_format).stdout.startswith("files: 1 written; rows: 20, 0 of them unreadable")
    assert path.read_bytes() == whole


def test_what_leads_out_of_the_output_folder_is_replaced(folder: Path, batch: Batch) -> None:
    batch("in/a.txt")
    parts = tree(folder / "out")
    (folder / "precious").write_text("of somebody")
    for name in parts:
        (folder / "out" / name).unlink()
        (folder / "out" / name).symlink_to(folder / "precious") if name[0] != "_" else os.mkfifo(folder / "out" / name)
    assert batch("in/a.txt").stdout.startswith("files: 1 written;")
    assert (folder / "precious").read_text() == "of somebody"
    assert tree(folder / "out") == parts


def test_what_is_done_is_not_done_again(folder: Path, batch: Batch) -> None:
    batch("in")
    before, times = tree(folder / "out"), {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()}
    again = summary_of(batch("in", "--json"))
    assert (again["earlier"], again["written"], again["rows"], again["texts"]) == (5, 0, 80, 0)
    os.utime(folder / "in" / "a.txt")  # the same bytes
    assert summary_of(batch("in", "--json"))["earlier"] == 5
    assert tree(folder / "out") == before
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()} == times


@pytest.mark.parametrize(
    ("change", "written"),
    [
        (lambda folder: (folder / "in" / "a.txt").write_text("the film\n"), 1),
        (lambda folder: (folder / "in" / "new.txt").write_text("the film\n"), 1),
        (lambda folder: small_checkpoint_file(folder / "model.keras", seed=1), 5),
        (lambda folder: next((folder / "out").glob("a-*")).write_text("cut"), 1),
        (lambda folder: of_another_model(next((folder / "out").glob("a-*"))), 1),
        (lambda folder: next((folder / "out").glob("a-*")).unlink(), 1),
        (lambda folder: next((folder / "out").glob("_a-*")).unlink(), 1),
        (lambda folder: next((folder / "out").glob("_a-*")).write_text('{"input": 3, "part": []}'), 1),
    ],
)
def test_what_does_not_fit_is_done_again(change: Callable[[Path], object], written: int, folder: Path, batch: Batch) -> None:
    batch("in")
    change(folder)
    assert summary_of(batch("in", "--json"))["written"] == written
    whole = tree(folder / "out")
    for path in (folder / "out").iterdir():
        path.unlink()
    batch("in")
    assert tree(folder / "out") == whole


def of_another_model(part: Path) -> None:
    """Another part of the same size in its place."""
    part.write_bytes(part.read_bytes().replace(b"neg", b"POS"))


def test_another_format_or_column_is_another_part(folder: Path, batch: Batch) -> None:
    batch("in/b.jsonl")
    assert summary_of(batch("in/b.jsonl", "--format", "lines", "--json"))["written"] == 1
    (folder / "in" / "d.csv").write_text("text,review\na,b\n")
    batch("in/d.csv")
    assert summary_of(batch("in/d.csv", "--text-column", "review", "--json"))["written"] == 1


# By hand


def test_shares_make_the_same_parts_as_one_process(folder: Path, batch: Batch) -> None:
    batch("in")
    whole = tree(folder / "out")
    for path in (folder / "out").iterdir():
        path.unlink()
    assert [summary_of(batch("in", "--json", "--shard", f"{part}/3"))["written"] for part in (1, 2, 3)] == [2, 2, 1]
    assert tree(folder / "out") == whole
    assert summary_of(batch("in", "--json"))["earlier"] == 5


@pytest.mark.parametrize(("inputs", "workers"), [("long", "2"), ("long/a.txt", "3")])
def test_workers_make_the_same_parts(inputs: str, workers: str, folder: Path, batch: Batch) -> None:
    write_archive(folder / "long", rows=1000)
    batch(inputs, "--workers", "1")
    whole = tree(folder / "out")
    for path in (folder / "out").iterdir():
        path.unlink()
    assert batch(inputs, "--workers", workers).code == 0
    assert tree(folder / "out") == whole


@pytest.mark.parametrize(
    ("other", "code"), [((), 0), (("--output-format", "parquet"), 2), (("--format", "lines"), 2), (("-c", "other.keras"), 2)]
)
def test_two_batches_write_to_one_folder_only_if_they_write_the_same(
    other: tuple[str, ...], code: int, folder: Path, batch_here: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_checkpoint_file(folder / "other.keras", seed=1)
    begin, found = Worker.__init__, list[Result]()

    def begin_another_before(worker: Worker, work: Any, method: str) -> None:
        if not found:
            found.append(None)  # type: ignore[arg-type]
            found[0] = batch_here("in/b.jsonl", *other)
        begin(worker, work, method)

    monkeypatch.setattr(Worker, "__init__", begin_another_before)
    assert batch_here("in").code == 0
    (second,) = found
    assert second.code == code
    said = f"{folder}/out: another batch writes there, of another model, format or column; wait for it, or choose another folder"
    assert not code or refusal(second) == said
    refuse_anything_else(folder / "out")
    assert batch_here("in/b.jsonl", *other).code == 0  # the first one has ended


# What cannot be read


def test_a_poisoned_row_is_marked_and_counted(folder: Path, batch: Batch) -> None:
    lines = [
        '{"text": "the film"}',
        "rubbish",
        '{"text": 7}',
        "{}",
        "[]",
        '{"text": "superb"}',
        "\ud800".encode("utf-8", "replace").decode(),
    ]
    (folder / "in" / "b.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"text": "not \xff UTF-8"}\n')
    result = batch("in", "--json")
    assert result.code == 0
    assert (summary_of(result)["unreadable"], summary_of(result)["rows"]) == (5, 68)
    rows = [row for row in rows_of(folder / "out") if row["file"].endswith("b.jsonl")]
    assert [row["row"] for row in rows if row["flags"] == "unreadable"] == [2, 3, 4, 5, 7]
    assert {(row["label"], row["probabilities"]) for row in rows if row["flags"] == "unreadable"} == {(None, None)}
    faults = json.loads(next((folder / "out").glob("_b-*")).read_bytes())["faults"]
    assert faults[1] == f'{folder}/in/b.jsonl:3: the text "text" is the value 7'
    assert len(faults) == 5


def test_plain_lines_that_look_like_another_format_are_told(folder: Path, batch: Batch) -> None:
    (folder / "in" / "a.txt").write_text("__label__pos the film\n")
    warning = f"{folder}/in/a.txt: read as plain lines, though the first begins with __label__"
    warning += "; add --format fasttext, or --format lines if that is right"
    result = batch("in", "--json")
    assert (result.code, result.stderr) == (0, f"{warning}\n")
    assert summary_of(result)["warnings"] == {f"{folder}/in/a.txt": [warning]}
    assert json.loads(next((folder / "out").glob("_a-*")).read_bytes())["warnings"] == [warning]
    assert batch("in").stderr == ""  # the part is there


def test_bytes_that_are_not_utf_8_are_told(folder: Path, batch: Batch) -> None:
    (folder / "in" / "a.txt").write_bytes(b"the caf\xe9\n")
    result = batch("in")
    warning = f"{folder}/in/a.txt:1: not UTF-8: byte 0xE9 at place 8 of the line; such bytes are read as U+FFFD"
    hint = "save it as UTF-8, or if it is from Windows, read it with --encoding windows-1252"
    assert (result.code, result.stderr) == (0, f"{warning}; {hint}\n")


def test_a_poisoned_file_is_reported_and_the_rest_goes_on(folder: Path, batch: Batch) -> None:
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
        f"{source}/b.jsonl": f"{source}/b.jsonl:1: JSON that goes on over further lines; nor can any other record be read",
        f"{source}/gone.txt": f"{source}/gone.txt: no such file",
        f"{source}/more/c.jsonl.gz": f"{source}/more/c.jsonl.gz: the gzip data is cut short or damaged; copy or compress the file again",
    }
    assert sorted(result.stderr.splitlines()) == sorted(f"failed: {fault}" for fault in failed.values())
    refuse_anything_else(folder / "out")
    assert {os.path.relpath(row["file"], folder / "in") for row in rows_of(folder / "out")} == {"a.txt", "more/d.csv", "new.txt"}


def test_a_batch_that_fails_leaves_the_part_of_an_earlier_one(folder: Path, batch_here: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_here("in/more/d.csv")
    before, opened = tree(folder / "out"), LocalFiles.open

    def refuse(files: LocalFiles, path: str) -> IO[bytes]:
        if path.endswith(".csv"):
            raise OSError(errno.EIO, "Input/output error")
        return opened(files, path)

    assert batch_here("in/more/d.csv", "--text-column", "review").code == 1
    os.utime(folder / "in" / "more" / "d.csv")  # the same bytes
    assert batch_here("in/more/d.csv", "--format", "jsonl").code == 1
    small_checkpoint_file(folder / "model.keras", seed=1)
    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "open", refuse)
        result = batch_here("in/more/d.csv")
    assert (result.code, result.stderr) == (1, f"failed: {folder}/in/more/d.csv: cannot be read: Input/output error\n")
    assert tree(folder / "out") == before


@pytest.mark.parametrize("part_format", ["jsonl", "parquet"])
def test_a_file_that_breaks_off_is_told_in_a_line(part_format: str, folder: Path, batch: Batch) -> None:
    (folder / "in" / "bad.csv.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    result = batch("in/bad.csv.gz", "--output-format", part_format)
    assert (result.code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(f"failed: {folder}/in/bad.csv.gz: the gzip data is ")
    assert [*(folder / "out").iterdir()] == []


def test_a_folder_that_cannot_be_read_is_not_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("/more"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(MhaError, match="in/more: cannot be read: Permission denied; make it readable, or name the others"):
        list(LocalFiles().matching(f"{folder}/in"))


def test_a_file_that_goes_while_a_folder_is_listed_is_none_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.lstat
    whole = [found.path for found in LocalFiles().matching(f"{folder}/in")]

    def gone(path: Any) -> Any:
        return status(f"{path}.gone" if str(path).endswith("b.jsonl") else path)

    monkeypatch.setattr(os, "lstat", gone)
    assert [found.path for found in LocalFiles().matching(f"{folder}/in")] == [path for path in whole if not path.endswith("b.jsonl")]


def test_an_archive_of_nothing_but_faults_is_no_success(folder: Path, batch: Batch) -> None:
    assert batch("in/b.jsonl", "--text-column", "review").code == 1
    assert [*(folder / "out").iterdir()] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_ends_it(folder: Path, batch: Batch) -> None:
    (folder / "out").mkdir(mode=0o500)
    assert "cannot be written" in batch("in").stderr


# Signals and kills


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_process_that_is_killed_is_replaced_three_times(
    times: int, folder: Path, batch_here: Batch, monkeypatch: pytest.MonkeyPatch
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
def test_a_batch_that_is_ended_goes_on(number: int, code: int, said: str, folder: Path, batch: Batch) -> None:
    counts = write_archive(folder / "long", rows=500)
    for copy in range(10):
        shutil.copy(folder / "long" / "a.txt", folder / "long" / f"{copy}.txt")
        counts[f"{folder}/long/{copy}.txt"] = 500
    arguments = ["batch", "long", "-o", "out", "-c", "model.keras", "--workers", "2"]
    with fork(arguments, folder, text=True) as process:
        while not [*folder.glob("out/_*")]:
            assert process.poll() is None
            time.sleep(0.01)
        started = children(process.pid)
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


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_terminal_shows_only_how_far_it_is(folder: Path) -> None:
    result = run_on_terminal("batch", "in", "-o", "out", "-c", "model.keras", cwd=folder, stream="stderr")
    assert result.code == 0, result
    shown = [text for text in re.split(r"[\r\n]|\x1b\[\??[0-9]*[a-zA-Z]", result.stderr) if len(text) > 1]
    assert [text for text in shown if not re.fullmatch(r" (looking for files|files: .* texts/s)", text)] == []


def test_a_kill_at_any_rename_or_removal_is_made_good(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.batch.kills", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["faults"] == []
    assert told["operations"].count("replace .json") == 10
    assert told["operations"].count("replace .jsonl") == 10
