"""An encoder in training: its weights, its optimizers, and the step that changes them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from mha_cli.arrays import Array, Floats, Int32s
from mha_cli.config.parameters import encoder_shape
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.linear.composition import encoder_of
from mha_cli.model.classifier import build_classifier, freeze_below, start_from, start_words_from, up_to_logits
from mha_cli.model.outputs import are_right, compile_forward, contrastive_loss, cross_entropy, predict_outputs
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import MemoryEstimate
from mha_cli.training.argmax_positions import argmax_suffices, output_at_argmax
from mha_cli.training.distribution import Distribution, digest_of
from mha_cli.training.learner import Learner, targets_of
from mha_cli.training.optimizers import LazyAdam, LazyRMSprop, build_optimizer, learning_rate_schedule
from mha_cli.training.precision import computing_in

EMBEDDING_TABLES = tuple(f"embedding/token_embedding/{name}" for name in ("words", "ngrams", "subwords"))  # a step touches few rows


class Trainer(Learner):
    """The encoder of a run, without the linear model beside it, and the step that trains it."""

    def __init__(self, config: Config, data: PreparedData, distribution: Distribution | None = None) -> None:
        set_seed(config.seed)
        self.distribution = Distribution() if distribution is None else distribution
        super().__init__(config, data, self.distribution.worker_slice)
        self.model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_linear=False)
        if data.pretrained is not None:
            start_from(self.model, data.pretrained.weights)
            freeze_below(self.model, config.training.trainable_blocks)
        if data.vectors is not None:
            start_words_from(self.model, data.vectors.ids, data.vectors.table)
        if data.base is not None:
            start_from(self.model, encoder_of(data.base, len(data.class_names)))
        self._loss_weights = loss_weights(config, data.train, len(data.class_names))
        if data.train.weights is not None:  # with a mean of 1, so that the learning rate means the same
            self._loss_weights = self._loss_weights / data.train.weights.mean()
        self._tables = [weight.value for weight in self.model.trainable_variables if weight.path in EMBEDDING_TABLES]
        self._others = [weight for weight in self.model.trainable_variables if weight.path not in EMBEDDING_TABLES]
        rate = learning_rate_schedule(config.training, self.num_steps())
        self.optimizer = build_optimizer(config.training, rate, is_pretrained=data.pretrained is not None)
        self.optimizer.build(self._others)
        lazy_optimizer = LazyRMSprop if config.training.optimizer == "rmsprop" else LazyAdam
        self._table_optimizers = [lazy_optimizer(table) for table in self._tables]
        self._train_step = self._compile_train_step()
        memory_estimate = MemoryEstimate(config.model, len(data.class_names), characters=config.text.subword_characters)
        forward, units = compile_forward(up_to_logits(self.model), encoder_shape(config)), self.model.output_shape[-1]
        self._predict_logits = partial(predict_outputs, forward, memory_estimate, width=units)
        moments = [variable for optimizer in self._table_optimizers for variable in optimizer.variables]
        self.variables = [*self.model.variables, *self.optimizer.variables, *moments]
        self.distribution.refuse_difference("weights at the start", lambda: digest_of(self.arrays()))
        self._seed_apart()

    def step(self, rows: Rows, tokens: Int32s) -> tuple[float, int]:
        """Learn from texts; the sum of their weighted losses, in nats, and the number of right answers, of all workers."""
        worker_rows, stop = rows[self.worker_slice], float(self.distribution.asked_to_stop())
        targets = targets_of(self.data, worker_rows)
        figures = self._train_step(tokens, targets, self._loss_weights[worker_rows], float(len(rows)), stop)
        loss_sum, num_correct, num_stops = figures.numpy()
        self.distribution.stopping = bool(num_stops)
        return float(loss_sum), int(num_correct)

    def set_arrays(self, arrays: Sequence[Array]) -> None:
        """Continue from the chief's ``arrays``."""
        super().set_arrays(arrays)
        self._seed_apart()

    def logits(self, texts: EncodedTexts) -> Floats:
        """The encoder's outputs for texts, (N, U), before the sigmoid or softmax."""
        return self.distribution.gathered(self._predict_logits, texts.for_encoder)

    def with_validation(self) -> Self:
        """A new, untrained trainer of the same config, which learns from the validation part as well."""
        return type(self)(self.config, self.data.with_validation(), self.distribution)

    def _seed_apart(self) -> None:
        """Give each worker other random states, so that each drops out other units; the chief's stay as they are."""
        for variable in self.model.non_trainable_variables:
            if variable.path.endswith("seed_generator_state"):
                state = np.array(variable)
                variable.assign(state + np.array([self.distribution.task.index, 0], state.dtype))

    def _compile_train_step(self) -> Callable[..., Any]:
        model, optimizer, settings, is_multi_label = self.model, self.optimizer, self.config.training, self.config.is_multi_label
        forward: Callable[[Any], Any] = partial(keras.Model(model.input, [model.output, model.get_layer("pooling").output]), training=True)
        if argmax_suffices(self.config, float(self.data.train.for_encoder.lengths.mean())):
            forward = partial(output_at_argmax, model)
        shapes: tuple[list[int | None], ...] = ([None, len(self.data.class_names)], [None], [], [])  # the arguments after the tokens
        signature = [tf.TensorSpec(model.input_shape, tf.int32), *(tf.TensorSpec(shape, tf.float32) for shape in shapes)]

        @tf.function(autograph=False, input_signature=signature)
        def train_step(tokens: Any, targets: Any, loss_weights: Any, batch_size: Any, stop: Any) -> Any:
            def gradients_of_replica(tokens: Any, targets: Any, loss_weights: Any) -> list[Any]:
                with tf.GradientTape() as tape, computing_in(model, self.precision):
                    probabilities, features = forward(tokens)
                    losses = cross_entropy(probabilities, targets, settings.label_smoothing, is_multi_label)
                    if settings.few_labels:
                        losses += contrastive_loss(features, targets)
                    loss_sum = tf.reduce_sum(loss_weights * losses)
                    share_of_mean = loss_sum / batch_size  # of the whole batch, so that all replicas' shares add up to its mean
                right = are_right(probabilities, targets, is_multi_label)
                figures = tf.stack([loss_sum, tf.reduce_sum(tf.cast(right, tf.float32)), stop])
                return [*tape.gradient(share_of_mean, [*self._others, *self._tables]), figures]

            *gradients, figures = self.distribution.sum_over_replicas(gradients_of_replica, tokens, targets, loss_weights)
            for table_optimizer, gradient in zip(self._table_optimizers, gradients[len(self._others) :], strict=True):
                table_optimizer.apply(gradient, optimizer.iterations + 1, optimizer.learning_rate)
            optimizer.apply(gradients[: len(self._others)], self._others)
            return figures

        return train_step
