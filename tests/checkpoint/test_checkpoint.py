from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import random
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from mha_cli.checkpoint.archive import open_archive
from mha_cli.checkpoint.file import MEMBERS, Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.config.settings import FilesData
from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError
from tests.checkpoints import damaged, members_of, rewrite, small_checkpoint, small_checkpoint_file, write_archive
from tests.cli.command import environment

if TYPE_CHECKING:
    from collections.abc import Callable

WAY_OUT = "give a checkpoint that `mha train` wrote"
NOT_ONE_AFTER_ANOTHER = "is cut off, or holds more than its members one after another"
HEAD = "layers/dense/vars/0"
"""Where the classifier's kernel lies in the weights; its shape is (14, 1)."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkpoint, alone in the current folder."""
    monkeypatch.chdir(tmp_path)
    return small_checkpoint_file(Path("a.keras"))


def error_of(path: str | Path) -> str:
    with pytest.raises(MhaError) as raised:
        read_checkpoint(Path(path))
    assert raised.value.exit_code == EXIT_USAGE
    assert str(raised.value).isprintable()
    return str(raised.value)


def same(first: Checkpoint, second: Checkpoint) -> bool:
    return (
        (first.config, first.class_names, first.metrics, first.keras_config, first.thresholds)
        == (second.config, second.class_names, second.metrics, second.keras_config, second.thresholds)
        and first.vocabulary.tokens == second.vocabulary.tokens
        and first.weights.keys() == second.weights.keys()
        and all(np.array_equal(weight, second.weights[path]) for path, weight in first.weights.items())
    )


def test_it_is_read_where_there_is_no_thread_to_be_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    whole = read_checkpoint(path)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert same(read_checkpoint(path), whole)


# What is shown of one


def test_a_checkpoint_shows_itself_in_a_line(path: Path) -> None:
    found = read_checkpoint(path)
    number = sum(weight.size for weight in found.weights.values())
    shown = f"<Checkpoint a.keras: {number:,} weights; 14 wide, heads 2; 13 ids; classes neg, pos; validation accuracy 75.00%>"
    assert str(found) == repr(found) == shown
    odd = small_checkpoint(("[bold]\x1b[31m", "é" * 300), num_blocks=2, num_heads=[1, 2], key_dim=3)
    shown = repr(dataclasses.replace(odd, metrics={}))
    assert shown.isprintable()
    assert shown.startswith("<Checkpoint in memory: ")
    assert "heads 1 + 2; 13 ids; classes [bold]\\x1b[31m, é" in shown
    assert shown.endswith("…>")


# There and back


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"positions": "none"},
        {"positions": "sinusoidal", "num_blocks": 3},
        {"key_dim": 3},
        {"max_ngram": 3, "ngram_buckets": 8, "subword_buckets": 8},
    ],
)
@pytest.mark.parametrize("class_names", [("neg", "pos"), ("1", "2", "[bold]\x1b[31m", "é\n🙂", "")])
def test_what_is_written_is_read(model: dict[str, Any], class_names: tuple[str, ...], tmp_path: Path) -> None:
    checkpoint = small_checkpoint(class_names, **model)
    write_checkpoint(tmp_path / "a.keras", checkpoint)
    assert same(read_checkpoint(tmp_path / "a.keras"), checkpoint)
    assert os.listdir(tmp_path) == ["a.keras"]


def test_a_config_that_names_hundreds_of_files_is_read_again_and_one_that_could_not_be_is_not_written(path: Path) -> None:
    plain = small_checkpoint()

    def named(number: int) -> Checkpoint:
        files = [f"/données/reviews/2024/part-{part:05}-of-{number:05}.jsonl.gz" for part in range(number)]
        data = FilesData(source="files", train=files)
        return dataclasses.replace(plain, config=plain.config.model_copy(update={"data": data}))

    write_checkpoint(path, named(1_500))
    assert same(read_checkpoint(path), named(1_500))
    with pytest.raises(MhaError) as raised:
        write_checkpoint(path, named(5_000))
    assert str(raised.value) == "a.keras: the settings are too long to be read again; name files by patterns, such as 'parts/*.csv'"
    assert same(read_checkpoint(path), named(1_500))


