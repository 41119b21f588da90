"""A run directory: what `mha train` leaves behind."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import keras

from mha_cli.checkpoint import Checkpoint, write_checkpoint
from mha_cli.config import Config, config_to_yaml
from mha_cli.errors import MhaError, printable
from mha_cli.files import atomic_write
from mha_cli.progress import SILENT, EpochRecord, Watcher
from mha_cli.runs import CHECKPOINT
from mha_cli.training.loop import Trainer, fit
from mha_cli.training.preparation import PreparedData, prepare

CONFIG = "config.yaml"
HISTORY = "history.jsonl"
METRICS = "metrics.json"


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended.

    Args:
        checkpoint: the best epoch's.
        best: the best epoch, by validation.
        epochs_run: epochs trained, of those configured.
        num_train: reviews learnt from.
        num_validation: reviews that chose the best epoch.
        num_parameters: trainable weights.
        vocabulary_size: ids, the two special ones included.
        seconds: of the training steps of all epochs.
    """

    checkpoint: Path
    best: EpochRecord
    epochs_run: int
    num_train: int
    num_validation: int
    num_parameters: int
    vocabulary_size: int
    seconds: float


def train(config: Config, output: Path, watcher: Watcher = SILENT, data: PreparedData | None = None) -> TrainingSummary:
    """Train a classifier and write its run directory.

    Args:
        config: the run.
        output: the run directory; made if it is missing.
        watcher: told how it goes.
        data: from ``prepare(config)``, where several runs share it.

    Raises:
        MhaError: the directory is in use, the data does not fit, or the loss is no longer a number.
    """
    refuse_used(output)
    data = data or prepare(config, watcher.tell)
    make_run_directory(output)
    with atomic_write(output / CONFIG) as file:
        file.write(config_to_yaml(config).encode())
    trainer = Trainer(config, data)
    records: list[EpochRecord] = []
    for record in fit(trainer, watcher.on_step):
        records.append(record)
        if record.best:
            write_checkpoint(output / CHECKPOINT, to_checkpoint(trainer, record))
        _write_history(output / HISTORY, records)
        watcher.on_epoch(record)
    summary = TrainingSummary(
        checkpoint=output / CHECKPOINT,
        best=[record for record in records if record.best][-1],
        epochs_run=len(records),
        num_train=len(data.train),
        num_validation=len(data.validation),
        num_parameters=trainer.model.count_params(),
        vocabulary_size=len(data.vocabulary),
        seconds=sum(record.seconds for record in records),
    )
    with atomic_write(output / METRICS) as file:
        file.write(json.dumps(dataclasses.asdict(summary) | {"checkpoint": CHECKPOINT}, indent=1).encode())
    return summary


def refuse_used(output: Path) -> None:
    """Refuse a run directory that holds anything.

    Raises:
        MhaError: it is not a folder, or it is not empty.
    """
    name = printable(str(output), 200)
    try:
        used = output.exists() and (not output.is_dir() or any(output.iterdir()))
    except (OSError, ValueError) as error:
        raise MhaError(f"--output {name}: {error}", "choose a folder that can be written to") from None
    if used:
        what = "holds an earlier run" if (output / CONFIG).is_file() else "is in use" if output.is_dir() else "is a file"
        raise MhaError(f"--output {name}: {what}", "choose another folder, or remove this one")


def make_run_directory(output: Path) -> None:
    """Make the run directory.

    Raises:
        MhaError: it cannot be made.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MhaError(f"--output {printable(str(output), 200)}: cannot be made: {error.strerror}", "choose another folder") from None


def to_checkpoint(trainer: Trainer, record: EpochRecord) -> Checkpoint:
    """The trainer's weights as they would be used, with the figures of an epoch."""
    return Checkpoint(
        config=trainer.config,
        class_names=trainer.data.class_names,
        vocabulary=trainer.data.vocabulary,
        metrics={"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss},
        weights=trainer.weights(),
        keras_config=json.dumps(keras.saving.serialize_keras_object(trainer.model)),
    )


def _write_history(path: Path, records: list[EpochRecord]) -> None:
    with atomic_write(path) as file:
        file.writelines(json.dumps(dataclasses.asdict(record)).encode() + b"\n" for record in records)
