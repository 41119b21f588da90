from __future__ import annotations

import errno
import io
import json
import os
import random
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from mha_cli.checkpoint import MEMBERS, Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError
from tests.checkpoints import members_of, rewrite, small_checkpoint, small_checkpoint_file, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WAY_OUT = "give a checkpoint that `mha train` wrote"
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
        (first.config, first.class_names, first.metrics, first.keras_config)
        == (second.config, second.class_names, second.metrics, second.keras_config)
        and first.vocabulary.tokens == second.vocabulary.tokens
        and first.weights.keys() == second.weights.keys()
        and all(np.array_equal(weight, second.weights[path]) for path, weight in first.weights.items())
    )


# There and back


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"positions": "none", "use_bias": False},
        {"positions": "sinusoidal", "num_blocks": 3},
        {"key_dim": 3, "value_dim": 5},
        {"max_ngram": 3, "ngram_buckets": 7},
    ],
)
@pytest.mark.parametrize("class_names", [("negative", "positive"), ("1", "2", "[bold]\x1b[31m", "é\n🙂", "")])
def test_what_is_written_is_read(model: dict[str, Any], class_names: tuple[str, ...], tmp_path: Path) -> None:
    checkpoint = small_checkpoint(class_names, **model)
    write_checkpoint(tmp_path / "a.keras", checkpoint)
    assert same(read_checkpoint(tmp_path / "a.keras"), checkpoint)
    assert os.listdir(tmp_path) == ["a.keras"]


def test_it_is_a_keras_archive_with_two_members_more(path: Path) -> None:
    members = members_of(path)
    assert tuple(members) == MEMBERS == ("metadata.json", "config.json", "model.weights.h5", "vocabulary.txt", "mha.json")
    assert json.loads(members["metadata.json"])["keras_version"].startswith("3.")
    assert members["config.json"] == b'{"of": "Keras"}'
    assert members["vocabulary.txt"].decode().split("\n")[:2] == ["the", "film"]
    description = json.loads(members["mha.json"])
    assert description["format"] == 2
    assert description["class_names"] == ["negative", "positive"]
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

    def write_until(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
        if name == member:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        writestr(archive, name, data)

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
        (lambda path: path.mkdir(), "x.keras: is a folder; WAY_OUT"),
        (lambda path: path.symlink_to("/dev/null"), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: path.symlink_to("/dev/zero"), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: os.mkfifo(path), "x.keras: is not a regular file; WAY_OUT"),
        (lambda path: path.symlink_to("x.keras"), "x.keras: cannot be read: Too many levels of symbolic links; WAY_OUT"),
        (lambda path: path.write_text("The film was superb.\n"), "x.keras: damaged, or no checkpoint (File is not a zip file); WAY_OUT"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" * 99), "x.keras: damaged, or no checkpoint (File is not a zip file); WAY_OUT"),
        (lambda path: path.write_bytes(b"PK\x05\x06" + bytes(18)), "x.keras: not a checkpoint of mha: has no metadata.json; WAY_OUT"),
        (plain_zip, "x.keras: not a checkpoint of mha: has no metadata.json; WAY_OUT"),
        (keras_own, "x.keras: not a checkpoint of mha: has no vocabulary.txt; WAY_OUT"),
    ],
)
def test_what_is_no_checkpoint(make: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("x.keras"))
    assert error_of("x.keras") == message.replace("WAY_OUT", WAY_OUT)