@pytest.mark.parametrize("small", [False, True])
def test_thresholds_are_written_and_change_nothing_else(small: bool, path: Path) -> None:
    write_checkpoint(path, small_checkpoint(), small)
    before = read_checkpoint(path)
    assert before.thresholds == {}
    with_thresholds = dataclasses.replace(before, thresholds={"pos": 2 / 3, "neg": 0.0})
    write_checkpoint(path, with_thresholds, small)
    found = read_checkpoint(path)
    assert same(found, with_thresholds)
    assert found.thresholds["pos"] == 2 / 3  # to the last digit


def test_a_description_that_could_not_be_read_again_is_not_written(path: Path) -> None:
    before, name = path.read_bytes(), "n" * 490_000
    named = small_checkpoint((name, "x" * 500_000))
    write_checkpoint(path, named)
    assert same(read_checkpoint(path), named)
    with pytest.raises(MhaError) as raised:
        write_checkpoint(path, dataclasses.replace(named, thresholds={name: 0.5}))
    assert str(raised.value) == "a.keras: the names of the classes are too long to be read again; give them shorter ones"
    assert path.read_bytes() != before
    assert same(read_checkpoint(path), named)


def test_it_is_a_keras_archive_with_two_members_more(path: Path) -> None:
    members = members_of(path)
    assert tuple(members) == MEMBERS == ("metadata.json", "config.json", "model.weights.h5", "vocabulary.txt", "mha.json")
    assert json.loads(members["metadata.json"])["keras_version"].startswith("3.")
    assert members["config.json"] == b'{"of": "Keras"}'
    assert members["vocabulary.txt"].decode().split("\n")[:2] == ["the", "film"]
    description = json.loads(members["mha.json"])
    assert description["format"] == 3
    assert description["class_names"] == ["neg", "pos"]
    assert description["config"]["model"]["embed_dim"] == 14
    with zipfile.ZipFile(path) as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


