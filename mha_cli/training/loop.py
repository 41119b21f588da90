"""The training loop: epochs of steps, a validation score after each, the best weights kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mha_cli.config import Config
from mha_cli.data.batches import scoring_batches, training_batches
from mha_cli.data.corpus import EncodedReviews, drop_words
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.model import build_classifier
from mha_cli.parameters import num_outputs
from mha_cli.progress import EpochRecord, StepProgress
from mha_cli.training.optimizers import LazyAdam, build_optimizer, learning_rate_schedule
from mha_cli.training.preparation import PreparedData
from mha_cli.training.tensorflow_setup import set_seed

EMBEDDING_TABLES = ("embedding/token_embeddings", "embedding/ngram_embeddings")
"""Weights of which a step touches few rows."""

DIVERGED = "lower training.learning_rate or set training.clip_norm=1; the best epoch before it, if any, is kept"

Weights = dict[str, npt.NDArray[np.float32]]


class Trainer:
    """A model in training: all that changes from step to step.

    Args:
        config: the run.
        data: what to learn from.
    """

    def __init__(self, config: Config, data: PreparedData) -> None:
        set_seed(config.seed)
        self.config = config
        self.data = data
        self.model = build_classifier(config, len(data.vocabulary), len(data.class_names))
        self.steps_per_epoch = math.ceil(len(data.train) / config.training.batch_size)
        rate = learning_rate_schedule(config.training, self.steps_per_epoch * config.training.epochs)
        tables = [weight for weight in self.model.trainable_variables if weight.path in EMBEDDING_TABLES]
        self._lazily = tables if config.training.optimizer in ("adam", "adamw") else []
        self._densely = [weight for weight in self.model.trainable_variables if not any(weight is table for table in self._lazily)]
        self.optimizer = build_optimizer(config.training, rate)
        self.optimizer.build(self._densely)
        self.table_optimizer = LazyAdam([table.value for table in self._lazily], rate if callable(rate) else lambda _: rate)
        self._averages = [tf.Variable(weight) for weight in self.model.trainable_variables] if config.training.average_decay else []
        self._train_step = self._compile_train_step()
        self._forward = compile_forward(self.model)

    def run_epoch(self, epoch: int, on_step: Callable[[StepProgress], None]) -> tuple[float, float, float]:
        """Train on every review once.

        Args:
            epoch: from 1; with the config's seed it decides the order.
            on_step: called after every step.

        Returns:
            Mean loss, accuracy in [0, 1] and seconds.

        Raises:
            MhaError: the loss is no longer a number.
        """
        started = time.perf_counter()
        settings, reviews = self.config.training, self.data.train
        rng = np.random.default_rng((self.config.seed, epoch))
        batches = training_batches(reviews.lengths, settings.batch_size, rng)
        loss_sum, num_correct, num_reviews = 0.0, 0, 0
        for step, rows in enumerate(batches, start=1):
            token_ids = drop_words(reviews.padded(rows), settings.word_dropout, rng) if settings.word_dropout else reviews.padded(rows)
            step_loss, step_correct = self._train_step(token_ids, reviews.labels[rows])
            loss_sum += float(step_loss)
            num_correct += int(step_correct)
            num_reviews += len(rows)
            if not math.isfinite(loss_sum):
                raise MhaError(f"the loss is {loss_sum} at epoch {epoch}, step {step}", DIVERGED, EXIT_FAILURE)
            seconds = time.perf_counter() - started
            on_step(
                StepProgress(
                    epoch=epoch,
                    epochs=settings.epochs,
                    step=step,
                    steps=len(batches),
                    loss=loss_sum / num_reviews,
                    accuracy=num_correct / num_reviews,
                    reviews_per_second=num_reviews / seconds,
                    seconds_left=seconds * ((settings.epochs - epoch + 1) * len(reviews) / num_reviews - 1),
                )
            )
        return loss_sum / num_reviews, num_correct / num_reviews, time.perf_counter() - started

    @property
    def variables(self) -> list[Any]:
        """Everything that a step changes: weights, random states, optimizer, averages."""
        return [*self.model.variables, *self.optimizer.variables, *self.table_optimizer.variables, *self._averages]

    def weights(self) -> Weights:
        """What is scored and saved, by variable path: the averaged weights if there are any, else the current ones."""
        values = self._averages or self.model.trainable_variables
        return {weight.path: np.array(value) for weight, value in zip(self.model.trainable_variables, values, strict=True)}

    def set_weights(self, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Start from given weights, by variable path."""
        values = [weights[weight.path] for weight in self.model.trainable_variables]
        _assign(self.model.trainable_variables, values)
        _assign(self._averages, values if self._averages else [])

    def score(self, reviews: EncodedReviews) -> tuple[float, float]:
        """Loss and accuracy of ``weights()`` on reviews not learnt from."""
        with self._averaged_weights():
            probabilities = predict_probabilities(self._forward, reviews, len(self.data.class_names))
        return mean_loss_and_accuracy(probabilities, reviews.labels)

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

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)])
        def train_step(token_ids: Any, labels: Any) -> tuple[Any, Any]:
            with tf.GradientTape() as tape:
                probabilities = model(token_ids, training=True)
                losses = cross_entropy(probabilities, labels, settings.label_smoothing)
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
            return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(predicted_classes(probabilities) == labels, tf.int32))

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
    settings, data = trainer.config.training, trainer.data
    for epoch in range(first_epoch, settings.epochs + 1):
        if settings.patience and best and epoch - 1 - best.epoch >= settings.patience:
            return
        train_loss, train_accuracy, seconds = trainer.run_epoch(epoch, on_step)
        validation_loss, validation_accuracy = trainer.score(data.validation)
        if not math.isfinite(validation_loss):
            raise MhaError(f"the validation loss is {validation_loss} after epoch {epoch}", DIVERGED, EXIT_FAILURE)
        is_best = best is None or (
            validation_loss < best.validation_loss if settings.select_by == "loss" else validation_accuracy > best.validation_accuracy
        )
        record = EpochRecord(
            epoch, train_loss, train_accuracy, validation_loss, validation_accuracy, seconds, len(data.train) / seconds, is_best
        )
        best = record if is_best else best
        yield record


