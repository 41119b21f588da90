"""Facts for an error report, found without TensorFlow: versions, the machine, places of data and checkpoints, and a checkpoint."""

import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mha_cli.checkpoint.archive import open_checkpoint
from mha_cli.checkpoint.file import FORMAT_VERSION, read_checkpoint
from mha_cli.runs import CHECKPOINT, CHECKPOINT_VARIABLE, PACKAGED, RUNS, checkpoint_in
from mha_cli.runtime.engine import usual_engine
from mha_cli.sources.tfds import DEFAULT_DATA_DIR
from mha_cli.system.memory import ROOT, machine_memory, memory_limit
from mha_cli.system.processor import available_cores, bfloat16_features, nvidia_gpus
from mha_cli.version import __version__


def diagnose(checkpoint: Path | None = None, root: Path = ROOT) -> dict[str, Any]:
    """The facts, by the names of docs/doctor.md; ``root`` is the folder of ``proc`` and ``sys``."""
    report = None if checkpoint is None else check_checkpoint(checkpoint)  # first: its fault is the answer
    packages, memory = ("tensorflow", "keras", "numpy", "openvino"), machine_memory(root)
    return {
        "versions": {"mha": __version__, "python": platform.python_version()} | {name: _version(name) for name in packages},
        "cores": available_cores(),
        "engine": usual_engine(),
        "bfloat16": bfloat16_features(root / "proc/cpuinfo"),
        "gpus": nvidia_gpus(root),
        "memory_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "memory_limit_bytes": memory_limit(root),
        "places": _places(),
        "checkpoint": report,
    }


def check_checkpoint(path: Path) -> dict[str, Any]:
    """Facts of a checkpoint, which is read as by every command."""
    path = checkpoint_in(path)
    checkpoint = read_checkpoint(path)
    with open_checkpoint(path) as file:
        digest = hashlib.file_digest(file, "sha256")
        size = file.tell()
    return {
        "path": str(path),
        "bytes": size,
        "sha256": digest.hexdigest(),
        "format": FORMAT_VERSION,
        "class_names": checkpoint.class_names,
        "vocabulary_size": len(checkpoint.vocabulary),
        "num_weights": checkpoint.num_weights,
        "metrics": checkpoint.metrics,
        "thresholds": checkpoint.thresholds,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _places() -> list[dict[str, Any]]:
    """Paths of data and checkpoints; ``named_by`` is an environment variable or ``default``."""
    data_dir, checkpoint = os.environ.get("TFDS_DATA_DIR"), os.environ.get(CHECKPOINT_VARIABLE) or None
    data = os.path.expanduser(data_dir or DEFAULT_DATA_DIR)
    try:
        runs = str(RUNS.absolute())
    except FileNotFoundError:  # the current folder has been removed
        runs = str(RUNS)
    there = checkpoint is not None and os.path.isfile(checkpoint_in(Path(checkpoint)))
    places = (
        ("TensorFlow Datasets", data, "TFDS_DATA_DIR" if data_dir else "default", os.path.isdir(data), None),
        ("checkpoint", checkpoint, CHECKPOINT_VARIABLE, there, None),
        ("trained runs", runs, "default", RUNS.is_dir(), len(list(RUNS.glob(f"*/{CHECKPOINT}")))),
        ("model that comes with mha", str(PACKAGED), "default", PACKAGED.is_file(), None),
    )
    return [dict(zip(("what", "path", "named_by", "exists", "checkpoints"), place, strict=True)) for place in places]
