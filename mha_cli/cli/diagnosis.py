"""What an installation consists of, what the machine has, where things are looked for, and whether a checkpoint is in order.

All of it is found out without importing TensorFlow.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mha_cli.checkpoint.archive import MAX_FILE_BYTES, open_regular
from mha_cli.checkpoint.file import FORMAT_VERSION, read_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, CHECKPOINT_VARIABLE, PACKAGED, RUNS, checkpoint_in
from mha_cli.data.tfds import DEFAULT_DATA_DIR
from mha_cli.runtime.engine import usual_engine
from mha_cli.system.memory import machine_memory, memory_limit
from mha_cli.system.processor import available_cores, bfloat16_features
from mha_cli.version import __version__

PACKAGES = ("tensorflow", "keras", "numpy", "openvino")


@dataclass(frozen=True)
class Place:
    """Where something is looked for.

    Args:
        what: kind of thing that is looked for.
        path: file or folder; None where none is named.
        named_by: environment variable that names it, or ``default``.
        exists: True where it is there.
        checkpoints: trained runs in it; None but for the run directories.
    """

    what: str
    path: str | None
    named_by: str
    exists: bool
    checkpoints: int | None = None


@dataclass(frozen=True)
class CheckpointReport:
    """A checkpoint that the reader takes.

    Args:
        path: path of the file.
        bytes: size of the file.
        sha256: checksum of the whole file, in hexadecimal.
        format: version of the file format.
        class_names: names in the order of their ids.
        vocabulary_size: ids, the two special ones included.
        num_weights: numbers in all weights together.
        metrics: figures of the saved epoch, such as ``validation_accuracy`` in [0, 1].
        thresholds: probabilities that answers need, by class; empty where they need none.
    """

    path: str
    bytes: int
    sha256: str
    format: int
    class_names: tuple[str, ...]
    vocabulary_size: int
    num_weights: int
    metrics: Mapping[str, float]
    thresholds: Mapping[str, float]


@dataclass(frozen=True)
class Diagnosis:
    """How things stand.

    Args:
        versions: versions by name; None for what is not installed.
        cores: processor cores that this process may use.
        engine: what ``mha predict`` computes long inputs with where it is not told, ``openvino`` or ``numpy``.
        bfloat16: instructions of the processor for it, by the names that Linux gives them; none where it has none.
        memory_bytes: memory of the machine; None where that cannot be found out.
        memory_available_bytes: memory that can be had without swapping; None where that cannot be found out.
        memory_limit_bytes: limit of the control groups that this process is in; None where there is none.
        places: files and folders in which data and checkpoints are looked for.
        checkpoint: report on the one that was asked about; None where none was.
    """

    versions: Mapping[str, str | None]
    cores: int
    engine: str
    bfloat16: tuple[str, ...]
    memory_bytes: int | None
    memory_available_bytes: int | None
    memory_limit_bytes: int | None
    places: tuple[Place, ...]
    checkpoint: CheckpointReport | None = None


def diagnose(checkpoint: Path | None = None, root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Diagnosis:
    """Look at the installation, the machine and, where one is named, a checkpoint.

    Args:
        checkpoint: file to check; None for none.
        root: folder of the file system that holds ``proc`` and ``sys``.
        environment: environment variables.
    """
    report = None if checkpoint is None else check_checkpoint(checkpoint)  # first: its fault is the answer
    memory = machine_memory(root)
    return Diagnosis(
        versions={"mha": __version__, "python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        cores=available_cores(),
        engine=usual_engine(),
        bfloat16=bfloat16_features(root / "proc/cpuinfo"),
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        memory_limit_bytes=memory_limit(root),
        places=_places(environment),
        checkpoint=report,
    )


def check_checkpoint(path: Path) -> CheckpointReport:
    """Read a checkpoint as every command does, and put it to no use."""
    path = checkpoint_in(path)
    checkpoint = read_checkpoint(path)
    with open_regular(path, MAX_FILE_BYTES) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
    return CheckpointReport(
        path=str(path),
        bytes=size,
        sha256=digest,
        format=FORMAT_VERSION,
        class_names=checkpoint.class_names,
        vocabulary_size=len(checkpoint.vocabulary),
        num_weights=checkpoint.num_weights,
        metrics=checkpoint.metrics,
        thresholds=checkpoint.thresholds,
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    data_dir = environment.get("TFDS_DATA_DIR")
    data = os.path.expanduser(data_dir or DEFAULT_DATA_DIR)
    checkpoint = environment.get(CHECKPOINT_VARIABLE) or None
    return (
        Place("TensorFlow Datasets", data, "TFDS_DATA_DIR" if data_dir else "default", os.path.isdir(data)),
        Place("checkpoint", checkpoint, CHECKPOINT_VARIABLE, checkpoint is not None and os.path.isfile(checkpoint_in(Path(checkpoint)))),
        Place("trained runs", _absolute(RUNS), "default", RUNS.is_dir(), len(list(RUNS.glob(f"*/{CHECKPOINT}")))),
        Place("model that comes with mha", str(PACKAGED), "default", PACKAGED.is_file()),
    )


def _absolute(path: Path) -> str:
    try:
        return str(path.absolute())
    except FileNotFoundError:  # the current folder has been removed
        return str(path)
