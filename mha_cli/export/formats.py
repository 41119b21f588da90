"""Write a checkpoint in another format, and refuse an export that answers differently."""

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
class Format:
    """A format of other programs.

    ``opened`` opens the written file or folder in its own runtime; it gives a function from inputs to the probabilities of all classes,
    float32 (B, C).
    """

    write: Callable[[Checkpoint, Path], None]  # function that writes a checkpoint to a path where nothing is yet
    opened: Callable[[Path], Callable[[Inputs], Any]]
    tolerance: float  # largest difference of a probability from the checkpoint's, in [0, 1]
    packages: tuple[str, ...] = ()  # modules of the extra that is called like the format


ROUNDING = 1e-4  # allowed in float32: the order of additions alone makes 1e-7 to 1e-6, an operator of another meaning far more
ROUNDING_TO_BYTES = 0.2  # allowed to one byte per weight, which moves a probability near one half by some hundredths; sure answers stay so

FORMATS: dict[str, Format] = {
    "int8": Format(
        lambda checkpoint, path: write_checkpoint(path, checkpoint, small=True),
        lambda path: forward_of(read_checkpoint(path)),
        ROUNDING_TO_BYTES,
    ),
    "onnx": Format(onnx_file.write, onnx_file.opened, ROUNDING, ("onnx", "onnxruntime")),
    "saved-model": Format(tensorflow_files.write_saved_model, tensorflow_files.open_saved_model, ROUNDING),
    "litert": Format(tensorflow_files.write_litert, tensorflow_files.open_litert, ROUNDING, ("ai_edge_litert",)),
}


@dataclass(frozen=True)
class Export:
    """An export that has been checked on ``num_texts`` texts."""

    path: str
    format: str
    num_bytes: int  # size of all files at ``path``
    num_texts: int
    largest_difference: float  # largest difference of a class probability from the checkpoint's, in [0, 1]
    tolerance: float  # largest difference that is allowed
    num_changed: int  # checked texts to which the export gives another class
    accuracy: Accuracy | None = None  # accuracy on labelled texts; None if none were given


def known_format(name: str) -> Format:
    """The format of that name, if all that it needs is installed."""
    found = FORMATS[name]
    need(f"--format {name}", name, *found.packages)
    return found


def export_checkpoint(
    checkpoint: Checkpoint, name: str, output: Path, callbacks: Callbacks = SILENT, labelled: LabelledTexts | None = None
) -> Export:
    """Write a checkpoint in another format to ``output``, where nothing is yet; it appears there only if it answers like the checkpoint.

    With ``labelled`` texts, both are scored on them.
    """
    chosen = known_format(name)
    texts = check_texts(checkpoint)
    with atomic_place(output) as place:
        callbacks.log(f"writing {output.name}")
        chosen.write(checkpoint, place)
        callbacks.log(f"checking {output.name} on {plural(len(texts), 'text')}")
        run = chosen.opened(place)
        difference, num_changed = differences(run, checkpoint, texts)
        if not difference <= chosen.tolerance:  # NaN is refused as well
            raise MhaError(
                f"--format {name}: a probability differs by {difference:.1e} from the checkpoint's, more than {chosen.tolerance:.0e}",
                "nothing was written; take another format",
                EXIT_FAILURE,
            )
        accuracy = accuracies(run, checkpoint, labelled, callbacks) if labelled else None
        num_bytes = sum(file.stat().st_size for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file())
    return Export(str(output), name, num_bytes, len(texts), difference, chosen.tolerance, num_changed, accuracy)
