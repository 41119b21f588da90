from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import random
import struct
import subprocess
import sys
import threading
import zipfile
from fnmatch import fnmatchcase
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
    from collections.abc import Callable, Mapping

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
        (lambda path: None, "x.keras: no such file; WAY_OUT"),
        (lambda path: path.touch(), "x.keras: is empty; WAY_OUT"),
        (lambda path: path.mkdir(), "x.keras: is a folder without checkpoint.keras; WAY_OUT"),
        (lambda path: path.symlink_to("/dev/null"), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: path.symlink_to("/dev/zero"), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: os.mkfifo(path), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: path.symlink_to("x.keras"), "x.keras: cannot be read: Too many levels of symbolic links; WAY_OUT"),
        (lambda path: path.write_text("The film was superb.\n"), "x.keras: damaged, or no checkpoint (File is not a zip file); WAY_OUT"),
        (
            lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" * 99),
            "x.keras: is an HDF5 file, as old versions of Keras wrote, not a checkpoint of mha; WAY_OUT",
        ),
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


@pytest.mark.parametrize("url", ["https://example.org/a.keras", "gs://bucket/a.keras", "file:///tmp/a.keras"])
def test_urls(url: str) -> None:
    assert error_of(url) == f"{url.replace('///', '//')}: is a URL, and mha opens files only; download it, then give the file"


def test_names_that_no_file_can_have() -> None:
    assert fnmatchcase(error_of("a\0b"), rf"a\x00b: cannot be read: *embedded null *; {WAY_OUT}")  # Python 3.13 says it in other words
    assert error_of("\x1b[31m" * 100).startswith(r"\x1b[31m\x1b[31m")
    assert error_of(Path("/dev/null")) == f"/dev/null: is not a regular file; {WAY_OUT}"


# Archives that hold something else than they should


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_is_missing(member: str, path: Path) -> None:
    members = members_of(path)
    del members[member]
    write_archive(path, members)
    assert error_of(path) == f"a.keras: not a checkpoint of mha: has no {member}; {WAY_OUT}"


@pytest.mark.parametrize("name", ["extra.txt", "../../escape", "/etc/passwd", "assets/", "model.weights.json"])
def test_a_member_too_many(name: str, path: Path) -> None:
    write_archive(path, members_of(path) | {name: b""})
    assert error_of(path) == f"a.keras: not a checkpoint of mha: has members that do not belong there; {WAY_OUT}"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("mha.json", "{}")
    assert error_of(path) == f"a.keras: not a checkpoint of mha: has members that do not belong there; {WAY_OUT}"


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members(compression: int, path: Path) -> None:
    write_archive(path, members_of(path), compression)
    assert error_of(path) == f"a.keras: holds compressed members; {WAY_OUT}"


def test_a_member_that_is_a_link(path: Path) -> None:
    members = members_of(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if name == "vocabulary.txt" else 0o100644) << 16
            archive.writestr(entry, data)
    assert error_of(path) == f"a.keras: holds members that are no regular files; {WAY_OUT}"


def test_a_directory_of_many_members(path: Path) -> None:
    write_archive(path, {f"{number}": b"" for number in range(5000)})
    assert error_of(path) == f"a.keras: damaged, or no checkpoint (its directory is too large); {WAY_OUT}"


def test_members_that_share_their_bytes(path: Path) -> None:
    members = members_of(path) | {"config.json": b"x" * 50_000}
    write_archive(path, members)
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = {entry.filename: entry.header_offset for entry in archive.infolist()}
    directory = raw.rindex(b"PK\1\2", 0, raw.rindex(b"vocabulary.txt"))
    raw[directory + 20 : directory + 28] = (50_000).to_bytes(4, "little") * 2
    raw[directory + 42 : directory + 46] = start["config.json"].to_bytes(4, "little")
    path.write_bytes(raw)
    assert error_of(path) == f"a.keras: {NOT_ONE_AFTER_ANOTHER}; {WAY_OUT}"


def test_a_name_that_goes_on_behind_a_null_byte(path: Path) -> None:
    raw = write_archive(path, {name.replace("mha.json", "mha.json@evil"): data for name, data in members_of(path).items()}).read_bytes()
    path.write_bytes(raw.replace(b"mha.json@evil", b"mha.json\0evil"))
    assert error_of(path) == f"a.keras: not a checkpoint of mha: has no mha.json; {WAY_OUT}"


