"""Small checkpoints with random weights, made without TensorFlow, and archives that are not quite checkpoints."""

import hashlib
import json
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.loading import config_from_dict, config_to_dict, config_to_yaml
from mha_cli.config.parameters import parameter_table
from mha_cli.runs import CHECKPOINT, CONFIG
from mha_cli.text.encoding import EncodedText
from mha_cli.text.vocabulary import Vocabulary

WORDS = ("the", "film", "was", "superb", "dreadful", "not", ",", ".", "é", "it's", "a")


def small_checkpoint(
    class_names: tuple[str, ...] = ("neg", "pos"),
    seed: int = 0,
    linear: Any = None,
    task: str = "single-label",
    characters: int = 0,
    **model: Any,
) -> Checkpoint:
    """A classifier of a few hundred random weights; what it says is of no meaning, but differs from text to text."""
    characters = characters or (11 if model.get("subword_buckets") else 0)
    config = config_from_dict(
        {
            "task": task,
            "text": {"vocabulary_size": 29, "sequence_length": 13, "subword_characters": characters},
            "model": {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17, **model},
            "linear": linear,
        },
        "test",
    )
    rng = np.random.default_rng(seed)
    vocabulary = Vocabulary(WORDS)
    return Checkpoint(
        config=config,
        class_names=class_names,
        vocabulary=vocabulary,
        metrics={"epoch": 3, "validation_accuracy": 0.75, "validation_loss": 0.5},
        weights={
            parameter.path: rng.normal(0.0, 0.5, parameter.shape).astype(np.float32)
            for parameter in parameter_table(config, len(vocabulary), len(class_names))
        },
        keras_config='{"of": "Keras"}',
    )


def with_text(checkpoint: Checkpoint, **text: Any) -> Checkpoint:
    """The same model with other text settings."""
    return replace(checkpoint, config=checkpoint.config.changed(text=text))


def same(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two checkpoints are equal in everything."""
    names = ("config", "class_names", "metrics", "keras_config", "thresholds", "level_threshold", "linear_alone")
    fields = [([getattr(each, name) for name in names], each.vocabulary.tokens) for each in (first, second)]
    weights = [{path: (weight.dtype, weight.shape, weight.tobytes()) for path, weight in each.weights.items()} for each in (first, second)]
    held_out = [None if each.held_out is None else each.held_out.to_bytes() for each in (first, second)]
    return fields[0] == fields[1] and weights[0] == weights[1] and held_out[0] == held_out[1]


def small_checkpoint_file(path: Path, class_names: tuple[str, ...] = ("neg", "pos"), **model: Any) -> Path:
    """The same, written to a file."""
    write_checkpoint(path, small_checkpoint(class_names, **model))
    return path


def write_run(folder: Path, checkpoint: Checkpoint, own: bool = True, **settings: Any) -> Path:
    """A run directory with a checkpoint of other settings; without its config, as if from elsewhere, if it is not one's ``own``."""
    config = config_from_dict({**config_to_dict(checkpoint.config), **settings}, "test")
    folder.mkdir(parents=True)
    write_checkpoint(folder / CHECKPOINT, replace(checkpoint, config=config))
    if own:
        (folder / CONFIG).write_text(config_to_yaml(config))
    return folder


def members_of(path: Path) -> dict[str, bytes]:
    """Everything that an archive holds, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_archive(path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """An archive of these members, whatever they are."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def described(members: Mapping[str, bytes], **entries: Any) -> dict[str, bytes]:
    """The members with other entries in ``mha.json``."""
    return {**members, "mha.json": json.dumps(json.loads(members["mha.json"]) | entries).encode()}


def digests(members: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of every member that has one."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != "mha.json"}


def rewrite(path: Path, members: Mapping[str, bytes] | None = None, **description: Any) -> Path:
    """The checkpoint at ``path`` with other members or other entries of ``mha.json``, its checksums made to fit again."""
    changed = {**members_of(path), **(members or {})}
    return write_archive(path, described(changed, **{"sha256": digests(changed), **description}))


def damaged(whole: bytes, rng: random.Random, end: int) -> bytes:
    """An archive with some bytes changed, half of them among the last ``end``, where its directory is; now and then cut off."""
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 30))):
        place = rng.randrange(len(data)) if rng.random() < 0.5 else len(data) - 1 - rng.randrange(end)
        data[place] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)


def as_read(texts: Iterable[Sequence[int] | np.ndarray]) -> list[EncodedText]:
    """Texts given as tokens, as a text pipeline reads them."""
    return [EncodedText(np.asarray(tokens, np.int32), len(tokens), 0, 0) for tokens in texts]
