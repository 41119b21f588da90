"""`mha doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mha_cli.cli.completion import checkpoints_like
from mha_cli.cli.console import print_figures, print_json
from mha_cli.cli.options import JsonOption
from mha_cli.errors import listed

if TYPE_CHECKING:
    from mha_cli.cli.diagnosis import CheckpointReport, Diagnosis, Place

MOST_CLASSES = 10
"""Names of classes that are shown."""

EXAMPLES = """[bold]Examples[/bold]

mha doctor

mha doctor runs/imdb/checkpoint.keras --json"""


def doctor(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(
            help="A checkpoint to check, or its run directory; it is read, and put to no use.",
            show_default=False,
            autocompletion=checkpoints_like,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions, the machine, and where data and checkpoints are looked for; check a checkpoint.

    The exit code is 2 if the checkpoint is refused.
    """
    from mha_cli.cli.diagnosis import diagnose

    diagnosis = diagnose(checkpoint)
    print_json(diagnosis) if as_json else _print(diagnosis)


def _print(diagnosis: Diagnosis) -> None:

    versions = [(name, found or "not installed") for name, found in diagnosis.versions.items()]
    sections = {"Installation": versions, "Machine": machine(diagnosis), "Places": map(_place, diagnosis.places)}
    if diagnosis.checkpoint is not None:
        sections["Checkpoint, in order"] = _checkpoint(diagnosis.checkpoint)
    for title, rows in sections.items():
        print_figures(title, rows)


def machine(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """What the machine has, in words."""
    yield "cores", f"{diagnosis.cores}"
    yield "long inputs", diagnosis.engine
    yield "bfloat16", ", ".join(diagnosis.bfloat16) or "no"
    yield "memory", _gigabytes(diagnosis.memory_bytes)
    yield "memory available", _gigabytes(diagnosis.memory_available_bytes)
    yield "memory limit", "none" if diagnosis.memory_limit_bytes is None else _gigabytes(diagnosis.memory_limit_bytes)


def _place(place: Place) -> tuple[str, str]:
    if place.path is None:
        return place.what, f"${place.named_by} is not set"
    found = "exists" if place.exists else "does not exist"
    if place.exists and place.checkpoints is not None:
        found = f"{place.checkpoints} checkpoint{'s' * (place.checkpoints != 1)}"
    return place.what, f"{place.path} ({'' if place.named_by == 'default' else f'${place.named_by}, '}{found})"


def _checkpoint(report: CheckpointReport) -> Iterator[tuple[str, str]]:
    yield "file", report.path
    yield "size", f"{report.bytes:,} bytes"
    yield "SHA-256", report.sha256
    yield "format", f"{report.format}"
    yield "classes", f"{len(report.class_names):,}: {listed(report.class_names, MOST_CLASSES)}"
    yield "vocabulary", f"{report.vocabulary_size:,} ids"
    yield "weights", f"{report.num_weights:,}"
    for name, value in report.metrics.items():
        yield name.replace("_", " "), f"{value:.6g}"
    if report.thresholds:
        yield "thresholds", listed([f"{name} {value:.4f}" for name, value in report.thresholds.items()], MOST_CLASSES)


def _gigabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:,.1f} GB"
