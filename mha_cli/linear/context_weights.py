"""Salience: around which words what a review says counts more, learnt by gradient descent.

The scores of the n-grams stand fast meanwhile. They must come from other reviews: on those that they are fitted on they are right
everywhere, and there would be nothing to learn about where to look.

Axes: N reviews, B those of a step, L length, P tokens of all reviews, E distinct n-grams of each review, all reviews one after another,
U units of a score, C classes, W words with a salience of their own, K windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.config.settings import ModelConfig
from mha_cli.data.batches import training_batches
from mha_cli.data.corpus import EncodedTexts
from mha_cli.layers.ngrams import ids_of
from mha_cli.layers.scores import place_weights
from mha_cli.linear.features import Ngrams
from mha_cli.linear.stacking import Stack

EPOCHS = 4
BATCH_REVIEWS = 128
LEARNING_RATE = 0.03
"""At the first step; it falls to zero along a line."""

Floats = npt.NDArray[np.float32]


def learn_salience(
    reviews: EncodedTexts, ngrams: Ngrams, scores_EU: Floats, start: Stack, model: ModelConfig, salient_words: int, seed: int
) -> Floats:
    """The salience of the first W ids, a column a window, (W, K).

    Args:
        reviews: labelled reviews to learn from.
        ngrams: n-grams of these reviews.
        scores_EU: scores of ``ngrams``, fitted on other reviews.
        start: stack that turns a review's score into logits before there is any salience.
        model: settings of the scores.
        salient_words: words with a salience of their own, W.
        seed: seed of the order.
    """
    sums_PU, counts_P = _of_tokens(reviews, ngrams, scores_EU)
    rng = np.random.default_rng(seed)
    steps = [rows for _ in range(EPOCHS) for rows in training_batches(reviews.lengths, rng, BATCH_REVIEWS)]
    salience = keras.Variable(np.zeros((salient_words, len(model.score_windows)), np.float32))
    step = _compile_step(salience, start, model, len(steps))
    for rows in steps:
        step(ids_of(reviews.padded(rows)), reviews.padded(rows, sums_PU), reviews.padded(rows, counts_P), reviews.labels[rows])
    return np.array(salience)


def salient_scores(reviews: EncodedTexts, ngrams: Ngrams, scores_EU: Floats, model: ModelConfig, salience: Floats) -> Floats:
    """What the n-grams of reviews add up to with a salience, (N, U); arguments as of ``learn_salience``."""
    sums_PU, counts_P = _of_tokens(reviews, ngrams, scores_EU)
    variable, found_NU = keras.Variable(salience), np.zeros((len(reviews), scores_EU.shape[1]), np.float32)
    for rows in training_batches(reviews.lengths, np.random.default_rng(0), BATCH_REVIEWS):
        weights_BL = place_weights(ids_of(reviews.padded(rows)), model.score_ending, model.score_windows, variable)
        found_NU[rows] = _weighed(weights_BL, reviews.padded(rows, sums_PU), reviews.padded(rows, counts_P))
    return found_NU


def _of_tokens(reviews: EncodedTexts, ngrams: Ngrams, scores_EU: Floats) -> tuple[Floats, Floats]:
    """Of the n-grams that end at a token, for the last time in their review, the sum of the scores, (P, U), and the number, (P,)."""
    num_tokens = int(reviews.offsets[-1])
    sums_PU = np.stack([np.bincount(ngrams.tokens, scores_E, num_tokens) for scores_E in scores_EU.T], axis=1).astype(np.float32)
    return sums_PU, np.bincount(ngrams.tokens, minlength=num_tokens).astype(np.float32)


def _weighed(weights_BL: Any, sums_BLU: Any, counts_BL: Any) -> Any:
    """The weighted sum of n-gram scores, over the length of the weights of all n-grams, (B, U)."""
    norms_B1 = tf.sqrt(tf.reduce_sum(tf.square(weights_BL) * counts_BL, axis=1, keepdims=True))
    return tf.einsum("bl,blu->bu", weights_BL, sums_BLU) / tf.maximum(norms_B1, SMALLEST_NORM)


def _compile_step(salience: keras.Variable, start: Stack, model: ModelConfig, steps: int) -> Callable[..., Any]:
    scale, bias_U = keras.Variable(np.float32(start.score_weight)), keras.Variable(start.bias)
    learnt = [salience, scale, bias_U]
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(LEARNING_RATE, max(1, steps), 0.0))
    optimizer.build(learnt)
    units = len(start.bias)
    arguments = [([None, None], tf.int32), ([None, None, units], tf.float32), ([None, None], tf.float32), ([None], tf.int32)]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec(shape, kind) for shape, kind in arguments])
    def step(token_ids_BL: Any, sums_BLU: Any, counts_BL: Any, labels_B: Any) -> None:
        with tf.GradientTape() as tape:
            weights_BL = place_weights(token_ids_BL, model.score_ending, model.score_windows, salience)
            logits_BU = scale * _weighed(weights_BL, sums_BLU, counts_BL) + bias_U
            logits_BC = tf.concat([tf.zeros_like(logits_BU), logits_BU], axis=1) if units == 1 else logits_BU
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels_B, logits_BC))
        gradients = tape.gradient(loss, [variable.value for variable in learnt])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], learnt)

    return step
