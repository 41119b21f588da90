"""A run directory: what `mha train` leaves behind."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, CONFIG, METRICS, STATE, kept_if_learnt, make_run_directory, refuse_other_run, refuse_used
from mha_cli.config.loading import config_to_yaml
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.system.files import atomic_write, locked
from mha_cli.system.watcher import SILENT, EpochRecord, Watcher
from mha_cli.training.footprint import refuse_what_does_not_fit
from mha_cli.training.loop import Trainer
from mha_cli.training.pseudo_labels import pseudo_labels, with_pseudo_labels
from mha_cli.training.state import fit_resumably, to_checkpoint

HISTORY = "history.jsonl"


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
        KeyboardInterrupt: the watcher asked to stop. As after any fault, the directory is as it was before if nothing has been learnt.
    """
    _refuse(output, config, resume)
    data = data or prepare(config, watcher)
    refuse_what_does_not_fit(config, data)
    new = make_run_directory(output)
    try:
        with locked(output):
            _refuse(output, config, resume)  # again: while the data was read, another training may have come and gone
            if resume:
                return _train_in(output, config, data, watcher)
            with kept_if_learnt(output):
                with atomic_write(output / CONFIG) as file:
                    file.write(config_to_yaml(config).encode())
                return _train_in(output, config, data, watcher)
    finally:
        if new:
            with suppress(OSError):
                output.rmdir()  # only what is empty can be removed


def _refuse(output: Path, config: Config, resume: bool) -> None:
    if resume:
        refuse_other_run(output, config)
    else:
        refuse_used(output)


def _train_in(output: Path, config: Config, data: PreparedData, watcher: Watcher) -> TrainingSummary:
    state = output / STATE
    state.parent.mkdir(exist_ok=True)
    if config.training.pseudo_labels:
        data = with_pseudo_labels(data, pseudo_labels(config, data, watcher, state.parent))
    watcher.log("building the model")
    trainer = Trainer(config, data, watcher.log)

    def keep(records: list[EpochRecord]) -> None:
        if records[-1].best:
            write_checkpoint(output / CHECKPOINT, to_checkpoint(trainer, records[-1]))
        _write_history(output / HISTORY, records)

    records = fit_resumably(state, trainer, watcher, keep)
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


def _write_history(path: Path, records: list[EpochRecord]) -> None:
    with atomic_write(path) as file:
        file.writelines(json.dumps(dataclasses.asdict(record)).encode() + b"\n" for record in records)
