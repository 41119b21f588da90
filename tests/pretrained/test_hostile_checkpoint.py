"""Checkpoints with a pretrained encoder: they come back as they were, and one whose tokenizer or settings lie is refused in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import described, members_of, rewrite, write_archive
from tests.cli.command import run_here
from tests.pretrained.tiny import FAMILIES, SENTENCES, tiny_checkpoint, tiny_folder

Spoil = Callable[[Path], object]

TOKENIZER = "tokenizer.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a tiny BERT. Not to be written to."""
    folder = tmp_path_factory.mktemp("whole")
    write_checkpoint(folder / "a.keras", tiny_checkpoint(tiny_folder(folder / "encoder", "bert")))
    return folder / "a.keras"


def tokenizer(**changes: Any) -> Spoil:
    """Another ``tokenizer.json`` inside; what does not stand here stays."""
    return lambda path: rewrite(path, {TOKENIZER: json.dumps(json.loads(members_of(path)[TOKENIZER]) | changes).encode()})


def settings(section: str, **changes: Any) -> Spoil:
    def write(path: Path) -> None:
        config = json.loads(members_of(path)["mha.json"])["config"]
        config[section] |= changes
        rewrite(path, config=config)

    return write


def without_tokenizer(path: Path) -> None:
    members = members_of(path)
    sums = json.loads(members["mha.json"])["sha256"]
    del members[TOKENIZER], sums[TOKENIZER]
    write_archive(path, described(members, sha256=sums))


REGEX = {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": "c"}

HOSTILE: dict[str, tuple[str, Spoil]] = {  # tokenizers that lie are in test_hostile_folder.py
    "a regular expression": ("a.keras: tokenizer.json: normalizer Replace has the regular expression", tokenizer(normalizer=REGEX)),
    "an empty one": ("its settings and tokenizer.json do not go together", lambda path: rewrite(path, {TOKENIZER: b""})),
    "another checksum": ("", lambda path: write_archive(path, members_of(path) | {TOKENIZER: b"{}"})),
    "no tokenizer": ("its settings and tokenizer.json do not go together", without_tokenizer),
    "fewer pieces": ("", settings("model", num_pieces=7)),
    "too many pieces": ("num_pieces", settings("model", num_pieces=1 << 40)),
    "no folder": ("num_pieces=152 goes with a pretrained encoder", settings("model", pretrained=None)),
    "more positions": ("", settings("text", max_pieces=99_999)),
    "an epsilon of zero": ("norm_epsilon", settings("model", norm_epsilon=0)),
}


@pytest.mark.parametrize(("message", "spoil"), HOSTILE.values(), ids=HOSTILE.keys())
def test_is_refused_in_one_line(message: str, spoil: Spoil, whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.keras"
    path.write_bytes(whole.read_bytes())
    spoil(path)
    done = run_here("predict", "the film", "-c", "a.keras", cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("error: a.keras: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("family", "small"), [*((family, False) for family in FAMILIES), ("roberta", True)])
def test_comes_back_as_it_was(family: str, small: bool, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path / "encoder", family))
    write_checkpoint(tmp_path / "a.keras", checkpoint, small)
    read = read_checkpoint(tmp_path / "a.keras")
    assert read.tokenizer == checkpoint.tokenizer
    assert read.config == checkpoint.config
    if not small:  # half precision
        halves = {path: weight.astype(np.float16).astype(np.float32) for path, weight in checkpoint.weights.items()}
        checkpoint = replace(checkpoint, weights=halves)
    first, second = (Classifier(one).predict([*SENTENCES, "", "a" * 5_000, "film " * 999]) for one in (checkpoint, read))
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(list(ours.probabilities.values()), list(theirs.probabilities.values()), atol=0.3 if small else 0)