def with_comment(whole: bytes, other: bytes) -> bytes:
    return whole[:-2] + len(other).to_bytes(2, "little") + other


def between(whole: bytes, other: bytes) -> bytes:
    """An archive between the members of another and their directory."""
    directory = struct.unpack_from("<I", whole, len(whole) - 6)[0]
    return whole[:directory] + other + whole[directory:-6] + struct.pack("<IH", directory + len(other), 0)


@pytest.mark.parametrize(
    "change",
    [
        with_comment,
        lambda whole, other: with_comment(whole, other + b"."),
        lambda whole, other: with_comment(whole, b"a remark"),
        lambda whole, other: other + whole,
        lambda whole, other: whole + b"\0",
        between,
    ],
    ids=["comment", "comment that goes on", "any comment", "in front", "behind", "between"],
)
def test_an_archive_inside_another(change: Callable[[bytes, bytes], bytes], path: Path) -> None:
    other = small_checkpoint_file(Path("b.keras"), embed_dim=2).read_bytes()
    assert len(other) < 1 << 16
    path.write_bytes(change(path.read_bytes(), other))
    assert error_of(path) == f"a.keras: {NOT_ONE_AFTER_ANOTHER}; {WAY_OUT}"


@pytest.mark.parametrize("member", ["metadata.json", "config.json", "vocabulary.txt", "model.weights.h5"])
def test_a_member_that_was_changed(member: str, path: Path) -> None:
    members = members_of(path)
    data = bytearray(members[member])
    data[len(data) // 2] ^= 1
    write_archive(path, members | {member: bytes(data)})
    assert error_of(path) == f"a.keras: {member} is damaged (its checksum does not fit); fetch or train it anew"


@pytest.mark.parametrize("size", [30, 1000, -100, -1])
def test_a_truncated_file(size: int, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert error_of(path).startswith("a.keras: damaged, or no checkpoint (")


def test_a_flipped_bit_of_a_weight(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    kernel = small_checkpoint().weights["classifier/kernel"].tobytes()
    raw[raw.index(kernel)] ^= 1
    path.write_bytes(raw)
    assert error_of(path) == f"a.keras: damaged, or no checkpoint (Bad CRC-32 for file 'model.weights.h5'); {WAY_OUT}"


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


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"format": 4}, "has format 4; this version of mha reads format 3; update mha, or train anew"),
        ({"format": None}, "has format None; this version of mha reads format 3; update mha, or train anew"),
        ({"format": "\x1b[31m"}, r"has format '\x1b[31m'; this version of mha reads format 3; update mha, or train anew"),
        ({"sha256": None}, "has no checksums; WAY_OUT"),
        ({"sha256": {}}, "vocabulary.txt is damaged (its checksum does not fit); fetch or train it anew"),
        ({"metrics": None}, "its metrics are not finite numbers; WAY_OUT"),
        ({"metrics": {"accuracy": "high"}}, "its metrics are not finite numbers; WAY_OUT"),
        ({"metrics": {"accuracy": True}}, "its metrics are not finite numbers; WAY_OUT"),
        ({"metrics": {"accuracy": float("nan")}}, "its metrics are not finite numbers; WAY_OUT"),
        ({"metrics": {"accuracy": 10**400}}, "damaged, or no checkpoint (int too large to convert to float); WAY_OUT"),
        ({"thresholds": None}, "its thresholds are not those of its classes; WAY_OUT"),
        ({"thresholds": {"other": 0.5}}, "its thresholds are not those of its classes; WAY_OUT"),
        ({"thresholds": {"pos": 1.5}}, "its thresholds are not numbers from 0 to 1; WAY_OUT"),
        ({"thresholds": {"pos": float("nan")}}, "its thresholds are not numbers from 0 to 1; WAY_OUT"),
        ({"thresholds": {"pos": True}}, "its thresholds are not numbers from 0 to 1; WAY_OUT"),
        ({"class_names": None}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": []}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one"]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", "one"]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", 2]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", {}, []]}, "its class names are not two or more distinct words; WAY_OUT"),
        (
            {"class_names": ["one", "two", "three"]},
            "model.weights.h5: layers/dense/vars/0 has the shape (14, 1), not (14, 3); WAY_OUT",
        ),
        ({"config": None}, "mha.json: the config is None, not a section of settings; write `key: value` lines below it"),
        ({"config": {"model": {"num_heads": [0] * 70_000}}}, "mha.json: the config has more than 200,000 characters; WAY_OUT"),
        ({"config": {"modle": {}}}, "mha.json: modle is not a setting; did you mean model?"),
        (
            {"config": {"model": {"num_heads": 7}}},
            "mha.json: model: num_heads=7 does not divide embed_dim=64; take num_heads=4 or 8, or set key_dim",
        ),
        (
            {"config": {"auto": True, "model": {"score_subwords": True, "score_ngrams": 1, "score_buckets": 16}}},
            "mha.json: auto=true leaves settings open, which a checkpoint has decided; WAY_OUT",
        ),
        ({"config": {"text": {"vocabulary_size": 5}}}, "its vocabulary has 13 ids; its settings allow 5; WAY_OUT"),
    ],
)
def test_a_description_that_does_not_fit(description: dict[str, Any], message: str, path: Path) -> None:
    rewrite(path, **description)
    assert error_of(path).removeprefix("a.keras: ") == message.replace("WAY_OUT", WAY_OUT)


