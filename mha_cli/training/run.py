"""A run directory: what `mha train` leaves behind."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint import Checkpoint, write_checkpoint
from mha_cli.config import Config, config_to_yaml
from mha_cli.files import atomic_write, locked
from mha_cli.progress import SILENT, EpochRecord, StepProgress, Watcher
from mha_cli.runs import CHECKPOINT, CONFIG, METRICS, STATE, make_run_directory, refuse_other_run, refuse_used
from mha_cli.training.footprint import refuse_what_does_not_fit
from mha_cli.training.loop import Trainer, fit
from mha_cli.training.preparation import PreparedData, prepare
from mha_cli.training.pseudo_labels import pseudo_labels, with_pseudo_labels
from mha_cli.training.state import StateSaver, restore_state

HISTORY = "history.jsonl"
PSEUDO_LABELS = "pseudo_labels.npy"


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended.

    Args:
        checkpoint: the best epoch's.
        best: the best epoch, by validation.
        epochs_run: epochs trained, of those configured.
        num_train: reviews learnt from.
        num_validation: reviews that chose the best epoch.
        num_parameters: weights, the table of n-gram scores included.
        vocabulary_size: ids, the two special ones included.
        seconds: of the training steps of all epochs.
        precision: in which the products were computed.
    """

    checkpoint: Path
    best: EpochRecord
    epochs_run: int
    num_train: int
    num_validation: int
    num_parameters: int
    vocabulary_size: int
    seconds: float
    precision: str


def train(
    config: Config, output: Path, watcher: Watcher = SILENT, data: PreparedData | None = None, resume: bool = False
) -> TrainingSummary:
    """Train a classifier and write its run directory.

    Args:
        config: the run.
        output: the run directory; made if it is missing.
        watcher: told how it goes.
        data: from ``prepare(config)``, where several runs share it.
        resume: go on with the interrupted run that the directory holds, from the last saved step; the weights come out the same as if it
            had not been interrupted.

    Raises:
        MhaError: the directory is in use, the data does not fit the config or the run not into memory, or the loss is no longer a number.
    """
    if resume:
        refuse_other_run(output, config)
    else:
        refuse_used(output)
    data = data or prepare(config, watcher.tell)
    refuse_what_does_not_fit(config, data)
    make_run_directory(output)
    with locked(output):
        if not resume:
            with atomic_write(output / CONFIG) as file:
                file.write(config_to_yaml(config).encode())
        return _train_in(output, config, data, watcher)


def _train_in(output: Path, config: Config, data: PreparedData, watcher: Watcher) -> TrainingSummary:
    state = output / STATE
    state.parent.mkdir(exist_ok=True)
    if config.training.pseudo_labels:
        data = with_pseudo_labels(data, _kept_pseudo_labels(state.parent / PSEUDO_LABELS, config, data, watcher))
    trainer = Trainer(config, data, watcher.tell)
    records = restore_state(state, trainer) if state.exists() else []
    best = next((record for record in reversed(records) if record.best), None)
    saver = StateSaver(state, trainer, records, watcher.stop)

    def on_step(progress: StepProgress) -> None:
        watcher.on_step(progress)
        saver.after_step()

    for record in fit(trainer, on_step, first_epoch=len(records) + 1, best=best):
        records.append(record)
        if record.best:
            write_checkpoint(output / CHECKPOINT, to_checkpoint(trainer, record))
        _write_history(output / HISTORY, records)
        saver.save()
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
        precision=trainer.precision,
    )
    with atomic_write(output / METRICS) as file:
        file.write(json.dumps(dataclasses.asdict(summary) | {"checkpoint": CHECKPOINT}, indent=1).encode())
    return summary


def _kept_pseudo_labels(path: Path, config: Config, data: PreparedData, watcher: Watcher) -> npt.NDArray[np.float32]:
    """Pseudo-labels, made once a run: an interrupted run goes on with the same."""
    if path.exists():
        found: npt.NDArray[np.float32] = np.load(path, allow_pickle=False)
        return found
    targets = pseudo_labels(config, data, watcher)
    with atomic_write(path) as file:
        np.save(file, targets, allow_pickle=False)
    return targets


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
