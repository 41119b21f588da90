"""Optimizers: Keras's, and lazy ones for embedding tables.

A lazy optimizer changes only the rows of its table that occur in the batch, so the cost of a step does not grow with the table. (Keras's
optimizers make the gradient of a table dense.) Its ``apply`` takes a gradient, the number of the step, from 1, and the learning rate.
"""

from typing import Any

import keras
import tensorflow as tf

from mha_cli.config.settings import TrainingConfig

EPSILON = 1e-7
WARMUP_SHARE = 0.1  # of all steps, in which the learning rate rises linearly from zero
MOST_NORM = 1.0  # of the gradient of a pretrained encoder, without the embedding tables
WEIGHT_DECAY = 0.01  # of a pretrained encoder with adamw; biases, layer normalization and embeddings have none


def rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient of a table, with the values of equal rows added up."""
    rows, row_of = tf.unique(gradient.indices)
    return tf.IndexedSlices(tf.math.unsorted_segment_sum(gradient.values, row_of, tf.size(rows)), rows, gradient.dense_shape)


class LazyAdam:
    """Adam on the rows of a batch; other rows, and their moments, do not change. Bias correction counts all steps.

    Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.
    """

    BETA_1 = 0.9
    BETA_2 = 0.999

    def __init__(self, table: Any) -> None:
        self.table = table
        self.variables = [tf.Variable(tf.zeros(table.shape)) for _ in ("first moments", "second moments")]

    def apply(self, gradient: tf.IndexedSlices, step: Any, rate: Any) -> None:
        """Change the rows of the gradient."""
        gradient, (first, second) = rows_once(gradient), self.variables
        rows, step = gradient.indices, tf.cast(step, tf.float32)
        rate = rate * tf.sqrt(1.0 - self.BETA_2**step) / (1.0 - self.BETA_1**step)
        first_rows = self.BETA_1 * tf.gather(first, rows) + (1.0 - self.BETA_1) * gradient.values
        second_rows = self.BETA_2 * tf.gather(second, rows) + (1.0 - self.BETA_2) * tf.square(gradient.values)
        first.scatter_update(tf.IndexedSlices(first_rows, rows))
        second.scatter_update(tf.IndexedSlices(second_rows, rows))
        self.table.scatter_sub(tf.IndexedSlices(rate * first_rows / (tf.sqrt(second_rows) + EPSILON), rows))


class LazyRMSprop:
    """RMSprop, exactly: a row without a gradient does not move, and its mean square decays by ρ per step.

    When a row is touched again, the decay of all steps in between is applied: ρ to the power of their number.

    Source: Hinton 2012, "Neural Networks for Machine Learning", lecture 6e.
    """

    RHO = 0.9

    def __init__(self, table: Any) -> None:
        self.table = table
        # mean squares, and the step of each row's mean square
        self.variables = [tf.Variable(tf.zeros(table.shape)), tf.Variable(tf.zeros(table.shape[0], dtype=tf.int64))]

    def apply(self, gradient: tf.IndexedSlices, step: Any, rate: Any) -> None:
        """Change the rows of the gradient."""
        gradient, (mean_square, last_step) = rows_once(gradient), self.variables
        rows, step = gradient.indices, tf.cast(step, tf.int64)
        decay = tf.pow(self.RHO, tf.cast(step - tf.gather(last_step, rows), tf.float32))[:, None]
        square_rows = decay * tf.gather(mean_square, rows) + (1.0 - self.RHO) * tf.square(gradient.values)
        mean_square.scatter_update(tf.IndexedSlices(square_rows, rows))
        last_step.scatter_update(tf.IndexedSlices(tf.fill(tf.shape(rows), step), rows))
        self.table.scatter_sub(tf.IndexedSlices(rate * gradient.values * tf.math.rsqrt(square_rows + EPSILON), rows))


def learning_rate_schedule(settings: TrainingConfig, num_steps: int) -> Any:
    """The learning rate: a Keras schedule, or a constant.

    Source: the cosine: Loshchilov and Hutter 2017, "SGDR", eq. 5; the warm-up: Goyal et al. 2017, section 2.2.
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    warmup_steps = round(WARMUP_SHARE * num_steps) if settings.schedule == "warmup-cosine" else 0
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup_steps else settings.learning_rate,
        max(1, num_steps - warmup_steps),
        warmup_target=settings.learning_rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )


def build_optimizer(settings: TrainingConfig, rate: Any, is_pretrained: bool = False) -> keras.Optimizer:
    """Keras's optimizer of the config, for all weights but embedding tables.

    Source: AdamW: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """
    clip_norm = MOST_NORM if is_pretrained else None
    if settings.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(rate, global_clipnorm=clip_norm)
    weight_decay = WEIGHT_DECAY if is_pretrained and settings.optimizer == "adamw" else None
    optimizer = keras.optimizers.Adam(rate, weight_decay=weight_decay, global_clipnorm=clip_norm)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
