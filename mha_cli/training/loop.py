"""The training loop: epochs of steps, a validation score after each, the best weights kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mha_cli.config.parameters import num_outputs, salient_words
from mha_cli.config.settings import Config
from mha_cli.data.batches import at_common_length, training_batches
from mha_cli.data.corpus import drop_words
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.model.classifier import build_classifier
from mha_cli.model.scoring import (
    compile_forward,
    cross_entropy,
    mean_loss_and_accuracy,
    predict_outputs,
    predict_probabilities,
    predicted_classes,
)
from mha_cli.ngram_scores.fit import fit_scores
from mha_cli.ngram_scores.stacking import Stack, fit_stack, logits_of, probabilities_of
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.watcher import EpochRecord, StepProgress
from mha_cli.system.working_memory import ForwardPass
from mha_cli.training.optimizers import build_optimizer, build_table_optimizer, learning_rate_schedule
from mha_cli.training.precision import choose_precision, computing_in
from mha_cli.training.winners import training_output, winners_suffice

EMBEDDING_TABLES = ("embedding/token_embeddings", "embedding/ngram_embeddings")
"""Weights of which a step touches few rows."""

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"

Floats = npt.NDArray[np.float32]
Weights = dict[str, Floats]


@dataclass(frozen=True)
class EpochPosition:
    """How far an epoch has come.

    Args:
        epoch: from 1; 0 before the first.
        step: steps done.
        loss_sum: over the reviews so far, in nats.
        num_correct: likewise.
        num_reviews: likewise.
        seconds: for these steps.
    """

    epoch: int
    step: int = 0
    loss_sum: float = 0.0
    num_correct: int = 0
    num_reviews: int = 0
    seconds: float = 0.0

    @property
    def loss(self) -> float:
        """Mean over the reviews so far, in nats."""
        return self.loss_sum / self.num_reviews

    @property
    def accuracy(self) -> float:
        """In [0, 1]."""
        return self.num_correct / self.num_reviews


class _Pace:
    """How fast the steps of a trainer are, but for its first one, in which TensorFlow traces the model."""

    def __init__(self) -> None:
        self._num_reviews = 0
        self._seconds: float | None = None

    def with_step(self, num_reviews: int, seconds: float) -> float | None:
        """Count a step; reviews per second so far."""
        if self._seconds is None:
            self._seconds = 0.0
            return None
        self._num_reviews += num_reviews
        self._seconds += seconds
        return self._num_reviews / self._seconds


class Trainer:
    """A model in training: all that changes from step to step.

    Args:
        config: the run.
        data: what to learn from.
        log: called with a line of text on what comes before the first step.
    """

    def __init__(self, config: Config, data: PreparedData, log: Callable[[str], None] = lambda _: None) -> None:
        set_seed(config.seed)
        self.config = config
        self.data = data
        self.precision = choose_precision(config)
        self._forward_pass = ForwardPass(config.model, len(data.class_names))
        self.model = build_classifier(config, len(data.vocabulary), len(data.class_names))
        self.validation_scores = self._fit_scores(log)
        self._stack: Stack | None = None
        self._silence_scores()
        epochs, labelled = config.training.epochs, config.training.labelled_epochs
        rate = learning_rate_schedule(config.training, len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled)
        self._lazily = [weight for weight in self.model.trainable_variables if weight.path in EMBEDDING_TABLES]
        self._densely = [weight for weight in self.model.trainable_variables if not any(weight is table for table in self._lazily)]
        self.optimizer = build_optimizer(config.training, rate)
        self.optimizer.build(self._densely)
        self.table_optimizer = build_table_optimizer(config.training, [table.value for table in self._lazily], rate)
        self._averages = [tf.Variable(weight) for weight in self.model.trainable_variables] if config.training.average_decay else []
        self.position = EpochPosition(0)
        self._pace = _Pace()
        self._train_step = self._compile_train_step()
        self.forward = compile_forward(self.model)

    def run_epoch(self, epoch: int, on_step: Callable[[StepProgress], None]) -> EpochPosition:
        """Train on every review of the epoch once, from ``position`` on if that is in this epoch.

        Args:
            epoch: from 1; with the config's seed it decides the order.
            on_step: called after every step, when ``position`` counts it already.

        Raises:
            MhaError: the loss is no longer a number.
        """
        settings = self.config.training
        if self.position.epoch != epoch:
            self.position = EpochPosition(epoch)
        batches = self.batches(epoch)
        num_reviews = sum(self._num_reviews(later) for later in range(epoch, settings.epochs + 1))
        earlier, last = self.position, time.perf_counter()
        for step, (rows, token_ids) in enumerate(self.inputs(epoch, batches), start=1):
            if step <= earlier.step:  # done before an interruption: only chance has to be where it was
                last = time.perf_counter()
                continue
            step_loss, step_correct = self._train_step(token_ids, self.data.targets[rows])
            now = time.perf_counter()
            seconds, last = now - last, now
            reviews_per_second = self._pace.with_step(len(rows), seconds)
            done = self.position = EpochPosition(
                epoch,
                step,
                self.position.loss_sum + float(step_loss),
                self.position.num_correct + int(step_correct),
                self.position.num_reviews + len(rows),
                self.position.seconds + seconds,
            )
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
                    reviews_per_second=reviews_per_second,
                    seconds_left=None if reviews_per_second is None else (num_reviews - done.num_reviews) / reviews_per_second,
                )
            )
        return self.position

    def inputs(self, epoch: int, batches: list[npt.NDArray[np.int64]]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]]:
        """What the steps of an epoch read: the rows of their reviews, and the padded token ids, of which some are dropped."""
        rng, share = np.random.default_rng((self.config.seed, epoch)), self.config.training.word_dropout
        for rows in batches:
            token_ids = self.data.train.padded(rows)
            if share:
                token_ids = drop_words(token_ids, share, rng)
            if self.precision == "bfloat16":
                token_ids = at_common_length(token_ids, self.config.text.sequence_length)
            yield rows, token_ids

    def _num_reviews(self, epoch: int) -> int:
        """Reviews of an epoch: the first so many of the training part, of which those with a guessed class are the last."""
        settings, data = self.config.training, self.data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.labelled_epochs else len(data.train)

    def batches(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """The rows of the reviews of every step of an epoch."""
        rng = np.random.default_rng((self.config.seed, epoch, 1))
        lengths = self.data.train.lengths[: self._num_reviews(epoch)]
        return training_batches(lengths, rng, self.config.training.batch_size, self.config.training.batch_tokens)

    def _fit_scores(self, log: Callable[[str], None]) -> Floats:
        """Fit the model's n-gram scores, if it has any, and score the validation part, (N, U)."""
        config, data = self.config, self.data
        if not config.model.score_ngrams:
            return np.zeros((len(data.validation), 0), dtype=np.float32)
        words = salient_words(config, len(data.vocabulary))
        fitted = fit_scores(data.labelled, len(data.class_names), config.model, words, config.seed, log)
        layer = self.model.get_layer("scores")
        layer.table.assign(fitted.table)
        if config.model.score_windows:
            layer.salience.assign(fitted.salience)
        return predict_outputs(compile_forward(layer), data.validation, self._forward_pass)

    @property
    def variables(self) -> list[Any]:
        """Everything that a step changes: weights, random states, optimizer, averages."""
        return [*self.model.variables, *self.optimizer.variables, *self.table_optimizer.variables, *self._averages]

    def weights(self) -> Weights:
        """What was validated and is saved, by variable path: averaged and with n-gram scores stacked in, where there are any."""
        weights = {weight.path: np.array(weight) for weight in self.model.weights}
        averaged = zip(self.model.trainable_variables, self._averages, strict=True) if self._averages else ()
        weights |= {weight.path: np.array(average) for weight, average in averaged}
        return weights if self._stack is None else self._stack.put_into(weights)

    def set_weights(self, weights: Mapping[str, Floats]) -> None:
        """Start from given weights, by variable path."""
        _assign(self.model.weights, [weights[weight.path] for weight in self.model.weights])
        self._silence_scores()
        _assign(self._averages, self.model.trainable_variables if self._averages else [])

    def validate(self) -> tuple[float, float]:
        """Loss and accuracy of ``weights()`` on the validation part, after finding how much encoder and n-gram scores each count there."""
        reviews = self.data.validation
        with self._averaged_weights():
            probabilities = predict_probabilities(self.forward, reviews, self._forward_pass)
        if self.config.model.score_ngrams:
            encoder_logits = logits_of(probabilities)
            self._stack = fit_stack(encoder_logits, self.validation_scores, reviews.labels)
            probabilities = probabilities_of(self._stack.logits(encoder_logits, self.validation_scores))
        return mean_loss_and_accuracy(probabilities, reviews.labels)

    def _silence_scores(self) -> None:
        """The encoder learns alone: the classifier's weights for n-gram scores are zero until they are stacked in."""
        kernel = self.model.get_layer("classifier").kernel
        of_encoder = np.arange(kernel.shape[0]) < self.config.model.embed_dim
        kernel.assign(np.array(kernel) * of_encoder[:, None])

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """The model with the averaged weights in place, if there are any."""
        if not self._averages:
            yield
            return
        current = [np.array(weight) for weight in self.model.trainable_variables]
        _assign(self.model.trainable_variables, self._averages)
        try:
            yield
        finally:
            _assign(self.model.trainable_variables, current)

    def _compile_train_step(self) -> Callable[..., Any]:
        model, optimizer, settings = self.model, self.optimizer, self.config.training
        weights, averages = model.trainable_variables, self._averages
        densely, lazily = self._densely, self._lazily
        num_classes = len(self.data.class_names)
        winners_only = winners_suffice(self.config.model, float(self.data.train.lengths.mean()))

        @tf.function(
            autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, num_classes], tf.float32)]
        )
        def train_step(token_ids: Any, targets: Any) -> tuple[Any, Any]:
            with tf.GradientTape() as tape, computing_in(model, self.precision):
                embedded = model.get_layer("embedding")(token_ids, training=True)
                no_scores = tf.zeros([tf.shape(token_ids)[0], num_outputs(num_classes)])
                probabilities = training_output(model, embedded, tf.not_equal(token_ids, 0), no_scores, winners_only)
                losses = cross_entropy(probabilities, targets, settings.label_smoothing)
                mean_loss = tf.reduce_mean(losses)
            dense_gradients, table_gradients = tape.gradient(mean_loss, (densely, [table.value for table in lazily]))
            optimizer.apply(dense_gradients, densely)
            self.table_optimizer.apply(table_gradients)
            if averages:
                # A young average follows closely, so that it soon forgets the random start.
                step = tf.cast(optimizer.iterations, tf.float32)
                decay = tf.minimum(settings.average_decay, (1.0 + step) / (10.0 + step))
                for average, weight in zip(averages, weights, strict=True):
                    average.assign_sub((1.0 - decay) * (average - weight.value))
            right = predicted_classes(probabilities) == tf.argmax(targets, axis=-1, output_type=tf.int32)
            return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(right, tf.int32))

        return train_step


def fit(
    trainer: Trainer, on_step: Callable[[StepProgress], None], first_epoch: int = 1, best: EpochRecord | None = None
) -> Iterator[EpochRecord]:
    """Train epoch by epoch, until the last one or until patience runs out.

    Args:
        trainer: the model in training.
        on_step: called after every step.
        first_epoch: 1, or where an interrupted run goes on.
        best: the best epoch before ``first_epoch``.
    """
    settings = trainer.config.training
    for epoch in range(first_epoch, settings.epochs + 1):
        if settings.patience and best and epoch - 1 - best.epoch >= settings.patience:
            return
        done = trainer.run_epoch(epoch, on_step)
        validation_loss, validation_accuracy = trainer.validate()
        if not math.isfinite(validation_loss):
            raise MhaError(f"the validation loss is {validation_loss} after epoch {epoch}", DIVERGED, EXIT_FAILURE)
        is_best = best is None or (
            validation_loss < best.validation_loss if settings.select_by == "loss" else validation_accuracy > best.validation_accuracy
        )
        record = EpochRecord(
            epoch, done.loss, done.accuracy, validation_loss, validation_accuracy, done.seconds, done.num_reviews / done.seconds, is_best
        )
        best = record if is_best else best
        yield record


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
