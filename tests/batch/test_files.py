"""Files behind pyarrow's file systems; that of this machine stands in for one elsewhere."""

import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from mha_cli.batch.files import Folder, LocalFiles, RemoteFiles, files_of
from mha_cli.batch.part import Job, classify_shard
from mha_cli.batch.run import classify_here
from mha_cli.batch.shards import Shard
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.runtime.classifier import Classifier
from tests.batch.archive import refuse_anything_else, rows_of, write_archive
from tests.checkpoints import small_checkpoint
from tests.cli.command import tree
from tests.errors import error_of


@pytest.fixture
def remote() -> RemoteFiles:
    return RemoteFiles(fs.LocalFileSystem())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("more/", ["more/c.jsonl.gz", "more/d.csv", "more/empty.txt"]),
        ("a.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "more/empty.txt"]),
        ("**", ["a.txt", "b.jsonl", "more/c.jsonl.gz", "more/d.csv", "more/empty.txt"]),
        ("*/[!c]*.[ct]*", ["more/d.csv", "more/empty.txt"]),
        ("m*/*", ["more/c.jsonl.gz", "more/d.csv", "more/empty.txt"]),
    ],
)
def test_names_and_patterns(pattern: str, expected: list[str], remote: RemoteFiles, tmp_path: Path) -> None:
    write_archive(tmp_path / "in")
    found = sorted(remote.matching(f"{tmp_path}/in/{pattern}"))
    assert [path.removeprefix(f"{tmp_path}/in/") for path, _, _ in found] == expected
    assert all(size == (tmp_path / path).stat().st_size for path, size, _ in found)


def test_what_is_not_there(remote: RemoteFiles, tmp_path: Path) -> None:
    for pattern in ("nowhere", "*.xyz", "a.txt/b"):
        message = error_of(lambda pattern: [*remote.matching(pattern)], f"{tmp_path}/{pattern}")
        assert message == f"local://{tmp_path}/{pattern}: no such file or folder; check the name"
    assert remote.status(f"{tmp_path}/x") is None
    with pytest.raises(FileNotFoundError):
        remote.open(f"{tmp_path}/x")
    remote.remove(f"{tmp_path}/x")


def test_a_file_is_there_when_it_is_whole(remote: RemoteFiles, tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(RuntimeError), remote.written(str(path)) as file:
        file.write(b"half")
        raise RuntimeError
    assert tree(tmp_path) == {}
    with remote.written(str(path)) as file:
        file.write(b"whole")
        file.flush()
        assert tree(tmp_path) == {}
    assert tree(tmp_path) == {"x": b"whole"}
    with remote.written(str(path)):
        pass
    with remote.open(str(path)) as file:
        assert file.read() == b""
    with pytest.raises(MhaError, match=f"^local://{tmp_path}/no/folder: ") as raised, remote.written(f"{tmp_path}/no/folder"):
        pass
    assert raised.value.exit_code == EXIT_FAILURE


def test_files_elsewhere_are_read_by_processes_that_are_not_forked(remote: RemoteFiles, tmp_path: Path) -> None:
    write_archive(tmp_path / "in")
    output = Folder(str(tmp_path / "out"))
    output.files = remote
    output.make()
    shards = [Shard(remote, str(tmp_path / "in" / name), "lines", 0) for name in ("a.txt", "b.jsonl")]
    job = Job(Classifier(small_checkpoint()), "0", output)
    assert {(report.name, report.rows, report.fault) for report in classify_here(shards, job, 2)} == {(one.name, 20, "") for one in shards}
    assert all(classify_shard(shard, job).earlier for shard in shards)
    refuse_anything_else(tmp_path / "out")


def test_the_client_of_an_object_store_works_in_another_process() -> None:
    once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    system = fs.S3FileSystem(anonymous=True, endpoint_override="127.0.0.1:9", scheme="http", region="x", retry_strategy=once)
    output = Folder("/nowhere")
    output.files = RemoteFiles(system)
    job = Job(Classifier(small_checkpoint()), "0", output)
    (report,) = classify_here([Shard(output.files, "bucket/a.txt", "lines", 0)], job, 1)
    assert report.fault.startswith("s3://bucket/a.txt: cannot be read: ")


def test_the_parts_are_the_same_but_for_the_name(remote: RemoteFiles, tmp_path: Path) -> None:
    write_archive(tmp_path / "in")
    rows, classifier = [], Classifier(small_checkpoint())
    for files, name in ((LocalFiles(), "here"), (pickle.loads(pickle.dumps(remote)), "there")):
        output = Folder(str(tmp_path / name))
        output.files = files
        output.make()
        job = Job(classifier, "0", output)
        for source, form in (("in/a.txt", "lines"), ("in/more/c.jsonl.gz", "jsonl")):
            shard = Shard(files, str(tmp_path / source), form, 0)  # type: ignore[arg-type]
            assert not classify_shard(shard, job).earlier
            assert classify_shard(shard, job).earlier
        gone = classify_shard(Shard(files, str(tmp_path / "gone"), "lines", 0), job)
        assert gone.fault == f"{files.name(str(tmp_path / 'gone'))}: no such file"
        refuse_anything_else(tmp_path / name)
        rows.append([row | {"file": row["file"].removeprefix("local://")} for row in rows_of(tmp_path / name)])
    assert sorted(map(json.dumps, rows[0])) == sorted(map(json.dumps, rows[1]))


@pytest.mark.parametrize("given", ["ftp://user:secret@x/y?password=secret", "gs:///", "://x"])
def test_a_uri_that_is_none(given: str) -> None:
    message = error_of(files_of, given)
    assert message.endswith("; give a path, or a URI such as s3://bucket/folder")
    assert "secret" not in message


def test_a_uri_that_needs_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(_uri: str) -> None:
        raise ImportError("Install huggingface_hub")

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=lacks))
    assert error_of(files_of, "hf://a/b.txt").startswith("hf://a/b.txt: Install huggingface_hub; give a path, or a URI such as ")