def test_settings_that_imply_other_weights(path: Path) -> None:
    config = json.loads(members_of(path)["mha.json"])["config"]
    rewrite(path, config=config | {"model": config["model"] | {"num_blocks": 2}})
    assert error_of(path) == f"a.keras: model.weights.h5: layers/transformer_encoder_1 is missing; {WAY_OUT}"
    rewrite(path, config=config | {"model": config["model"] | {"feed_forward_dim": 19}})
    assert error_of(path) == (
        f"a.keras: model.weights.h5: layers/transformer_encoder/feed_forward_in/vars/0 has the shape (14, 17), not (14, 19); {WAY_OUT}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "mha.json is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[1]", "mha.json is not an object"),
        (b"[" * 100_000, "mha.json is not valid JSON: "),
        (
            b'{"class_names": ["\\ud800"]}',
            r"mha.json is not valid JSON: 'utf-8' codec can't encode character '\ud800' in position 18: surrogates",
        ),
        (b"\xff\xfe", "mha.json is not valid JSON: "),
        (b" " * 1_000_001, "mha.json has 1,000,001 bytes; at most 1,000,000 belong there"),
    ],
)
def test_a_description_that_is_no_json(text: bytes, message: str, path: Path) -> None:
    write_archive(path, members_of(path) | {"mha.json": text})
    assert error_of(path).startswith(f"a.keras: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda words: words.replace(b"superb", b"film"), "a token stands twice in its vocabulary"),
        (lambda words: b"the\nfilm", "model.weights.h5: layers/positional_embedding/vars/0 has the shape (13, 14), not (4, 14)"),
        (
            lambda words: words.replace(b"superb", b"caf\xe9"),
            "damaged, or no checkpoint ('utf-8' codec can't decode byte 0xe9 in position 16: invalid continuation byte)",
        ),
        (lambda words: b"a" * 11_630, "vocabulary.txt has 11,630 bytes; at most 11,629 belong there"),
        (lambda words: b"\n" * 27, "its vocabulary has 30 ids; its settings allow 29"),
    ],
)
def test_a_vocabulary_that_does_not_fit(change: Callable[[bytes], bytes], message: str, path: Path) -> None:
    rewrite(path, {"vocabulary.txt": change(members_of(path)["vocabulary.txt"])})
    assert error_of(path) == f"a.keras: {message}; {WAY_OUT}"


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


