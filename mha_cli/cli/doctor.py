"""`mha doctor`: facts for an error report, found without TensorFlow."""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from mha_cli.checkpoint.runs import CHECKPOINT, CHECKPOINT_VARIABLE, PACKAGED, RUNS, checkpoint_in
from mha_cli.cli.completion import checkpoints_like
from mha_cli.cli.console import print_figures, print_json
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.options import JsonOption
from mha_cli.errors import listed, plural
from mha_cli.system.memory import ROOT, machine_memory, memory_limit
from mha_cli.version import __version__

SHOWN_CLASSES = 10

EXAMPLES = """mha doctor
mha doctor runs/imdb/checkpoint.keras --json"""


def doctor(
    checkpoint: Annotated[Path | None, Argument(help="Checkpoint to check, or its run directory.", autocompletion=checkpoints_like)] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions, the machine, and where mha looks for data and checkpoints; check a checkpoint.

    The exit code is 2 if the checkpoint is refused.
    """
    found = diagnose(checkpoint)
    if as_json:
        print_json(found)
        return
    print_figures("Installation", installation(found))
    print_figures("Machine", machine(found))
    print_figures("Places", map(_place, found["places"]))
    if found["checkpoint"]:
        print_figures("Checkpoint, in order", _checkpoint(found["checkpoint"]))


def diagnose(checkpoint: Path | None = None, root: Path = ROOT) -> dict[str, Any]:
    """The facts, by the names of docs/doctor.md; ``root`` is the folder of ``proc`` and ``sys``."""
    from mha_cli.runtime.engine import usual_engine
    from mha_cli.system.processor import available_cores, bfloat16_features, nvidia_gpus

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
    from mha_cli.checkpoint.archive import open_regular
    from mha_cli.checkpoint.file import FORMAT_VERSION

    checkpoint, path = load_checkpoint(path)
    with open_regular(path) as file:
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


def installation(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions, in words."""
    return ((name, number or "not installed") for name, number in found["versions"].items())


def machine(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Processor and memory, in words."""
    yield "cores", f"{found['cores']}"
    yield "long inputs", found["engine"]
    yield "bfloat16", ", ".join(found["bfloat16"]) or "no"
    yield "GPU", f"{listed(found['gpus'])}; for training, with TensorFlow's CUDA packages" if found["gpus"] else "no"
    for name, otherwise in (("memory", "unknown"), ("memory available", "unknown"), ("memory limit", "none")):
        size = found[f"{name.replace(' ', '_')}_bytes"]
        yield name, otherwise if size is None else f"{size / 1e9:,.1f} GB"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _places() -> list[dict[str, Any]]:
    """Paths of data and checkpoints; ``named_by`` is an environment variable or ``default``."""
    from mha_cli.data.tfds import DEFAULT_DATA_DIR

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


def _place(place: Mapping[str, Any]) -> tuple[str, str]:
    if place["path"] is None:
        return place["what"], f"${place['named_by']} is not set"
    number = place["checkpoints"]
    found = "does not exist" if not place["exists"] else "exists" if number is None else plural(number, "checkpoint")
    named = "" if place["named_by"] == "default" else f"${place['named_by']}, "
    return place["what"], f"{place['path']} ({named}{found})"


def _checkpoint(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "file", report["path"]
    yield "size", f"{report['bytes']:,} bytes"
    yield "SHA-256", report["sha256"]
    yield "format", f"{report['format']}"
    yield "classes", f"{len(report['class_names']):,}: {listed(report['class_names'], SHOWN_CLASSES)}"
    yield "vocabulary", f"{report['vocabulary_size']:,} ids"
    yield "weights", f"{report['num_weights']:,}"
    for name, value in report["metrics"].items():
        yield name.replace("_", " "), f"{value:.6g}"
    if thresholds := report["thresholds"]:
        shown = [f"{name} none" if value == 1 else f"{name} {value:.4f}" for name, value in thresholds.items()]
        yield "thresholds", listed(shown, SHOWN_CLASSES)
