"""Export a checkpoint to another format; refuse an export whose probabilities differ on texts made for it, and score both."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.config.parameters import encoder_length, input_names
from mha_cli.config.settings import SampleData
from mha_cli.corpus.batches import padded, scoring_batches
from mha_cli.errors import EXIT_FAILURE, MhaError, need, plural
from mha_cli.export import onnx_file, tensorflow_files
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.classifier import Classifier, forward_of
from mha_cli.runtime.metrics import answers_among, equal
from mha_cli.sources.sample import SampleTexts
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.whole_files import atomic_place
from mha_cli.text.encoding import EncodedText
from mha_cli.text.vocabulary import SPECIAL_TOKENS

Inputs = dict[str, Int32s]  # padded token ids by the names of the model's inputs

SAMPLE_TEXTS = 16
LENGTHS = (1, 2, 3, 5, 8, 21, 64, 200, 600)  # lengths of the texts that are drawn from the model's vocabulary, in tokens

BATCH_TOKENS = 500
SPARE_POSITIONS = 3  # padding after the longest text of a batch

ODD_TEXTS = (
    "",
    "a",
    ".",
    "!!! ??? ...",
    "Zzyzxq wrblgh ffrngk.",
    "superb zzyzxq dreadful zzyzxq superb",
    "not not not not not not not not",
    "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3,
    "Ça déjà vu, naïve — 映画 は 素晴らしい 😀",
    "It's the film's own <br /><br /> ending, isn't it?",
    "\0",
    "a\0b \ufffd \uffff \U0010ffff \ud800",
)


def check_texts(checkpoint: Checkpoint) -> list[EncodedText]:
    """A few dozen encoded texts: short and long ones, of known and unknown words."""
    rng = random.Random(0)
    words = checkpoint.vocabulary.tokens[len(SPECIAL_TOKENS) :] or ("unknown",)
    texts = [labelled.text for labelled in islice(SampleTexts(SampleData()).read("test"), SAMPLE_TEXTS)]
    texts += ODD_TEXTS
    for length in LENGTHS:
        texts += [" ".join(rng.choices(words, k=length)), " ".join(rng.choices((*words[:50], "zzyzxq"), k=length))]
    pipeline = checkpoint.text_pipeline
    encoded = [pipeline.encode(text) for text in texts]
    checkpoint.memory_estimate.at_once().refuse_too_long(max(text.input_length for text in encoded))
    return encoded


def batches_of(encoded: list[EncodedText], checkpoint: Checkpoint) -> Iterator[tuple[list[int], Inputs]]:
    """Row numbers and inputs: each text alone, then batches of different lengths with padding after the longest."""
    config = checkpoint.config
    limits = {"pieces": encoder_length(config), "token_ids": config.text.sequence_length}

    def inputs_of(rows: Sequence[int], num_spare: int = 0) -> Inputs:
        inputs = {}
        for name in input_names(config):
            tokens = [encoded[row].for_encoder if name == "pieces" else encoded[row].tokens for row in rows]
            inputs[name] = padded(tokens, max(1, min(max(map(len, tokens)) + num_spare, limits[name])))
        return inputs

    for row in range(len(encoded)):
        yield [row], inputs_of([row])
    lengths = np.array([text.input_length for text in encoded])
    for rows in scoring_batches(lengths, checkpoint.memory_estimate.at_once(), BATCH_TOKENS):
        yield rows.tolist(), inputs_of(rows.tolist(), SPARE_POSITIONS)


def differences(run: Callable[[Inputs], Any], checkpoint: Checkpoint, texts: list[EncodedText]) -> tuple[float, int]:
    """How far an export is from its checkpoint, for single texts and in padded batches.

    The result is the largest difference of a class probability, infinite for an array of another shape, and the number of changed answers.
    """
    all_expected = Classifier(checkpoint.always_encoding).probabilities(texts)
    largest, changed = [0.0], set()
    for rows, inputs in batches_of(texts, checkpoint):
        expected, probabilities = all_expected[rows], np.asarray(run(inputs))
        if probabilities.shape != expected.shape:
            return float("inf"), len(texts)
        largest.append(float(np.abs(probabilities - expected).max()))
        changed.update(np.array(rows)[probabilities.argmax(axis=1) != expected.argmax(axis=1)].tolist())
    return float(np.max(largest)), len(changed)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a checkpoint and its export, in [0, 1]."""

    data: str
    num_texts: int
    checkpoint: float
    export: float
    num_changed: int  # texts to which the export gives another class


def accuracies(run: Callable[[Inputs], Any], checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT) -> Accuracy:
    """Score an export, given as a function from inputs to probabilities (B, C), and its checkpoint, on at least one text."""
    texts, num_scored = labelled.texts, 0
    is_multi_label, thresholds = checkpoint.config.is_multi_label, checkpoint.label_thresholds
    forwards, predicted = (forward_of(checkpoint), run), np.stack([np.zeros_like(texts.labels)] * 2)
    for rows in scoring_batches(texts.input_lengths, checkpoint.memory_estimate):
        inputs = {name: (texts.for_encoder if name == "pieces" else texts).padded(rows) for name in input_names(checkpoint.config)}
        predicted[:, rows] = [answers_among(np.asarray(forward(inputs)), is_multi_label, thresholds) for forward in forwards]
        num_scored += len(rows)
        callbacks.on_texts(num_scored, len(texts))
    of_checkpoint, of_export = (float(equal(labels, texts.labels).mean()) for labels in predicted)
    num_changed = int((~equal(*predicted)).sum())
    return Accuracy(f"{labelled.data}, split {labelled.split}", len(texts), of_checkpoint, of_export, num_changed)


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
        if checkpoint.config.data.none_label and name != "int8":
            callbacks.note(f"{output.name}: gives probabilities alone; mha predict decides by them which texts have no class")
        accuracy = accuracies(run, checkpoint, labelled, callbacks) if labelled else None
        num_bytes = sum(file.stat().st_size for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file())
    return Export(str(output), name, num_bytes, len(texts), difference, export_format.tolerance, num_changed, accuracy)