def filled(value: float) -> Callable[[h5py.File], object]:
    """A change that puts a number among the classifier's weights."""

    def change(file: h5py.File) -> None:
        file[HEAD][3, 0] = value

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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(value: float, path: Path) -> None:
    with_weights(path, filled(value))
    assert error_of(path) == "a.keras: the weight classifier/kernel holds NaN or infinite numbers; train anew, with a lower learning rate"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(data=np.zeros((14, 2), np.float32)), "HEAD has the shape (14, 2), not (14, 1)"),
        (replaced(data=np.zeros((1, 14), np.float32)), "HEAD has the shape (1, 14), not (14, 1)"),
        (replaced(data=np.zeros((14, 1), np.float64)), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=np.zeros((14, 1), np.float16)), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=np.zeros((14, 1), ">f4")), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=np.zeros((14, 1), np.int32)), "HEAD does not hold little-endian float32 numbers"),
        (replaced(shape=(14, 1), dtype=h5py.ref_dtype), "HEAD does not hold little-endian float32 numbers"),
        (replaced(data=h5py.Empty("f4")), "HEAD has no plain shape"),
        (replaced(data="hello"), "HEAD has the shape (), not (14, 1)"),
        (replaced(shape=(14, 1), dtype=np.float32), "HEAD does not lie in the file"),
        (replaced(data=np.zeros((14, 1), np.float32), maxshape=(14, None)), "HEAD can grow"),
        (replaced(data=np.zeros((14, 1), np.float32), chunks=(7, 1)), "HEAD is not stored as one plain block"),
        (replaced(data=np.zeros((14, 1), np.float32), compression="gzip"), "HEAD has more than a plain array or group has"),
        (lambda file: file[HEAD].attrs.create("a", 1), "HEAD has more than a plain array or group has"),
        (lambda file: file["layers/dense"].attrs.create("a", 1), "layers/dense has more than a plain array or group has"),
        (virtual, "HEAD has more than a plain array or group has"),
        (external, "HEAD has more than a plain array or group has"),
        (linked(h5py.SoftLink("/layers/positional_embedding/vars/0")), "0 is a link"),
        (linked(h5py.ExternalLink("/tmp/other.h5", "/x")), "layers/dense/vars has more than a plain array or group has"),
        (lambda file: file.move(HEAD, "layers/dense/vars/7"), "holds layers/dense/vars/7, which does not belong there"),
        (lambda file: file.pop(HEAD), "HEAD is missing"),
        (lambda file: file.pop("layers/dense"), "layers/dense is missing"),
        (lambda file: (file.pop(HEAD), file.create_group(HEAD)), "HEAD is not an array"),
        (
            lambda file: file.create_dataset("layers/another\x1b[31m/vars/0", data=np.zeros(3)),
            r"holds layers/another\x1b[31m, which does not belong there",
        ),
    ],
)
def test_weights_that_do_not_fit(change: Callable[[h5py.File], object], message: str, path: Path) -> None:
    with_weights(path, change)
    assert error_of(path) == f"a.keras: model.weights.h5: {message.replace('HEAD', HEAD)}; {WAY_OUT}"


def test_a_weight_under_two_names(path: Path) -> None:
    checkpoint = small_checkpoint()
    checkpoint.weights["encoder_0/attention_norm/beta"][:] = checkpoint.weights["encoder_0/attention_norm/gamma"]
    write_checkpoint(path, checkpoint)
    norm = "layers/transformer_encoder/attention_norm/vars"
    with_weights(path, lambda file: (file.pop(f"{norm}/1"), file.__setitem__(f"{norm}/1", file[f"{norm}/0"])))
    assert error_of(path) == f"a.keras: model.weights.h5: {norm}/0 is linked more than once; {WAY_OUT}"


@pytest.mark.parametrize("data", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n" + bytes(2000)])
def test_weights_that_are_no_hdf5(data: bytes, path: Path) -> None:
    rewrite(path, {"model.weights.h5": data})
    assert error_of(path).startswith("a.keras: model.weights.h5: ")


def test_more_weights_than_the_settings_imply(path: Path) -> None:
    members: Mapping[str, bytes] = members_of(path)
    rewrite(path, {"model.weights.h5": members["model.weights.h5"] + bytes(1_100_000)})
    message = error_of(path)
    assert message.startswith("a.keras: model.weights.h5 has 1,1")
    assert message.endswith(f"belong there; {WAY_OUT}")


def test_a_model_of_many_blocks(path: Path) -> None:
    checkpoint = small_checkpoint(num_blocks=100)
    write_checkpoint(path, checkpoint)
    assert same(read_checkpoint(path), checkpoint)


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
