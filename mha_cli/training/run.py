"""A run of `mha train`, from a config to a checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import read_metrics, write_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, HISTORY, METRICS, STATE, RunDirectory, keep_config
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.linear.fit import LinearModel, fit_linear_model, refit_linear_model
from mha_cli.records.objects import plain_json
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distillation import distilled
from mha_cli.training.distribution import Distribution, distributed
from mha_cli.training.loop import fit
from mha_cli.training.memory_estimate import refuse_what_does_not_fit
from mha_cli.training.precision import choose_precision
from mha_cli.training.state import StateSaver, restore_state
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from mha_cli.version import __version__


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended.

    Args:
        checkpoint: file of the best epoch.
        best: best epoch, by validation.
        epochs_run: epochs trained, of those configured.
        num_train: texts to learn from.
        num_validation: texts that chose the best epoch.
        num_parameters: numbers in all weights, with the linear model's.
        vocabulary_size: ids, with the two special ones.
        seconds: time for the training steps of all epochs.
        precision: type of the matrix products.
        metrics: figures in the checkpoint; empty on workers other than the chief, which may not have the file.
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
    metrics: Mapping[str, float]


def train(config: Config, output: RunDirectory, callbacks: Callbacks = SILENT, data: PreparedData | None = None) -> TrainingSummary:
    """Train a classifier in its run directory, or go on with an interrupted run.

    Args:
        config: settings of the run; with data given, those that the data have decided.
        output: run directory, from ``run_directory``; an interrupted run ends with the same weights as one without interruption.
        data: texts from ``prepare``; several workers read them here, once TensorFlow knows the workers.

    Raises:
        KeyboardInterrupt: the callbacks asked to stop.
    """
    with distributed(config.training.distribution, callbacks) as distribution:
        if data is None:
            data = prepare(config, callbacks)
            config = data.config
        return _train(config, output, distribution.watched(callbacks), data, distribution)


def _train(config: Config, output: RunDirectory, callbacks: Callbacks, data: PreparedData, distribution: Distribution) -> TrainingSummary:
    is_chief = distribution.task.is_chief
    distribution.refuse_difference("texts or settings", lambda: fingerprint(config, data))
    refuse_what_does_not_fit(config, data, distribution.task.num_workers)
    if is_chief:
        keep_config(output, config)
        (output / STATE).parent.mkdir(exist_ok=True)

    to_learn, linear, refitted = fit_linear_models(config, data, callbacks.log, distribution)
    validation = Validation(config, data, linear, refitted)
    callbacks.log("building the model")
    trainer = Trainer(config, to_learn, distribution)

    records = restore_state(output / STATE, trainer)
    state = StateSaver(output / STATE, trainer, records, callbacks)
    for record in fit(trainer, validation, state.after_step, records):
        records.append(record)
        if is_chief:
            if record.best or config.training.monitor == "last":  # so that an interrupted run has a checkpoint
                write_checkpoint(output / CHECKPOINT, validation.checkpoint(trainer, record))
            _write_history(output / HISTORY, records)
        state.after_epoch()
        callbacks.on_epoch(record)
    state.finish()

    summary = TrainingSummary(
        checkpoint=output / CHECKPOINT,
        best=[record for record in records if record.best][-1],
        epochs_run=len(records),
        num_train=len(to_learn.train),
        num_validation=len(data.validation),
        num_parameters=num_parameters(config.of_checkpoint(), len(data.vocabulary), len(data.class_names)),
        vocabulary_size=len(data.vocabulary),
        seconds=sum(record.seconds for record in records),
        precision=trainer.precision,
        metrics=read_metrics(output / CHECKPOINT) if is_chief else {},
    )
    if is_chief:
        with atomic_write(output / METRICS) as file:
            file.write(plain_json(dataclasses.asdict(summary) | {"checkpoint": CHECKPOINT}, indent=1).encode())
    return summary


def fit_linear_models(
    config: Config, data: PreparedData, log: Callable[[str], None], distribution: Distribution
) -> tuple[PreparedData, LinearModel | None, LinearModel | None]:
    """Fit the linear model, and with ``refit_scores`` the one that the checkpoint keeps; the chief fits both for all workers.

    Returns:
        The data that the encoder learns from, and the two models; None for a model that the config does not ask for.
    """
    if not config.model.score_ngrams:
        return data, None, None
    if config.training.distill_linear:
        to_learn, linear = distilled(config, data, log, distribution)
    else:
        to_learn, linear = data, LinearModel.from_arrays(distribution.from_chief(lambda: fit_linear_model(config, data, log).arrays()))
    refitted = None
    if config.learns_from_validation:
        refitted = LinearModel.from_arrays(distribution.from_chief(lambda: refit_linear_model(config, data, linear, log).arrays()))
    return to_learn, linear, refitted


def fingerprint(config: Config, data: PreparedData) -> list[npt.NDArray[Any]]:
    """Numbers that differ where settings, words, lengths, labels or mha do; where the texts lie does not count."""
    settings = [__version__, choose_precision(config), config.model_dump_json(exclude={"data"})]
    words = json.dumps([settings, data.class_names, list(data.vocabulary.tokens)]).encode()
    parts = [data.train, data.validation, *([] if data.unlabelled is None else [data.unlabelled])]
    return [np.frombuffer(words, np.uint8), *(array for part in parts for array in (part.offsets, part.labels))]


def _write_history(path: Path, records: list[EpochRecord]) -> None:
    with atomic_write(path) as file:
        file.writelines(json.dumps(dataclasses.asdict(record)).encode() + b"\n" for record in records)
