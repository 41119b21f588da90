"""A run of `mha train`, from a config to a checkpoint."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, METRICS, STATE, RunDirectory
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.ngram_scores.fit import fit_scores
from mha_cli.system.watcher import SILENT, EpochRecord, Watcher
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.footprint import refuse_what_does_not_fit
from mha_cli.training.loop import fit_resumably
from mha_cli.training.pseudo_labels import label_in_rounds
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation

HISTORY = "history.jsonl"


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended.

    Args:
        checkpoint: file of the best epoch.
        best: best epoch, by validation.
        epochs_run: epochs trained, of those configured.
        num_train: reviews learnt from.
        num_validation: reviews that chose the best epoch.
        num_parameters: numbers in all weights, the table of n-gram scores included.
        vocabulary_size: ids, the two special ones included.
        seconds: time for the training steps of all epochs.
        precision: type in which the products were computed.
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


def train(config: Config, output: RunDirectory, watcher: Watcher = SILENT, data: PreparedData | None = None) -> TrainingSummary:
    """Train a classifier in its run directory, from what is there on if the run was interrupted.

    Args:
        config: settings of the run.
        output: run directory, from ``run_directory``. A run that goes on ends with the weights that it would have without the interruption.
        watcher: reporter of what goes on.
        data: result of ``prepare(config)``, where it is there already.

    Raises:
        MhaError: the data does not fit the config or the run not into memory, or the loss is no longer a number.
        KeyboardInterrupt: the watcher asked to stop.
    """
    data = data or prepare(config, watcher)
    refuse_what_does_not_fit(config, data)
    state = output / STATE
    state.parent.mkdir(exist_ok=True)

    scores = fit_scores(config, data, watcher.log) if config.model.score_ngrams else None
    validation = Validation(config, data, scores)
    data = label_in_rounds(data, config.training.pseudo_labels, partial(Trainer, config), validation, watcher, state.parent)

    watcher.log("building the model")
    trainer = Trainer(config, data)
    keep = partial(write_checkpoint, output / CHECKPOINT)
    records = fit_resumably(state, trainer, validation, keep, watcher, partial(_write_history, output / HISTORY))

    summary = TrainingSummary(
        checkpoint=output / CHECKPOINT,
        best=[record for record in records if record.best][-1],
        epochs_run=len(records),
        num_train=len(data.train),
        num_validation=len(data.validation),
        num_parameters=num_parameters(config, len(data.vocabulary), len(data.class_names)),
        vocabulary_size=len(data.vocabulary),
        seconds=sum(record.seconds for record in records),
        precision=trainer.precision,
    )
    with atomic_write(output / METRICS) as file:
        file.write(json.dumps(dataclasses.asdict(summary) | {"checkpoint": CHECKPOINT}, indent=1).encode())
    return summary


def _write_history(path: Path, records: list[EpochRecord]) -> None:
    with atomic_write(path) as file:
        file.writelines(json.dumps(dataclasses.asdict(record)).encode() + b"\n" for record in records)