def test_an_empty_vocabulary(path: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from mha_cli.text.vocabulary import Vocabulary

    checkpoint = small_checkpoint()
    weights = {**checkpoint.weights, "embedding/token_embeddings": np.ones((2, 14), np.float32)}
    empty = replace(checkpoint, vocabulary=Vocabulary([]), weights=weights)
    write_checkpoint(path, empty)
    assert same(read_checkpoint(path), empty)


def test_weights_of_the_wrong_shape_are_not_written(path: Path) -> None:
    before = path.read_bytes()
    checkpoint = small_checkpoint()
    checkpoint.weights["classifier/kernel"] = np.zeros((14, 2), np.float32)  # type: ignore[index]
    with pytest.raises(ValueError, match=r"classifier/kernel has the shape \(14, 2\); the settings imply \(14, 1\)"):
        write_checkpoint(path, checkpoint)
    assert path.read_bytes() == before
    assert os.listdir() == ["a.keras"]


# An earlier checkpoint is never lost


@pytest.mark.parametrize("member", MEMBERS)
def test_a_write_that_fails_half_way_keeps_the_earlier_one(member: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    writestr = zipfile.ZipFile.writestr

    def write_until(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, data: bytes) -> None:
        if entry.filename == member:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        writestr(archive, entry, data)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", write_until)
    with pytest.raises(MhaError) as raised:
        write_checkpoint(path, small_checkpoint(seed=1))
    assert str(raised.value) == "a.keras: cannot be written: No space left on device; the earlier file, if any, is unchanged"
    assert raised.value.exit_code == EXIT_FAILURE
    assert path.read_bytes() == before
    assert os.listdir() == ["a.keras"]


def test_a_folder_that_is_not_there(path: Path) -> None:
    with pytest.raises(MhaError, match=r"^no/a\.keras: cannot be written: No such file or directory; choose a folder that exists"):
        write_checkpoint(Path("no/a.keras"), small_checkpoint())


# Files that are no checkpoint


def plain_zip(path: Path) -> None:
    write_archive(path, {"hello.txt": b"hello"})


def keras_own(path: Path) -> None:
    members = members_of(small_checkpoint_file(path))
    write_archive(path, {name: members[name] for name in ("metadata.json", "config.json", "model.weights.h5")})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: path.write_text("The film was superb.\n"), "x.keras: damaged, or no checkpoint (File is not a zip file); WAY_OUT"),
        (lambda path: path.write_bytes(b"PK\x05\x06" + bytes(18)), "x.keras: not a checkpoint of mha: has no metadata.json; WAY_OUT"),
        (plain_zip, "x.keras: not a checkpoint of mha: has no metadata.json; WAY_OUT"),
        (keras_own, "x.keras: not a checkpoint of mha: Keras saved it, without mha's settings and vocabulary; WAY_OUT"),
    ],
)
def test_what_is_no_checkpoint(make: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("x.keras"))
    assert error_of("x.keras") == message.replace("WAY_OUT", WAY_OUT)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.csv", "x.csv: is data, not a checkpoint; give it with --data x.csv, or to `mha predict` with --input x.csv"),
        (
            "x.jsonl.gz",
            "x.jsonl.gz: is data, not a checkpoint; give it with --data x.jsonl.gz, or to `mha predict` with --input x.jsonl.gz",
        ),
        ("x.parquet", "x.parquet: is data, not a checkpoint; give it with --data x.parquet, or to `mha predict` with --input x.parquet"),
        ("x.yaml", "x.yaml: is a config, not a checkpoint; `mha train --config x.yaml` makes a checkpoint"),
        ("x.onnx", "x.onnx: is an export for other programs, not a checkpoint; give the checkpoint that it was made from"),
        ("x/saved_model.pb", f"x: is a SavedModel, which mha exports and does not read; {WAY_OUT}"),
    ],
)
def test_other_kinds_of_files_are_named(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    Path(name).write_text("text,label\n")
    assert error_of(name.partition("/")[0]) == message


@pytest.mark.parametrize("url", ["https://example.org/a.keras", "file:///tmp/a.keras"])
def test_urls(url: str) -> None:
    assert error_of(url) == f"{url.replace('///', '//')}: is a URL, and mha opens files only; download it, then give the file"


def test_names_that_no_file_can_have() -> None:
    assert error_of("\x1b[31m" * 100).startswith(r"\x1b[31m\x1b[31m")


def test_damage_anywhere_is_refused_or_harmless(path: Path) -> None:
    whole, checkpoint = path.read_bytes(), small_checkpoint()
    rng = random.Random(0)
    refused = 0
    for _ in range(400):
        path.write_bytes(damaged(whole, rng, end=400))
        try:
            assert same(read_checkpoint(path), checkpoint)
        except MhaError as error:
            refused += 1
            assert str(error).startswith("a.keras: ")
            assert str(error).isprintable()
    assert refused > 200


def test_what_to_do_with_another_format_and_with_damage(path: Path) -> None:
    rewrite(path, format=4)
    assert error_of(path) == "a.keras: has format 4; this version of mha reads format 3; update mha, or train anew"
    rewrite(path, format=3)
    members = members_of(path)
    write_archive(path, members | {"config.json": b"{}"})
    assert error_of(path) == "a.keras: config.json is damaged (its checksum does not fit); fetch or train it anew"


# Weights


def with_weights(path: Path, change: Callable[[h5py.File], object]) -> None:
    """Rewrite the checkpoint with weights changed inside their HDF5 file, its checksums fitting again."""
    buffer = io.BytesIO(members_of(path)["model.weights.h5"])
    with h5py.File(buffer, "r+") as file:
        change(file)
    rewrite(path, {"model.weights.h5": buffer.getvalue()})


def replaced(**dataset: Any) -> Callable[[h5py.File], object]:
    """A change that puts another dataset in the place of the classifier's kernel."""

    def change(file: h5py.File) -> None:
        del file[HEAD]
        file.create_dataset(HEAD, **dataset)

    return change


def linked(link: object) -> Callable[[h5py.File], object]:
    """A change that puts a link in the place of the classifier's kernel."""

    def change(file: h5py.File) -> None:
        del file[HEAD]
        file[HEAD] = link

    return change


def virtual(file: h5py.File) -> None:
    """The classifier's kernel as a view of another file."""
    del file[HEAD]
    layout = h5py.VirtualLayout((14, 1), np.float32)
    layout[:] = h5py.VirtualSource("other.h5", "x", (14, 1))
    file.create_virtual_dataset(HEAD, layout)


def external(file: h5py.File) -> None:
    """The classifier's kernel as a part of any file."""
    del file[HEAD]
    file.create_dataset(HEAD, (14, 1), np.float32, external=[("/etc/passwd", 0, 56)])


def test_weights_that_are_no_numbers(path: Path) -> None:
    with_weights(path, lambda file: file[HEAD].write_direct(np.full((14, 1), np.nan, np.float32)))
    assert error_of(path) == "a.keras: the weight classifier/kernel holds NaN or infinite numbers; train anew, with a lower learning rate"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(data=np.zeros((1, 14), np.float32)), "HEAD has the shape (1, 14), not (14, 1)"),
        (replaced(data=np.zeros((14, 1), np.float64)), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=np.zeros((14, 1), ">f4")), "HEAD does not hold little-endian float32 numbers"),
        (replaced(shape=(14, 1), dtype=h5py.ref_dtype), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=h5py.Empty("f4")), "HEAD has no plain shape"),
        (replaced(shape=(14, 1), dtype=np.float32), "HEAD does not lie in the file"),
        (replaced(data=np.zeros((14, 1), np.float32), maxshape=(14, None)), "HEAD can grow"),
        (replaced(data=np.zeros((14, 1), np.float32), chunks=(7, 1)), "HEAD is not stored as one plain block"),
        (replaced(data=np.zeros((14, 1), np.float32), compression="gzip"), "HEAD has more than a plain array or group has"),
        (lambda file: file[HEAD].attrs.create("a", 1), "HEAD has more than a plain array or group has"),
        (virtual, "HEAD has more than a plain array or group has"),
        (external, "HEAD has more than a plain array or group has"),
        (linked(h5py.SoftLink("/layers/positional_embedding/vars/0")), "0 is a link"),
        (linked(h5py.ExternalLink("/tmp/other.h5", "/x")), "layers/dense/vars has more than a plain array or group has"),
        (lambda file: file.pop(HEAD), "HEAD is missing"),
        (
            lambda file: file.create_dataset("layers/another\x1b[31m/vars/0", data=np.zeros(3)),
            r"holds layers/another\x1b[31m, which does not belong there",
        ),
    ],
)
def test_weights_that_do_not_fit(change: Callable[[h5py.File], object], message: str, path: Path) -> None:
    with_weights(path, change)
    assert error_of(path) == f"a.keras: model.weights.h5: {message.replace('HEAD', HEAD)}; {WAY_OUT}"


