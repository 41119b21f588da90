"""The training loop: epochs, a validation score after each, the best one kept; on request from a saved state on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.system.callbacks import Callbacks, EpochRecord, StepProgress
from mha_cli.training.epoch import EpochPosition
from mha_cli.training.state import StateSaver, restore_state
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"


def fit(
    trainer: Trainer,
    validation: Validation,
    keep: Callable[[Checkpoint], None],
    on_step: Callable[[StepProgress], None] = lambda _: None,
    first_epoch: int = 1,
    best: EpochRecord | None = None,
) -> Iterator[EpochRecord]:
    """Train epoch by epoch, until the last one or until patience runs out.

    Args:
        trainer: encoder in training, or anything else with a trainer's methods.
        validation: judge of every epoch.
        keep: function called with the checkpoint of every epoch that is better than all before it, and of every epoch if the last counts.
        on_step: function called after every step.
        first_epoch: 1, or the epoch that an interrupted run goes on with.
        best: best epoch before ``first_epoch``.
    """
    settings = trainer.config.training
    for epoch in range(first_epoch, settings.epochs + 1):
        if settings.patience and best and epoch - 1 - best.epoch >= settings.patience:
            return
        done = run_epoch(trainer, epoch, on_step)
        validation_loss, validation_accuracy = validation.score(trainer)
        if not math.isfinite(validation_loss):
            raise MhaError(f"the validation loss is {validation_loss} after epoch {epoch}", DIVERGED, EXIT_FAILURE)
        keeps_last = settings.monitor == "last"
        is_best = epoch == settings.epochs if keeps_last else best is None
        if best and settings.monitor == "loss":
            is_best = validation_loss < best.validation_loss
        elif best and settings.monitor == "accuracy":
            is_best = validation_accuracy > best.validation_accuracy
        record = EpochRecord(
            epoch, done.loss, done.accuracy, validation_loss, validation_accuracy, done.seconds, done.num_texts / done.seconds, is_best
        )
        if is_best:
            best = record
        if is_best or keeps_last:  # an interrupted run has a checkpoint, too
            keep(validation.checkpoint(trainer, record))
        yield record


def run_epoch(trainer: Trainer, epoch: int, on_step: Callable[[StepProgress], None]) -> EpochPosition:
    """Train on every review of the epoch once, from the trainer's position on if that is in this epoch.

    Args:
        trainer: encoder in training.
        epoch: number from 1; with the config's seed it decides the order.
        on_step: function called after every step, when the trainer's position counts it already.
    """
    inputs, settings = trainer.inputs, trainer.config.training
    if trainer.position.epoch != epoch:
        trainer.position = EpochPosition(epoch)
    batches = inputs.batches(epoch)
    before, following = (sum(map(inputs.num_texts, epochs)) for epochs in (range(1, epoch), range(epoch, settings.epochs + 1)))
    earlier, last = trainer.position, time.perf_counter()
    for step, (rows, tokens) in enumerate(inputs.steps(epoch, batches), start=1):
        if step <= earlier.step:  # done before an interruption: only chance has to be where it was
            last = time.perf_counter()
            continue
        loss_sum, num_correct = trainer.step(rows, tokens)
        now = time.perf_counter()
        seconds, last = now - last, now
        reviews_per_second = trainer.pace.with_step(len(rows), seconds)
        done = trainer.position = trainer.position.after_step(loss_sum, num_correct, len(rows), seconds)
        if not math.isfinite(done.loss_sum):
            raise MhaError(f"the loss is {done.loss_sum} at epoch {epoch}, step {step}", DIVERGED, EXIT_FAILURE)
        on_step(
            StepProgress(
                epoch=epoch,
                epochs=settings.epochs,
                step=step,
                steps=len(batches),
                loss=done.loss,
                accuracy=done.accuracy,
                done=(before + done.num_texts) / (before + following),
                reviews_per_second=reviews_per_second,
                seconds_left=None if reviews_per_second is None else (following - done.num_texts) / reviews_per_second,
            )
        )
    return trainer.position


def fit_resumably(
    path: Path,
    trainer: Trainer,
    validation: Validation,
    keep: Callable[[Checkpoint], None],
    callbacks: Callbacks,
    keep_history: Callable[[list[EpochRecord]], None] = lambda _: None,
) -> list[EpochRecord]:
    """``fit``, from the saved state on if there is one, and with the state saved as training goes on; returns the history.

    Args:
        path: state file.
        trainer: encoder in training.
        validation: judge of every epoch.
        keep: writer of every epoch's checkpoint that is better than all before it; it comes before the state is saved.
        keep_history: function called with the history after every epoch, before the state is saved.

    Raises:
        KeyboardInterrupt: the callbacks asked to stop; the state is saved.
    """
    records = restore_state(path, trainer)
    best = next((record for record in reversed(records) if record.best), None)
    saver = StateSaver(path, trainer, records, callbacks.stop)

    def on_step(progress: StepProgress) -> None:
        callbacks.on_step(progress)
        saver.after_step()

    for record in fit(trainer, validation, keep, on_step, first_epoch=len(records) + 1, best=best):
        records.append(record)
        keep_history(records)
        saver.after_epoch()
        callbacks.on_epoch(record)
    saver.finish()
    return records