def cross_entropy(probabilities: Any, labels: Any, label_smoothing: float = 0.0) -> Any:
    """Cross-entropy of each review in nats, (B,).

    Args:
        probabilities: (B, 1) of the second class, or (B, C).
        labels: class ids, (B,).
        label_smoothing: share of the target spread evenly over the classes.
    """
    if probabilities.shape[-1] == 1:
        targets = tf.cast(labels, tf.float32)[:, None]
        return keras.losses.binary_crossentropy(targets, probabilities, label_smoothing=label_smoothing)
    targets = tf.one_hot(labels, probabilities.shape[-1])
    return keras.losses.categorical_crossentropy(targets, probabilities, label_smoothing=label_smoothing)


def predicted_classes(probabilities: Any) -> Any:
    """Class ids, (B,): for one sigmoid unit 1 where the probability is over one half."""
    if probabilities.shape[-1] == 1:
        return tf.cast(probabilities[:, 0] > 0.5, tf.int32)
    return tf.argmax(probabilities, axis=-1, output_type=tf.int32)


def compile_forward(model: keras.Model) -> Callable[[Any], Any]:
    """The model without dropout, as one TensorFlow function for every length; made once, since tracing it takes longer than running it."""
    return tf.function(lambda token_ids: model(token_ids, training=False), input_signature=[tf.TensorSpec([None, None], tf.int32)])


def predict_probabilities(
    forward: Callable[[Any], Any], reviews: EncodedReviews, num_classes: int, on_reviews: Callable[[int], None] = lambda _: None
) -> npt.NDArray[np.float32]:
    """Probabilities of all classes for every review, (N, C), in the order of the reviews.

    Args:
        forward: from ``compile_forward``.
        reviews: what to classify.
        num_classes: C.
        on_reviews: called with the number of reviews done so far.
    """
    units = num_outputs(num_classes)
    outputs = np.zeros((len(reviews), units), dtype=np.float32)
    done = 0
    for rows in scoring_batches(reviews.lengths):
        outputs[rows] = forward(reviews.padded(rows)).numpy()
        done += len(rows)
        on_reviews(done)
    return np.concatenate([1.0 - outputs, outputs], axis=1) if units == 1 else outputs


def mean_loss_and_accuracy(probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int32]) -> tuple[float, float]:
    """Mean cross-entropy in nats and accuracy in [0, 1] of probabilities (N, C)."""
    of_truth = np.clip(probabilities[np.arange(len(labels)), labels].astype(np.float64), 1e-7, 1.0)
    return float(-np.log(of_truth).mean()), float((probabilities.argmax(axis=1) == labels).mean())


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