# While it is read


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(path: Path) -> None:
    before = members_of(path)["model.weights.h5"]
    write_checkpoint(Path("b.keras"), small_checkpoint(seed=1))
    with open_archive(path, MEMBERS) as archive:
        os.replace("b.keras", path)
        assert archive.read("model.weights.h5", len(before))[0] == before
    assert members_of(path)["model.weights.h5"] != before


def test_a_file_that_is_cut_while_it_is_read(path: Path) -> None:
    size = len(members_of(path)["model.weights.h5"])
    with pytest.raises(MhaError, match=r"^a\.keras: "), open_archive(path, MEMBERS) as archive:
        os.truncate(path, 1000)
        archive.read("model.weights.h5", size)


# What reading takes

READ = r"""
import json, re, sys
from pathlib import Path
from mha_cli.checkpoint.file import read_checkpoint

def peak():  # not ru_maxrss, which counts what the parent had when it started this process
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

read_checkpoint(Path(sys.argv[2]))  # imports what is imported late
events, idle = [], peak()
sys.addaudithook(lambda event, arguments: events.append((event, str(arguments[:1]))))
checkpoint = read_checkpoint(Path(sys.argv[1]))
noted = [event for event in events if event[0].split(".")[0] in {"open", "socket", "os", "subprocess", "ctypes", "shutil", "tempfile"}]
print(json.dumps([peak() - idle, noted]))
"""


def test_reading_takes_little_memory_and_opens_nothing_else(path: Path) -> None:
    write_checkpoint(path, small_checkpoint(max_ngram=2, ngram_buckets=2**21))
    small, size = small_checkpoint_file(Path("small.keras")), path.stat().st_size
    assert size > 60_000_000
    done = subprocess.run([sys.executable, "-c", READ, path, small], capture_output=True, check=True, env=environment())
    memory, noted = json.loads(done.stdout)
    assert memory < 2 * size + 64_000_000
    assert [event for event, argument in noted if argument not in {"(PosixPath('a.keras'),)", "('a.keras',)", "(3,)"}] == []


def test_declared_sizes_take_no_memory(path: Path) -> None:
    small_checkpoint_file(Path("b.keras"))
    config = json.loads(members_of(small_checkpoint_file(path, embed_dim=50))["mha.json"])["config"]
    rewrite(path, config=config | {"model": config["model"] | {"max_ngram": 2, "ngram_buckets": 2**24}})  # 3.4 GB
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000,) * 2){READ}"
    done = subprocess.run([sys.executable, "-c", limited, path, "b.keras"], capture_output=True, text=True, check=False, env=environment())
    assert "model.weights.h5: layers/positional_embedding/vars/2 is missing" in done.stderr.splitlines()[-1]
