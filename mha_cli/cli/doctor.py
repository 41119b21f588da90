"""`mha doctor`: facts for an error report."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from mha_cli.cli.completion import checkpoints_like
from mha_cli.cli.console import print_figures, print_json
from mha_cli.cli.options import JsonOption
from mha_cli.errors import listed, plural

SHOWN_CLASSES = 10


def doctor(
    checkpoint: Annotated[Path | None, Argument(help="Checkpoint to check, or its run directory.", autocompletion=checkpoints_like)] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions, the machine, and where mha looks for data and checkpoints; check a checkpoint."""
    from mha_cli.report.diagnosis import diagnose

    facts = diagnose(checkpoint)
    if as_json:
        print_json(facts)
        return
    print_figures("Installation", installation(facts))
    print_figures("Machine", machine(facts))
    print_figures("Places", map(_place, facts["places"]))
    if facts["checkpoint"]:
        print_figures("Checkpoint, in order", _checkpoint(facts["checkpoint"]))


def installation(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions, in words."""
    return ((name, number or "not installed") for name, number in facts["versions"].items())


def machine(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Processor and memory, in words."""
    yield "cores", f"{facts['cores']}"
    yield "long inputs", facts["engine"]
    yield "bfloat16", ", ".join(facts["bfloat16"]) or "no"
    yield "GPU", f"{listed(facts['gpus'])}; for training, with TensorFlow's CUDA packages" if facts["gpus"] else "no"
    for name, otherwise in (("memory", "unknown"), ("memory available", "unknown"), ("memory limit", "none")):
        size = facts[f"{name.replace(' ', '_')}_bytes"]
        yield name, otherwise if size is None else f"{size / 1e9:,.1f} GB"


def _place(place: Mapping[str, Any]) -> tuple[str, str]:
    if place["path"] is None:
        return place["what"], f"${place['named_by']} is not set"
    number = place["checkpoints"]
    state = "does not exist" if not place["exists"] else "exists" if number is None else plural(number, "checkpoint")
    named = "" if place["named_by"] == "default" else f"${place['named_by']}, "
    return place["what"], f"{place['path']} ({named}{state})"


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
