"""The files of a run: config, checkpoint, history, state and metrics; and digests of its settings and texts."""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mha_cli.checkpoint.file import Checkpoint, read_config_and_metrics, write_checkpoint
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData
from mha_cli.records.objects import plain_json
from mha_cli.runs import CHECKPOINT, HISTORY, METRICS, STATE, RunDirectory, keep_config, refuse_other_texts
from mha_cli.system.callbacks import Callbacks, EpochRecord, StepProgress
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Distribution, digest_of
from mha_cli.training.learner import Learner
from mha_cli.training.precision import choose_precision
from mha_cli.training.progress import Progress, restore_state, save_state
from mha_cli.version import __version__

LEAST_SECONDS = 30.0  # least time between two saves of the state within an epoch
MOST_SHARE = 0.015  # largest share of the time that saving may take


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended."""

    checkpoint: Path  # file of the best epoch
    best: EpochRecord
    epochs_run: int
    num_train: int  # texts of the training part, and unlabelled texts
    num_validation: int
    num_parameters: int  # numbers in all weights, including the linear model's
    vocabulary_size: int  # token ids, including the two special ones
    seconds: float  # time for the training steps of all epochs
    precision: str  # type of the matrix products
    metrics: Mapping[str, float]  # metrics in the checkpoint; empty on workers other than the chief, which may not have the file


class RunFiles:
    """Writes the files of a run; with several workers, only the chief writes."""

    def __init__(self, output: RunDirectory, distribution: Distribution, callbacks: Callbacks) -> None:
        self._output, self._distribution, self._callbacks = output, distribution, callbacks
        self._is_chief = distribution.task.is_chief
        self._progress: Progress
        self._last_save, self._save_seconds = 0.0, 0.0

    def begin(self, config: Config, data: PreparedData) -> None:
        """Refuse texts that differ from those of the interrupted run or of another worker; write the config."""
        if self._is_chief:
            refuse_other_texts(self._output, texts_digest(data))
        self._distribution.refuse_difference("texts or settings", lambda: fingerprint(config, data))
        if self._is_chief:
            keep_config(self._output, config)

    def resume(self, learner: Learner) -> Progress:
        """Load the saved state into the learner, if there is one, and return its progress."""
        self._progress, self._last_save = restore_state(self._output / STATE, learner, self._distribution), time.monotonic()
        return self._progress

    def after_step(self, step: StepProgress) -> None:
        """Report a step, and save the state from time to time.

        Raises:
            KeyboardInterrupt: the callbacks asked to stop; the state is saved.
        """
        self._callbacks.on_step(step)
        if self._callbacks.stop():
            self._save_state()
            raise KeyboardInterrupt
        self._save_state(LEAST_SECONDS)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint."""
        if self._is_chief:
            write_checkpoint(self._output / CHECKPOINT, checkpoint)

    def after_epoch(self, record: EpochRecord) -> None:
        """Write the history and, unless saving takes too much time, the state; report the epoch."""
        if self._is_chief:
            with atomic_write(self._output / HISTORY) as file:
                file.writelines(json.dumps(dataclasses.asdict(epoch)).encode() + b"\n" for epoch in self._progress.records)
        self._save_state(0.0)
        self._callbacks.on_epoch(record)

    def end(self, config: Config, data: PreparedData, to_learn: PreparedData, precision: str) -> TrainingSummary:
        """Write the metrics, and remove the state, since a finished run is not resumed."""
        best, records = self._progress.best, self._progress.records
        assert best
        summary = TrainingSummary(
            checkpoint=self._output / CHECKPOINT,
            best=best,
            epochs_run=len(records),
            num_train=len(to_learn.train),
            num_validation=len(data.validation),
            num_parameters=num_parameters(config.of_checkpoint(), len(data.vocabulary), len(data.class_names)),
            vocabulary_size=len(data.vocabulary),
            seconds=sum(record.seconds for record in records),
            precision=precision,
            metrics=read_config_and_metrics(self._output / CHECKPOINT)[1] if self._is_chief else {},
        )
        if self._is_chief:
            with atomic_write(self._output / METRICS) as file:
                file.write(plain_json(dataclasses.asdict(summary) | {"checkpoint": CHECKPOINT}, indent=1).encode())
            shutil.rmtree((self._output / STATE).parent, ignore_errors=True)
        return summary

    def _save_state(self, least_seconds: float | None = None) -> None:
        """Save the state; given ``least_seconds``, only if the last save is older, and saving keeps within ``MOST_SHARE``."""
        started = time.monotonic()
        if self._is_chief and (least_seconds is None or started - self._last_save >= max(least_seconds, self._save_seconds / MOST_SHARE)):
            save_state(self._output / STATE, self._progress)
            self._last_save = time.monotonic()
            self._save_seconds = self._last_save - started


def fingerprint(config: Config, data: PreparedData) -> bytes:
    """A digest of the settings, texts, labels and mha's version; the paths of the texts do not count."""
    settings = __version__, choose_precision(config), config.model_dump_json(exclude={"data"})
    return hashlib.sha256(json.dumps(settings).encode() + texts_digest(data)).digest()


def texts_digest(data: PreparedData) -> bytes:
    """A digest of the vocabulary, and of the texts of each part with their labels and weights."""
    names = json.dumps([data.class_names, data.vocabulary.tokens]).encode()
    parts = [data.train, data.validation, *([] if data.unlabelled is None else [data.unlabelled])]
    return digest_of(chain([np.frombuffer(names, np.uint8)], *(part.arrays() for part in parts)))
