"""An encoder in training: all that changes from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mha_cli.config.settings import Config
from mha_cli.data.batches import Rows
from mha_cli.data.corpus import EncodedReviews
from mha_cli.data.preparation import PreparedData
from mha_cli.model.classifier import build_classifier
from mha_cli.model.scoring import compile_forward, cross_entropy, predict_probabilities, predicted_classes
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import ForwardPass
from mha_cli.training.epoch import EpochInputs, EpochPosition, Pace
from mha_cli.training.optimizers import build_optimizer, build_table_optimizer, learning_rate_schedule
from mha_cli.training.precision import choose_precision, computing_in
from mha_cli.training.winners import training_output, winners_suffice

EMBEDDING_TABLES = ("embedding/token_embeddings", "embedding/ngram_embeddings")
"""Weights of which a step touches few rows."""

Floats = npt.NDArray[np.float32]


class Trainer:
    """An encoder in training.

    Args:
        config: settings of the run; n-gram scores among them are none of the encoder's business.
        data: reviews to learn from.
    """

    def __init__(self, config: Config, data: PreparedData) -> None:
        set_seed(config.seed)
        self.config = config
        self.data = data
        self.precision = choose_precision(config)
        self.model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_scores=False)
        self.inputs = EpochInputs(config, data)
        self.position, self.pace = EpochPosition(0), Pace()
        rate = learning_rate_schedule(config.training, self.inputs.num_steps())
        self._lazily = [weight for weight in self.model.trainable_variables if weight.path in EMBEDDING_TABLES]
        self._densely = [weight for weight in self.model.trainable_variables if weight.path not in EMBEDDING_TABLES]
        self.optimizer = build_optimizer(config.training, rate)
        self.optimizer.build(self._densely)
        self.table_optimizer = build_table_optimizer(config.training, [table.value for table in self._lazily], rate)
        self._averaged = self.model.trainable_variables if config.training.average_decay else []  # the weights that have an average
        self._averages = [tf.Variable(weight) for weight in self._averaged]
        self._train_step = self._compile_train_step()
        forward_pass = ForwardPass(config.model, len(data.class_names))
        self._score = partial(predict_probabilities, compile_forward(self.model), forward_pass)
        self._variables = [*self.model.variables, *self.optimizer.variables, *self.table_optimizer.variables, *self._averages]

    def step(self, rows: Rows, token_ids: npt.NDArray[np.int32]) -> tuple[float, int]:
        """Learn from some reviews; the sum of their losses, in nats, and the number that was classified rightly.

        Args:
            rows: numbers of the reviews, (B,).
            token_ids: padded token ids of theirs, (B, L).
        """
        loss_sum, num_correct = self._train_step(token_ids, self.data.targets[rows])
        return float(loss_sum), int(num_correct)

    def arrays(self) -> list[npt.NDArray[Any]]:
        """Everything that a step changes: weights, random states, optimizer, averages."""
        return [np.array(variable) for variable in self._variables]

    def set_arrays(self, arrays: list[npt.NDArray[Any]]) -> None:
        """Go on from what ``arrays`` gave."""
        _assign(self._variables, arrays)

    def weights(self) -> dict[str, Floats]:
        """The encoder's weights by variable path, averaged if the config says so."""
        weights = {weight.path: np.array(weight) for weight in self.model.weights}
        return weights | {weight.path: np.array(average) for weight, average in zip(self._averaged, self._averages, strict=True)}

    def set_weights(self, weights: Mapping[str, Floats]) -> None:
        """Start from given weights of the encoder, by variable path."""
        _assign(self.model.weights, [weights[weight.path] for weight in self.model.weights])
        _assign(self._averages, self._averaged)

    def predict(self, reviews: EncodedReviews) -> Floats:
        """Probabilities of all classes, (N, C), by ``weights()``."""
        current = [np.array(weight) for weight in self._averaged]
        _assign(self._averaged, self._averages)
        try:
            return self._score(reviews)
        finally:
            _assign(self._averaged, current)

    def _compile_train_step(self) -> Callable[..., Any]:
        model, optimizer, settings = self.model, self.optimizer, self.config.training
        densely, lazily = self._densely, self._lazily
        num_classes = len(self.data.class_names)
        winners_only = winners_suffice(self.config.model, float(self.data.train.lengths.mean()))

        @tf.function(
            autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, num_classes], tf.float32)]
        )
        def train_step(token_ids: Any, targets: Any) -> tuple[Any, Any]:
            with tf.GradientTape() as tape, computing_in(model, self.precision):
                embedded = model.get_layer("embedding")(token_ids, training=True)
                probabilities = training_output(model, embedded, tf.not_equal(token_ids, 0), winners_only)
                losses = cross_entropy(probabilities, targets, settings.label_smoothing)
                mean_loss = tf.reduce_mean(losses)
            dense_gradients, table_gradients = tape.gradient(mean_loss, (densely, [table.value for table in lazily]))
            optimizer.apply(dense_gradients, densely)
            self.table_optimizer.apply(table_gradients)
            if self._averages:
                # A young average follows closely, so that it soon forgets the random start.
                step = tf.cast(optimizer.iterations, tf.float32)
                decay = tf.minimum(settings.average_decay, (1.0 + step) / (10.0 + step))
                for average, weight in zip(self._averages, self._averaged, strict=True):
                    average.assign_sub((1.0 - decay) * (average - weight.value))
            right = predicted_classes(probabilities) == tf.argmax(targets, axis=-1, output_type=tf.int32)
            return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(right, tf.int32))

        return train_step


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