def test_names_that_no_file_can_have() -> None:
    assert error_of("a\0b") == rf"a\x00b: cannot be read: embedded null byte; {WAY_OUT}"
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
        raw = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 30))):
            # Half of the damage near the end, where the archive's directory is.
            place = rng.randrange(len(raw)) if rng.random() < 0.5 else len(raw) - 1 - rng.randrange(400)
            raw[place] = rng.randrange(256)
        path.write_bytes(raw[: rng.randrange(len(raw))] if rng.random() < 0.1 else raw)
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
        ({"format": 3}, "has format 3; this version of mha reads format 2; update mha, or train anew"),
        ({"format": None}, "has format None; this version of mha reads format 2; update mha, or train anew"),
        ({"format": "\x1b[31m"}, r"has format '\x1b[31m'; this version of mha reads format 2; update mha, or train anew"),
        ({"sha256": None}, "has no checksums; WAY_OUT"),
        ({"sha256": {}}, "vocabulary.txt is damaged (its checksum does not fit); fetch or train it anew"),
        ({"metrics": None}, "its metrics are not numbers; WAY_OUT"),
        ({"metrics": {"accuracy": "high"}}, "its metrics are not numbers; WAY_OUT"),
        ({"class_names": None}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": []}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one"]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", "one"]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", 2]}, "its class names are not two or more distinct words; WAY_OUT"),
        ({"class_names": ["one", {}, []]}, "its class names are not two or more distinct words; WAY_OUT"),
        (
            {"class_names": ["one", "two", "three"]},
            "the weight classifier/kernel is float32 (14, 1); its settings imply float32 (14, 3); WAY_OUT",
        ),
        ({"config": None}, "mha.json: the config is None, not a section of settings; write `key: value` lines below it"),
        ({"config": {"modle": {}}}, "mha.json: modle is not a setting; did you mean model?"),
        (
            {"config": {"model": {"num_heads": 7}}},
            "mha.json: model: num_heads=7 does not divide embed_dim=64; take num_heads=4 or 8, or set key_dim",
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
    assert error_of(path) == f"a.keras: the weight encoder_1/attention/query_kernel is missing; {WAY_OUT}"
    rewrite(path, config=config | {"model": config["model"] | {"feed_forward_dim": 19}})
    assert error_of(path) == (
        "a.keras: the weight encoder_0/feed_forward_in/kernel is float32 (14, 17); its settings imply float32 (14, 19); " + WAY_OUT
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "mha.json is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[1]", "mha.json is not an object"),
        (b"[" * 100_000, "mha.json is not valid JSON: "),
        (b"\xff\xfe", "mha.json is not valid JSON: "),
        (b" " * 4_000_001, "mha.json has 4,000,001 bytes; at most 4,000,000 belong there"),
    ],
)
def test_a_description_that_is_no_json(text: bytes, message: str, path: Path) -> None:
    write_archive(path, members_of(path) | {"mha.json": text})
    assert error_of(path).startswith(f"a.keras: {message}")


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (b"the\nfilm\nthe", "a token stands twice in its vocabulary"),
        (b"the\nfilm", "the weight embedding/token_embeddings is float32 (13, 14); its settings imply float32 (4, 14)"),
        (b"caf\xe9", "damaged, or no checkpoint ('utf-8' codec can't decode byte 0xe9 in position 3: unexpected end of data)"),
    ],
)
def test_a_vocabulary_that_does_not_fit(vocabulary: bytes, message: str, path: Path) -> None:
    rewrite(path, {"vocabulary.txt": vocabulary})
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


IMPLY = "its settings imply float32 (14, 1)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (filled(np.nan), "holds NaN or infinite numbers; train anew, with a lower learning rate"),
        (filled(-np.inf), "holds NaN or infinite numbers; train anew, with a lower learning rate"),
        (replaced(data=np.zeros((14, 2), np.float32)), f"is float32 (14, 2); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((1, 14), np.float32)), f"is float32 (1, 14); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), np.float64)), f"is float64 (14, 1); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), np.float16)), f"is float16 (14, 1); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), ">f4")), f"is >f4 (14, 1); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), np.int32)), f"is int32 (14, 1); {IMPLY}; {WAY_OUT}"),
        (replaced(data=h5py.Empty("f4")), f"is float32 None; {IMPLY}; {WAY_OUT}"),
        (replaced(data="hello"), f"is object (); {IMPLY}; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), np.float32), chunks=(7, 1)), f"is not stored as a plain array; {WAY_OUT}"),
        (replaced(data=np.zeros((14, 1), np.float32), compression="gzip"), f"is not stored as a plain array; {WAY_OUT}"),
        (virtual, f"is not stored as a plain array; {WAY_OUT}"),
        (external, f"is not stored as a plain array; {WAY_OUT}"),
        (linked(h5py.SoftLink("/layers/positional_embedding/vars/0")), f"is missing; {WAY_OUT}"),
        (linked(h5py.ExternalLink("/tmp/other.h5", "/x")), f"is missing; {WAY_OUT}"),
        (lambda file: file.pop(HEAD), f"is missing; {WAY_OUT}"),
        (lambda file: file.pop("layers/dense"), f"is missing; {WAY_OUT}"),
        (lambda file: (file.pop(HEAD), file.create_group(HEAD)), f"is not an array; {IMPLY}; {WAY_OUT}"),
    ],
)
def test_weights_that_do_not_fit(change: Callable[[h5py.File], object], message: str, path: Path) -> None:
    with_weights(path, change)
    assert error_of(path) == f"a.keras: the weight classifier/kernel {message}"


@pytest.mark.parametrize("data", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n" + bytes(2000)])
def test_weights_that_are_no_hdf5(data: bytes, path: Path) -> None:
    rewrite(path, {"model.weights.h5": data})
    assert error_of(path).startswith("a.keras: damaged, or no checkpoint (")


def test_more_weights_than_the_settings_imply(path: Path) -> None:
    members: Mapping[str, bytes] = members_of(path)
    rewrite(path, {"model.weights.h5": members["model.weights.h5"] + bytes(1_100_000)})
    message = error_of(path)
    assert message.startswith("a.keras: model.weights.h5 has 1,1")
    assert message.endswith(f"belong there; {WAY_OUT}")


def test_arrays_that_nothing_needs(path: Path) -> None:
    with_weights(path, lambda file: file.create_dataset("layers/another\x1b[31m/vars/0", data=np.zeros(3)))
    assert error_of(path) == rf"a.keras: its weights hold layers/another\x1b[31m/vars/0, which its settings do not imply; {WAY_OUT}"
