import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint import archive, file
from mha_cli.checkpoint.archive import open_archive
from mha_cli.checkpoint.file import MEMBERS, Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.checkpoint.quantization import dequantize, quantize
from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError, printable
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoint.mutants import mutants
from tests.checkpoint.refusals import Line, lines_of, refusals_of
from tests.checkpoints import members_of, same, small_checkpoint, small_checkpoint_file, write_archive
from tests.cli.command import environment
from tests.errors import error_of
from tests.limits import traced_peak

MORE_MEMORY = 100_000_000  # bytes that reading a mutant may take; the largest has a few megabytes


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkpoint, alone in the current folder."""
    monkeypatch.chdir(tmp_path)
    return small_checkpoint_file(Path("a.keras"))


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


EMPTY = {"embedding/token_embedding/words": np.ones((2, 14), np.float32)}


@pytest.mark.parametrize(
    "checkpoint",
    [
        small_checkpoint(("1", "2", "[bold]\x1b[31m", "é\n🙂", ""), positions="sinusoidal", num_blocks=3, key_dim=3),
        small_checkpoint(max_ngram=3, ngram_buckets=8, subword_buckets=8),
        dataclasses.replace(small_checkpoint(), thresholds={"pos": 2 / 3, "neg": 0.0}, level_threshold=0.15),  # to the last digit
        dataclasses.replace(small_checkpoint(linear={"buckets": 16}), linear_alone=LinearAlone(0.1, 1.5, (-2 / 3,))),
        dataclasses.replace(
            small_checkpoint(), held_out=HeldOut.of(np.array([[0.1, 0.9], [1, 0]], np.float32), np.array([1, 0], np.int32))
        ),
        dataclasses.replace(
            small_checkpoint(task="multi-label"), held_out=HeldOut.of(np.array([[0.1, 0.8]], np.float32), np.array([[False, True]]))
        ),
        dataclasses.replace(small_checkpoint(), vocabulary=Vocabulary([]), weights=small_checkpoint().weights | EMPTY),
    ],
)
@pytest.mark.parametrize("small", [False, True])
def test_what_is_written_is_read(small: bool, checkpoint: Checkpoint, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.keras", checkpoint, small)
    if small:
        weights = dequantize(quantize(checkpoint.weights, checkpoint.parameters), checkpoint.parameters)
        checkpoint = dataclasses.replace(checkpoint, keras_config="", weights=weights)
    assert same(read_checkpoint(tmp_path / "a.keras"), checkpoint)
    assert os.listdir(tmp_path) == ["a.keras"]


def test_an_encoder_that_reads_every_text_shares_the_text_pipeline() -> None:
    checkpoint = dataclasses.replace(small_checkpoint(linear={"buckets": 16}), linear_alone=LinearAlone(0.1, 1.5, (0.0,)))
    assert checkpoint.always_encoding.linear_alone is None
    assert checkpoint.always_encoding.text_pipeline is checkpoint.text_pipeline


def test_what_could_not_be_read_again_is_not_written(path: Path) -> None:
    plain, name = small_checkpoint(), "n" * 490_000

    def of_files(number: int) -> Checkpoint:
        data = FilesData(source="files", train=[f"/données/2024/part-{part:05}-of-{number:05}.jsonl.gz" for part in range(number)])
        return dataclasses.replace(plain, config=plain.config.model_copy(update={"data": data}))

    long_names = dataclasses.replace(plain, class_names=(name, "x" * 500_000))
    for fits, too_long, message in (
        (of_files(1_500), of_files(6_000), "the settings are too long to be read again; name files by patterns, such as 'parts/*.csv'"),
        (
            long_names,
            dataclasses.replace(long_names, thresholds={name: 0.5}),
            "the names of the classes are too long to be read again; give them shorter ones",
        ),
    ):
        write_checkpoint(path, fits)
        assert error_of(write_checkpoint, path, too_long) == f"a.keras: {message}"
        assert same(read_checkpoint(path), fits)


def test_weights_of_the_wrong_shape_are_not_written(path: Path) -> None:
    before = path.read_bytes()
    checkpoint = small_checkpoint()
    checkpoint.weights["classifier/kernel"] = np.zeros((14, 2), np.float32)  # type: ignore[index]
    with pytest.raises(ValueError, match=r"classifier/kernel has the shape \(14, 2\); the settings imply \(14, 1\)"):
        write_checkpoint(path, checkpoint)
    assert path.read_bytes() == before
    assert os.listdir() == ["a.keras"]


def test_what_to_do(path: Path) -> None:
    assert error_of(read_checkpoint, Path("\x1b[31m" * 100)).startswith(r"\x1b[31m\x1b[31m")
    write_archive(path, members_of(path) | {"config.json": b"{}"})
    assert error_of(read_checkpoint, path) == "a.keras: config.json is damaged (its checksum does not fit); fetch or train it anew"


def test_a_file_that_is_cut_while_it_is_read(path: Path) -> None:
    size = len(members_of(path)["model.weights.h5"])
    with pytest.raises(MhaError, match=r"^a\.keras: "), open_archive(path, MEMBERS) as archive:
        os.truncate(path, 1000)
        archive.read("model.weights.h5", size)


READ = """
import json, sys
from pathlib import Path
from mha_cli.checkpoint.file import read_checkpoint

read_checkpoint(Path(sys.argv[1]))  # imports what is imported late
events = []
sys.addaudithook(lambda event, arguments: events.append((event, str(arguments[:1]))))
read_checkpoint(Path(sys.argv[1]))
watched = {"open", "socket", "os", "subprocess", "ctypes", "shutil", "tempfile"}
print(json.dumps([event for event in events if event[0].split(".")[0] in watched]))
"""


def test_reading_opens_nothing_else(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, check=True, env=environment())
    assert [
        event for event, argument in json.loads(done.stdout) if argument not in {"(PosixPath('a.keras'),)", "('a.keras',)", "(3,)"}
    ] == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 9))])
def test_every_mutant_has_its_one_right_outcome(seed: int, tmp_path: Path) -> None:
    """A printable line that names the file and the fault, or the checkpoint that the bytes stand for; and no refusal is left out."""
    wrong, reached, found = list[str](), set[Line](), list[Checkpoint]()
    for number, mutant in enumerate(mutants(tmp_path, random.Random(seed))):
        path = tmp_path / f"{number}" / mutant.name
        path.parent.mkdir()
        path.write_bytes(mutant.data) if isinstance(mutant.data, bytes) else mutant.data(path)
        try:
            peak = traced_peak(lambda path=path: found.append(read_checkpoint(path)))
        except MhaError as error:
            reached.update(lines_of(error))
            line, (shown, _, said) = str(error), error.message.partition(": ")
            is_right = isinstance(mutant.right, str) and re.fullmatch(mutant.right, said)
            if not (is_right and line.isprintable() and printable(mutant.name) in shown and error.exit_code == 2 and len(line) < 1000):
                wrong.append(f"{mutant.what}: {line!r}, not {mutant.right!r:.200}")
        else:
            if isinstance(mutant.right, str) or not same(found.pop(), mutant.right) or peak > MORE_MEMORY:
                wrong.append(f"{mutant.what}: read, taking {peak:,} bytes; {mutant.right!r:.200}")
    assert wrong == []
    assert refusals_of(file, archive) <= reached
