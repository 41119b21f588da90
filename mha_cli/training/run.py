"""A run of `mha train`, from a config to a checkpoint: prepare, fit the linear model, then train, evaluate and keep the best epoch."""

import dataclasses
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mha_cli.checkpoint.file import read_metrics, write_checkpoint
from mha_cli.checkpoint.runs import ANSWERS, CHECKPOINT, FEATURES, HISTORY, METRICS, STATE, RunDirectory, keep_config, refuse_other_texts
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.data.targets import are_several
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.linear.composition import LinearModel
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, refit_linear_model
from mha_cli.linear.stacking import probabilities_of
from mha_cli.records.objects import plain_json
from mha_cli.runtime.metrics import mean_loss_and_accuracy
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord, StepProgress
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distillation import answers_of_linear_model, answers_of_run, with_answers
from mha_cli.training.distribution import Arrays, Distribution, digest_of, distributed
from mha_cli.training.epoch import EpochPosition
from mha_cli.training.frozen import FrozenEncoder
from mha_cli.training.memory_estimate import refuse_what_does_not_fit
from mha_cli.training.precision import choose_precision
from mha_cli.training.state import StateSaver, restore_state
from mha_cli.training.trainable_blocks import decide_trainable_blocks
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from mha_cli.version import __version__

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended."""

    checkpoint: Path  # file of the best epoch
    best: EpochRecord
    epochs_run: int
    num_train: int  # texts to learn from, with unlabelled ones
    num_validation: int
    num_parameters: int  # numbers in all weights, with the linear model's
    vocabulary_size: int  # ids, with the two special ones
    seconds: float  # time for the training steps of all epochs
    precision: str  # type of the matrix products
    metrics: Mapping[str, float]  # figures in the checkpoint; empty on workers other than the chief, which may not have the file


def train(config: Config, output: RunDirectory, callbacks: Callbacks = SILENT, data: PreparedData | None = None) -> TrainingSummary:
    """Train a classifier in its run directory, or go on with an interrupted run, which ends with the same weights as one in one go.

    Args:
        config: settings of the run; with data given, those that the data have decided.
        output: run directory, from ``run_directory``.
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
    if is_chief:
        refuse_other_texts(output, texts_digest(data))
    config = decide_trainable_blocks(config, data, callbacks)
    distribution.refuse_difference("texts or settings", lambda: fingerprint(config, data))
    refuse_what_does_not_fit(config, data, distribution.task.num_workers)
    if is_chief:
        keep_config(output, config)

    if data.pretrained and not (config.is_frozen or data.base):
        data = data.starting_from(distribution.from_chief(lambda: FrozenEncoder(config, data, output / FEATURES, callbacks).start()))
    to_learn, linear, refitted, out_of_fold = fit_before_encoder(config, data, output / ANSWERS, callbacks, distribution)
    validation = Validation(config, data, linear, refitted, out_of_fold)
    callbacks.log("building the model")
    trainer: Trainer | FrozenEncoder
    if config.is_frozen:
        trainer, records, state = FrozenEncoder(config, to_learn, output / FEATURES, callbacks), list[EpochRecord](), None
        epochs = fit_frozen(trainer, validation)
    else:
        trainer = Trainer(config, to_learn, distribution)
        records = restore_state(output / STATE, trainer)
        state = StateSaver(output / STATE, trainer, records, callbacks)
        epochs = fit(trainer, validation, state.after_step, records)
    warning = ""
    for record in epochs:
        records.append(record)
        if is_chief:
            if record.best or config.training.monitor == "last":  # so that an interrupted run has a checkpoint
                write_checkpoint(output / CHECKPOINT, validation.checkpoint(trainer, record))
                warning = validation.warning
            with atomic_write(output / HISTORY) as file:
                file.writelines(json.dumps(dataclasses.asdict(epoch)).encode() + b"\n" for epoch in records)
        if state:
            state.after_epoch()
        callbacks.on_epoch(record)
    if config.training.refit_encoder:
        validation.score(trainer)  # once more, since a run that goes on may have no epoch left
        callbacks.log("training the encoder again, with the validation part")
        refitted_encoder = trainer.refitted() if isinstance(trainer, FrozenEncoder) else refit(config, data, distribution, callbacks)
        if is_chief:
            write_checkpoint(output / CHECKPOINT, validation.checkpoint(refitted_encoder, records[-1]))

    if warning:
        callbacks.note(f"validation part: {warning}")
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
        shutil.rmtree((output / STATE).parent, ignore_errors=True)  # a finished run is not resumed
    return summary


