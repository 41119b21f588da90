"""``checkpoint.keras``: one file that holds the model and everything that a command needs to use it.

The file is a Keras 3 archive, which ``keras.models.load_model`` opens once ``mha_cli.layers`` is imported, with two members of ours:

    metadata.json, config.json, model.weights.h5    as Keras writes them
    vocabulary.txt                                  a token a line, id 2 first
    mha.json                                        format version, settings, class names, metrics, and a SHA-256 of every other member

Reading never calls Keras's deserializer and runs nothing that the file brings: the settings go through the config model, they imply
the name and shape of every weight, and only float32 arrays of those names and shapes are taken.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import h5py
import numpy as np

from mha_cli.config import Config, config_from_dict, config_to_dict
from mha_cli.errors import MhaError, printable
from mha_cli.files import atomic_write
from mha_cli.parameters import Parameter, parameter_table
from mha_cli.text.vocabulary import SPECIAL_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

FORMAT_VERSION = 2
MEMBERS = ("metadata.json", "config.json", "model.weights.h5", "vocabulary.txt", "mha.json")
MAX_FILE_BYTES = 8_000_000_000
MAX_JSON_BYTES = 4_000_000
MAX_VOCABULARY_BYTES = 1_000_000_000
HDF5_OVERHEAD_BYTES = 1_000_000
WAY_OUT = "give a checkpoint that `mha train` wrote"


@dataclass(frozen=True)
class Checkpoint:
    """A trained classifier.

    Args:
        config: the resolved settings it was trained with.
        class_names: names in the order of their ids.
        vocabulary: ids of the words.
        metrics: figures of the training, such as ``validation_accuracy`` in [0, 1].
        weights: float32 arrays by Keras variable path.
        keras_config: the architecture as Keras serializes it; kept for Keras, never read by us.
    """

    config: Config
    class_names: tuple[str, ...]
    vocabulary: Vocabulary
    metrics: Mapping[str, float]
    weights: Mapping[str, npt.NDArray[np.float32]]
    keras_config: str

    @property
    def parameters(self) -> list[Parameter]:
        """Name and shape of every weight."""
        return parameter_table(self.config, len(self.vocabulary), len(self.class_names))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; an earlier file of that name is replaced only by a whole one.

    Raises:
        MhaError: the file cannot be written.
    """
    metadata = {"keras_version": version("keras"), "date_saved": datetime.now(UTC).strftime("%Y-%m-%d@%H:%M:%S")}
    members = {
        "metadata.json": json.dumps(metadata).encode(),
        "config.json": checkpoint.keras_config.encode(),
        "model.weights.h5": _weights_to_hdf5(checkpoint),
        "vocabulary.txt": "\n".join(checkpoint.vocabulary.tokens[len(SPECIAL_TOKENS) :]).encode(),
    }
    description = {
        "format": FORMAT_VERSION,
        "config": config_to_dict(checkpoint.config),
        "class_names": list(checkpoint.class_names),
        "metrics": dict(checkpoint.metrics),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    members["mha.json"] = json.dumps(description, indent=1, ensure_ascii=False).encode()
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that may come from anywhere.

    Raises:
        MhaError: the file is missing, is no checkpoint of ours, is damaged, or holds anything that its settings do not imply.
    """
    name = printable(str(path), 200)
    with _open_regular(path, name) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, name, os.fstat(file.fileno()).st_size)
        except MhaError:
            raise
        except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError, KeyError, ValueError) as error:
            # What zipfile and h5py raise for bytes that are not what they say.
            raise MhaError(f"{name}: damaged, or no checkpoint ({printable(str(error))})", WAY_OUT) from None


def _open_regular(path: Path, name: str) -> IO[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MhaError(f"{name}: no such file", WAY_OUT) from None
    except (OSError, ValueError) as error:
        raise MhaError(f"{name}: cannot be read: {getattr(error, 'strerror', error)}", WAY_OUT) from None
    status = os.fstat(descriptor)
    problem = ""
    if stat.S_ISDIR(status.st_mode):
        problem = "is a folder"
    elif not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file"
    elif not status.st_size:
        problem = "is empty"
    elif status.st_size > MAX_FILE_BYTES:
        problem = f"is larger than {MAX_FILE_BYTES:,} bytes"
    if problem:
        os.close(descriptor)
        raise MhaError(f"{name}: {problem}", WAY_OUT)
    return os.fdopen(descriptor, "rb")


def _read_archive(archive: zipfile.ZipFile, name: str, file_size: int) -> Checkpoint:
    members = archive.namelist()
    if sorted(members) != sorted(MEMBERS):
        missing = [member for member in MEMBERS if member not in members]
        found = f"has no {missing[0]}" if missing else "has members that do not belong there"
        raise MhaError(f"{name}: not a checkpoint of mha: {found}", WAY_OUT)
    if any(member.compress_type != zipfile.ZIP_STORED or member.file_size > file_size for member in archive.infolist()):
        raise MhaError(f"{name}: holds compressed members", WAY_OUT)
    description = _read_description(archive, name)
    if description.get("format") != FORMAT_VERSION:
        found = printable(repr(description.get("format")), 20)
        raise MhaError(f"{name}: has format {found}; this version of mha reads format {FORMAT_VERSION}", "update mha, or train anew")
    digests = description.get("sha256")
    if not isinstance(digests, dict):
        raise MhaError(f"{name}: has no checksums", WAY_OUT)

    def checked(member: str, limit: int) -> bytes:
        data = _read_member(archive, name, member, limit)
        if hashlib.sha256(data).hexdigest() != digests.get(member):
            raise MhaError(f"{name}: {member} is damaged (its checksum does not fit)", "fetch or train it anew")
        return data

    config = config_from_dict(description.get("config"), f"{name}: mha.json")
    class_names = _class_names(description.get("class_names"), name)
    metrics = description.get("metrics")
    if not isinstance(metrics, dict) or not all(isinstance(value, int | float) for value in metrics.values()):
        raise MhaError(f"{name}: its metrics are not numbers", WAY_OUT)
    vocabulary = _read_vocabulary(checked("vocabulary.txt", MAX_VOCABULARY_BYTES), name)
    if len(vocabulary) > config.text.vocabulary_size:
        raise MhaError(f"{name}: its vocabulary has {len(vocabulary):,} ids; its settings allow {config.text.vocabulary_size:,}", WAY_OUT)
    parameters = parameter_table(config, len(vocabulary), len(class_names))
    limit = sum(4 * math.prod(parameter.shape) for parameter in parameters) + HDF5_OVERHEAD_BYTES
    checked("metadata.json", MAX_JSON_BYTES)
    return Checkpoint(
        config=config,
        class_names=class_names,
        vocabulary=vocabulary,
        metrics=metrics,
        weights=_weights_from_hdf5(checked("model.weights.h5", limit), parameters, name),
        keras_config=checked("config.json", MAX_JSON_BYTES).decode(),
    )


def _read_member(archive: zipfile.ZipFile, name: str, member: str, limit: int) -> bytes:
    size = archive.getinfo(member).file_size
    if size > limit:
        raise MhaError(f"{name}: {member} has {size:,} bytes; at most {limit:,} belong there", WAY_OUT)
    return archive.read(member)


def _read_description(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    try:
        description = json.loads(_read_member(archive, name, "mha.json", MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise MhaError(f"{name}: mha.json is not valid JSON: {printable(str(error))}", WAY_OUT) from None
    if not isinstance(description, dict):
        raise MhaError(f"{name}: mha.json is not an object", WAY_OUT)
    return description


def _class_names(value: object, name: str) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(value) < 2
        or len(set(map(repr, value))) < len(value)
        or not all(isinstance(item, str) for item in value)
    ):
        raise MhaError(f"{name}: its class names are not two or more distinct words", WAY_OUT)
    return tuple(value)


def _read_vocabulary(data: bytes, name: str) -> Vocabulary:
    tokens = data.decode().split("\n") if data else []
    if len(set(tokens)) < len(tokens):
        raise MhaError(f"{name}: a token stands twice in its vocabulary", WAY_OUT)
    return Vocabulary(tokens)


def _weights_to_hdf5(checkpoint: Checkpoint) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for parameter in checkpoint.parameters:
            weight = checkpoint.weights[parameter.path]
            if weight.shape != parameter.shape:
                raise ValueError(f"{parameter.path} has the shape {weight.shape}; the settings imply {parameter.shape}")
            file.create_dataset(parameter.hdf5_path, data=np.asarray(weight, dtype="<f4"))
    return buffer.getvalue()


def _weights_from_hdf5(data: bytes, parameters: list[Parameter], name: str) -> dict[str, npt.NDArray[np.float32]]:
    weights = {}
    with h5py.File(io.BytesIO(data), "r") as file:
        _refuse_other_arrays(file, parameters, name)
        for parameter in parameters:
            weights[parameter.path] = _read_weight(file, parameter, name)
    return weights


def _refuse_other_arrays(file: h5py.File, parameters: list[Parameter], name: str) -> None:
    known = {parameter.hdf5_path for parameter in parameters}
    # A path is visited once however many lead to it, and soft or external links are not followed.
    other = file.visititems(lambda path, node: path if isinstance(node, h5py.Dataset) and path not in known else None)
    if other is not None:
        raise MhaError(f"{name}: its weights hold {printable(other)}, which its settings do not imply", WAY_OUT)


def _read_weight(file: h5py.File, parameter: Parameter, name: str) -> npt.NDArray[np.float32]:
    node: Any = file
    for part in parameter.hdf5_path.split("/"):
        if not isinstance(node, h5py.Group) or not isinstance(node.get(part, getlink=True), h5py.HardLink):
            raise MhaError(f"{name}: the weight {parameter.path} is missing", WAY_OUT)
        node = node[part]
    if not isinstance(node, h5py.Dataset) or node.shape != parameter.shape or node.dtype != np.dtype("<f4"):
        found = f"{node.dtype} {node.shape}" if isinstance(node, h5py.Dataset) else "not an array"
        raise MhaError(f"{name}: the weight {parameter.path} is {printable(found)}; its settings imply float32 {parameter.shape}", WAY_OUT)
    if node.id.get_create_plist().get_layout() != h5py.h5d.CONTIGUOUS or node.external:
        raise MhaError(f"{name}: the weight {parameter.path} is not stored as a plain array", WAY_OUT)
    weight: npt.NDArray[np.float32] = node[()]
    if not np.isfinite(weight).all():
        raise MhaError(f"{name}: the weight {parameter.path} holds NaN or infinite numbers", "train anew, with a lower learning rate")
    return weight
