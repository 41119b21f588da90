"""Export a checkpoint to another format, and refuse an export whose probabilities differ."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.errors import EXIT_FAILURE, MhaError, need, plural
from mha_cli.export import onnx_file, tensorflow_files
from mha_cli.export.check import Accuracy, Inputs, accuracies, check_texts, differences
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.classifier import forward_of
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.whole_files import atomic_place


@dataclass(frozen=True)
class ExportFormat:
    """A format to which a checkpoint can be exported."""

    write: Callable[[Checkpoint, Path], None]  # writes a checkpoint to a new path
    load: Callable[[Path], Callable[[Inputs], Any]]  # loads the export into its runtime: a function from inputs to probabilities (B, C)
    tolerance: float  # largest allowed difference of a probability from the checkpoint's, in [0, 1]
    packages: tuple[str, ...] = ()  # modules of the extra that has the name of the format


FLOAT32_TOLERANCE = 1e-4  # the order of additions alone makes a difference of 1e-7 to 1e-6, an operator of another meaning far more
INT8_TOLERANCE = 0.2  # a probability near one half changes by some hundredths, one near 0 or 1 hardly

FORMATS: dict[str, ExportFormat] = {
    "int8": ExportFormat(
        lambda checkpoint, path: write_checkpoint(path, checkpoint, small=True),
        lambda path: forward_of(read_checkpoint(path)),
        INT8_TOLERANCE,
    ),
    "onnx": ExportFormat(onnx_file.write, onnx_file.load, FLOAT32_TOLERANCE, ("onnx", "onnxruntime")),
    "saved-model": ExportFormat(tensorflow_files.write_saved_model, tensorflow_files.load_saved_model, FLOAT32_TOLERANCE),
    "litert": ExportFormat(tensorflow_files.write_litert, tensorflow_files.load_litert, FLOAT32_TOLERANCE, ("ai_edge_litert",)),
}


@dataclass(frozen=True)
class Export:
    """An export that has been compared with its checkpoint."""

    path: str
    format: str
    num_bytes: int  # size of all files at ``path``
    num_texts: int  # texts of the comparison
    largest_difference: float  # largest difference of a class probability from the checkpoint's, in [0, 1]
    tolerance: float  # largest difference that is allowed
    num_changed: int  # texts of the comparison to which the export gives another class
    accuracy: Accuracy | None = None  # accuracy on labelled texts; None if none were given


def installed_format(name: str) -> ExportFormat:
    """The format of that name; an error if its packages are not installed."""
    need(f"--format {name}", name, *FORMATS[name].packages)
    return FORMATS[name]


def export_checkpoint(
    checkpoint: Checkpoint, name: str, output: Path, callbacks: Callbacks = SILENT, labelled: LabelledTexts | None = None
) -> Export:
    """Write a checkpoint in another format to ``output``, a new path; nothing is left there if its probabilities differ.

    On ``labelled`` texts, both are scored.
    """
    export_format = installed_format(name)
    texts = check_texts(checkpoint)
    with atomic_place(output) as place:
        callbacks.log(f"writing {output.name}")
        export_format.write(checkpoint, place)
        callbacks.log(f"checking {output.name} on {plural(len(texts), 'text')}")
        run = export_format.load(place)
        difference, num_changed = differences(run, checkpoint, texts)
        if not difference <= export_format.tolerance:  # NaN is refused as well
            message = f"a probability differs by {difference:.1e} from the checkpoint's, more than {export_format.tolerance:.0e}"
            raise MhaError(f"--format {name}: {message}", "nothing was written; take another format", EXIT_FAILURE)
        accuracy = accuracies(run, checkpoint, labelled, callbacks) if labelled else None
        num_bytes = sum(file.stat().st_size for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file())
    return Export(str(output), name, num_bytes, len(texts), difference, export_format.tolerance, num_changed, accuracy)