def fit(
    trainer: Trainer, validation: Validation, on_step: Callable[[StepProgress], None] = lambda _: None, earlier: Sequence[EpochRecord] = ()
) -> Iterator[EpochRecord]:
    """Train epoch by epoch, until the last one or until patience runs out; each record comes before the next epoch changes the trainer.

    ``earlier`` are the records of the epochs before an interruption.
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


def fit_frozen(trainer: FrozenEncoder, validation: Validation) -> Iterator[EpochRecord]:
    """The record of a frozen encoder, which learns its last layer in one go."""
    loss, accuracy = validation.score(trainer)
    texts, labels = trainer.data.train, trainer.data.train.labels
    train_loss, train_accuracy = mean_loss_and_accuracy(probabilities_of(trainer.logits(texts), are_several(labels)), labels)
    yield EpochRecord(1, train_loss, train_accuracy, loss, accuracy, trainer.seconds, len(texts) / trainer.seconds, True)


def refit(config: Config, data: PreparedData, distribution: Distribution, callbacks: Callbacks) -> Trainer:
    """An encoder that has learnt from all labelled texts, those of the validation part among them."""
    trainer = Trainer(config, data.with_validation(), distribution)
    for epoch in range(1, config.training.epochs + 1):
        run_epoch(trainer, epoch, callbacks.after_step)
    return trainer


def run_epoch(trainer: Trainer, epoch: int, on_step: Callable[[StepProgress], None] = lambda _: None) -> EpochPosition:
    """Train on every text of the epoch once, from the trainer's position on if that is in this epoch.

    Epochs count from 1. ``on_step`` is called after every step, when the trainer's position counts it already.
    """
    inputs, settings = trainer.inputs, trainer.config.training
    if trainer.position.epoch != epoch:
        trainer.position = EpochPosition(epoch)
    done = trainer.position
    batches, steps_before = inputs.batches(epoch), done.step
    before, following = (sum(map(inputs.num_texts, epochs)) for epochs in (range(1, epoch), range(epoch, settings.epochs + 1)))
    last = time.perf_counter()
    for step, (rows, tokens) in enumerate(inputs.steps(epoch, batches), start=1):
        if step <= steps_before:  # done before an interruption: only chance has to be where it was
            last = time.perf_counter()
            continue
        loss_sum, num_correct = trainer.step(rows, tokens)
        now = time.perf_counter()
        seconds, last = now - last, now
        done.add_step(loss_sum, num_correct, len(rows), seconds)
        if not math.isfinite(done.loss_sum):
            raise MhaError(f"the loss is {done.loss_sum} at epoch {epoch}, step {step}", DIVERGED, EXIT_FAILURE)
        pace = trainer.pace.with_step(len(rows), seconds)
        on_step(
            StepProgress(
                epoch=epoch,
                epochs=settings.epochs,
                step=step,
                steps=len(batches),
                loss=done.loss,
                accuracy=done.accuracy,
                done=(before + done.num_texts) / (before + following),
                texts_per_second=pace,
                seconds_left=None if pace is None else (following - done.num_texts) / pace,
            )
        )
    return done


def fit_before_encoder(
    config: Config, data: PreparedData, path: Path, callbacks: Callbacks, distribution: Distribution
) -> tuple[PreparedData, LinearModel | None, LinearModel | None, np.ndarray | None]:
    """Ask the teacher, whose answers ``path`` keeps, and fit the linear model, with ``refit_linear`` twice; the chief does it for all.

    Returns:
        The data that the encoder learns from, the two models, and out-of-fold logits of the first; None for what the config does not ask
        for.
    """
    arrays = distribution.from_chief(lambda: _fitted(config, data, path, callbacks))
    linear = refitted = None
    if config.linear:
        linear = LinearModel(arrays["table"], arrays["bias"], arrays.get("context_weights"))
    if linear and config.refits_linear:
        refitted = dataclasses.replace(linear, table=arrays["refitted_table"], bias=arrays["refitted_bias"])
    to_learn = with_answers(data, arrays["answers"]) if "answers" in arrays else data
    return to_learn, linear, refitted, arrays.get("out_of_fold")


def _fitted(config: Config, data: PreparedData, path: Path, callbacks: Callbacks) -> Arrays:
    arrays, linear, num_labelled, teaches = {}, None, len(data.train), config.training.teacher == "linear"
    if data.teacher:
        arrays["answers"] = answers_of_run(data, path, callbacks)
        data = with_answers(data, arrays["answers"])  # the linear model learns from them as well
    if config.linear is None:
        return arrays
    chooses = config.is_multi_label and data.pretrained is None  # a pretrained encoder is much better, so its thresholds are others
    if teaches or chooses:
        started = time.monotonic()
        linear, logits_NU = cross_fit_linear_model(config, data, callbacks)
        if chooses:
            cost, size = (time.monotonic() - started) / len(data.class_names), 4e-6 * config.linear.buckets
            callbacks.note(f"the linear model takes {cost:.2f} s and {size:.1f} MB for each of {len(data.class_names):,} labels")
        if teaches:
            arrays["answers"] = answers_of_linear_model(config, data, linear, logits_NU, callbacks)
        if chooses:
            arrays["out_of_fold"] = logits_NU[:num_labelled]
    linear = linear or fit_linear_model(config, data, callbacks)
    arrays |= {"table": linear.table, "bias": linear.bias}
    if linear.context_weights is not None:
        arrays["context_weights"] = linear.context_weights
    if config.refits_linear:
        refitted = refit_linear_model(config, data, linear, callbacks)
        arrays |= {"refitted_table": refitted.table, "refitted_bias": refitted.bias}
    return arrays


def fingerprint(config: Config, data: PreparedData) -> bytes:
    """A digest that differs where settings, texts, labels or mha do; where the texts lie does not count."""
    settings = __version__, choose_precision(config), config.model_dump_json(exclude={"data"})
    return hashlib.sha256(json.dumps(settings).encode() + texts_digest(data)).digest()


def texts_digest(data: PreparedData) -> bytes:
    """A digest that differs where words, texts, labels, weights or their parts do."""
    names = json.dumps([data.class_names, data.vocabulary.tokens]).encode()
    parts = [data.train, data.validation, *([] if data.unlabelled is None else [data.unlabelled])]
    return digest_of(chain([np.frombuffer(names, np.uint8)], *(part.arrays() for part in parts)))
