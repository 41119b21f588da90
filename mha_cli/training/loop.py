"""The training loop: epochs of steps, with a validation score after each epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.system.callbacks import EpochRecord, StepProgress
from mha_cli.training.epoch import EpochPosition
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"


def fit(
    trainer: Trainer,
    validation: Validation,
    on_step: Callable[[StepProgress], None] = lambda _: None,
    earlier: Sequence[EpochRecord] = (),
) -> Iterator[EpochRecord]:
    """Train epoch by epoch, until the last one or until patience runs out; each record comes before the next epoch changes the trainer.

    Args:
        trainer: encoder in training, or anything else with a trainer's methods.
        validation: judge of every epoch.
        on_step: function called after every step.
        earlier: records of the epochs before an interruption.
    """
    settings = trainer.config.training
    best = next((record for record in reversed(earlier) if record.best), None)
    for epoch in range(earlier[-1].epoch + 1 if earlier else 1, settings.epochs + 1):
        if settings.patience and best and epoch - 1 - best.epoch >= settings.patience:
            return
        done = run_epoch(trainer, epoch, on_step)
        loss, accuracy = validation.score(trainer)
        if not math.isfinite(loss):
            raise MhaError(f"the validation loss is {loss} after epoch {epoch}", DIVERGED, EXIT_FAILURE)
        match settings.monitor:
            case "accuracy":
                is_best = best is None or accuracy > best.validation_accuracy
            case "loss":
                is_best = best is None or loss < best.validation_loss
            case "last":
                is_best = epoch == settings.epochs
        record = EpochRecord(epoch, done.loss, done.accuracy, loss, accuracy, done.seconds, done.num_texts / done.seconds, is_best)
        best = record if is_best else best
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
