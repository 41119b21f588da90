"""How a step changes the weights: Keras's optimizers, and lazy ones for tables of which a step touches few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from mha_cli.config.settings import TrainingConfig


class LazyOptimizer:
    """Changes only the rows of embedding tables that a step touches, so that a step's cost does not grow with the tables.

    Args:
        tables: embedding tables, variables of shape (rows, width).
        learning_rate: rate, or function from the step, from 0, to the rate.
    """

    EPSILON = 1e-7

    def __init__(self, tables: list[Any], learning_rate: float | Callable[[Any], Any]) -> None:
        self.tables = tables
        self.learning_rate = learning_rate if callable(learning_rate) else lambda _: learning_rate
        self.iterations = tf.Variable(0, dtype=tf.int64)
        self.variables = [self.iterations]  # all that a step changes besides the tables

    def apply(self, gradients: list[tf.IndexedSlices]) -> None:
        """Change the rows that the gradients name."""
        for number, (table, gradient) in enumerate(zip(self.tables, gradients, strict=True)):
            once = rows_once(gradient)
            table.scatter_sub(tf.IndexedSlices(self._change(number, once.indices, once.values), once.indices))
        self.iterations.assign_add(1)

    def _change(self, number: int, rows: Any, gradient: Any) -> Any:
        """The amounts to subtract from distinct rows of table ``number``."""
        raise NotImplementedError


def rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient of a table with every row named once."""
    rows, row_of = tf.unique(gradient.indices)
    # Scattered into a narrow block first: adding up the gradients of the same row.
    return tf.IndexedSlices(tf.math.unsorted_segment_sum(gradient.values, row_of, tf.size(rows)), rows, gradient.dense_shape)


class LazyAdam(LazyOptimizer):
    """Adam on the rows that a step touches; the others, and their moments, stay as they are.

    Moments of a row decay only when the row is touched, which is what makes it lazy; bias correction counts all steps.

    Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.
    """

    BETA_1 = 0.9
    BETA_2 = 0.999

    def __init__(self, tables: list[Any], learning_rate: float | Callable[[Any], Any]) -> None:
        super().__init__(tables, learning_rate)
        self.first_moments = [tf.Variable(tf.zeros(table.shape)) for table in tables]
        self.second_moments = [tf.Variable(tf.zeros(table.shape)) for table in tables]
        self.variables += [*self.first_moments, *self.second_moments]

    def _change(self, number: int, rows: Any, gradient: Any) -> Any:
        step = tf.cast(self.iterations + 1, tf.float32)
        rate = self.learning_rate(self.iterations) * tf.sqrt(1.0 - self.BETA_2**step) / (1.0 - self.BETA_1**step)
        first, second = self.first_moments[number], self.second_moments[number]
        first_rows = self.BETA_1 * tf.gather(first, rows) + (1.0 - self.BETA_1) * gradient
        second_rows = self.BETA_2 * tf.gather(second, rows) + (1.0 - self.BETA_2) * tf.square(gradient)
        first.scatter_update(tf.IndexedSlices(first_rows, rows))
        second.scatter_update(tf.IndexedSlices(second_rows, rows))
        return rate * first_rows / (tf.sqrt(second_rows) + self.EPSILON)


class LazyRMSprop(LazyOptimizer):
    """RMSprop, and not nearly but exactly: a row without a gradient does not move, and its mean square decays by ρ a step.

    The decay of all steps since a row was touched is made up for when it is touched again: ρ to the power of their number.

    Source: Hinton 2012, "Neural Networks for Machine Learning", lecture 6e.
    """

    RHO = 0.9

    def __init__(self, tables: list[Any], learning_rate: float | Callable[[Any], Any]) -> None:
        super().__init__(tables, learning_rate)
        self.mean_squares = [tf.Variable(tf.zeros(table.shape)) for table in tables]
        # the step of each row's stored mean square
        self.last_steps = [tf.Variable(tf.zeros(table.shape[0], dtype=tf.int64)) for table in tables]
        self.variables += [*self.mean_squares, *self.last_steps]

    def _change(self, number: int, rows: Any, gradient: Any) -> Any:
        step = self.iterations + 1
        mean_square, last_step = self.mean_squares[number], self.last_steps[number]
        decay = tf.pow(self.RHO, tf.cast(step - tf.gather(last_step, rows), tf.float32))[:, None]
        square_rows = decay * tf.gather(mean_square, rows) + (1.0 - self.RHO) * tf.square(gradient)
        mean_square.scatter_update(tf.IndexedSlices(square_rows, rows))
        last_step.scatter_update(tf.IndexedSlices(tf.fill(tf.shape(rows), step), rows))
        return self.learning_rate(self.iterations) * gradient * tf.math.rsqrt(square_rows + self.EPSILON)


def learning_rate_schedule(settings: TrainingConfig, num_steps: int) -> Any:
    """The learning rate of a step: a Keras schedule, or the number itself where it is constant.

    Source: the cosine: Loshchilov and Hutter 2017, "SGDR", eq. 5; the warm-up: Goyal et al. 2017, section 2.2.
    """
    warmup_steps = round(settings.warmup_share * num_steps)
    if settings.schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            0.0 if warmup_steps else settings.learning_rate,
            max(1, num_steps - warmup_steps),
            warmup_target=settings.learning_rate if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    if warmup_steps:
        return keras.optimizers.schedules.PolynomialDecay(0.0, warmup_steps, settings.learning_rate)
    return settings.learning_rate


def build_optimizer(settings: TrainingConfig, rate: Any) -> keras.Optimizer:
    """Keras's optimizer of the config.

    Source: AdamW: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """
    if settings.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(rate, global_clipnorm=settings.clip_norm)
    if settings.optimizer == "adam":
        return keras.optimizers.Adam(rate, global_clipnorm=settings.clip_norm)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=settings.weight_decay, global_clipnorm=settings.clip_norm)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def build_table_optimizer(settings: TrainingConfig, tables: list[Any], rate: Any) -> LazyOptimizer:
    """The lazy form of that optimizer; weight decay and the limit of the gradient's norm are for the other weights."""
    return (LazyRMSprop if settings.optimizer == "rmsprop" else LazyAdam)(tables, rate)
