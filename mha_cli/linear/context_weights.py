"""Context weights: near which words an n-gram counts more, learnt by gradient descent.

The logits of the n-grams stay fixed. They must be out-of-fold logits: a model is right everywhere on its own training texts, which
teach nothing about where to look.

Axes: N texts, B those of a step, L length, P tokens of all texts, E distinct n-grams of each text, all texts one after another,
U units of the logits, C classes, W words with context weights of their own, K windows.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mha_cli.arrays import Floats
from mha_cli.config.parameters import SMALLEST_NORM
from mha_cli.config.settings import LinearConfig
from mha_cli.corpus.batches import training_batches
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.layers.ngram_linear import position_weights
from mha_cli.layers.ngrams import ids_of
from mha_cli.linear.features import Ngrams
from mha_cli.linear.stacking import Stack
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down

EPOCHS = 4
BATCH_TEXTS = 128
LEARNING_RATE = 0.03  # at the first step; it falls linearly to zero


def learn_context_weights(
    texts: EncodedTexts,
    ngrams: Ngrams,
    logits_EU: Floats,
    start: Stack,
    linear: LinearConfig,
    num_words: int,
    seed: int,
    callbacks: Callbacks = SILENT,
) -> Floats:
    """The context weights of the first W ids, (W, K).

    Args:
        logits_EU: logits of ``ngrams``, fitted on other texts.
        start: scale and bias of a text's logits if all context weights are zero.
        num_words: words with context weights of their own, W.
    """
    sums_PU, counts_P = _of_tokens(texts, ngrams, logits_EU)
    rng = np.random.default_rng(seed)
    steps = [rows for _ in range(EPOCHS) for rows in training_batches(texts.lengths, rng, BATCH_TEXTS)]
    context_weights = keras.Variable(np.zeros((num_words, len(linear.context_windows)), np.float32))
    step = _compile_step(context_weights, start, linear, len(steps), are_several(texts.labels))
    weights_N = texts.weights_or_ones / texts.weights_or_ones.mean()
    for rows in counted_down(steps, "learning where n-grams count, step", callbacks):
        read = ids_of(texts.padded(rows)), texts.padded(rows, sums_PU), texts.padded(rows, counts_P)
        step(*read, texts.labels[rows].astype(np.int32), weights_N[rows])
    return np.array(context_weights)


def weighted_logits(texts: EncodedTexts, ngrams: Ngrams, logits_EU: Floats, linear: LinearConfig, context_weights: Floats) -> Floats:
    """The logits of texts from their n-grams and context weights, (N, U); arguments as of ``learn_context_weights``."""
    sums_PU, counts_P = _of_tokens(texts, ngrams, logits_EU)
    variable, weighed_NU = keras.Variable(context_weights), np.zeros((len(texts), logits_EU.shape[1]), np.float32)
    for rows in training_batches(texts.lengths, np.random.default_rng(0), BATCH_TEXTS):
        weights_BL = position_weights(ids_of(texts.padded(rows)), linear.end_decay, linear.context_windows, variable)
        weighed_NU[rows] = _weighed(weights_BL, texts.padded(rows, sums_PU), texts.padded(rows, counts_P))
    return weighed_NU


def _of_tokens(texts: EncodedTexts, ngrams: Ngrams, logits_EU: Floats) -> tuple[Floats, Floats]:
    """Sum of the logits, (P, U), and number, (P,), of the n-grams whose last occurrence in their text ends at each token."""
    num_tokens = int(texts.offsets[-1])
    sums_PU = np.stack([np.bincount(ngrams.tokens, logits_E, num_tokens) for logits_E in logits_EU.T], axis=1).astype(np.float32)
    return sums_PU, np.bincount(ngrams.tokens, minlength=num_tokens).astype(np.float32)


def _weighed(weights_BL: Any, sums_BLU: Any, counts_BL: Any) -> Any:
    """The weighted sum of n-gram logits, divided by the norm of the weights, (B, U)."""
    norms_B1 = tf.sqrt(tf.reduce_sum(tf.square(weights_BL) * counts_BL, axis=1, keepdims=True))
    return tf.einsum("bl,blu->bu", weights_BL, sums_BLU) / tf.maximum(norms_B1, SMALLEST_NORM)


def _compile_step(context_weights: keras.Variable, start: Stack, linear: LinearConfig, steps: int, several: bool) -> Callable[..., Any]:
    scale, bias_U = keras.Variable(np.float32(start.linear_weight)), keras.Variable(start.bias)
    learnt = [context_weights, scale, bias_U]
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(LEARNING_RATE, max(1, steps), 0.0))
    optimizer.build(learnt)
    units = len(start.bias)
    arguments = [([None, None], tf.int32), ([None, None, units], tf.float32), ([None, None], tf.float32)]
    arguments += [([None, units] if several else [None], tf.int32), ([None], tf.float32)]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec(shape, kind) for shape, kind in arguments])
    def step(token_ids_BL: Any, sums_BLU: Any, counts_BL: Any, labels_B: Any, weights_B: Any) -> None:
        with tf.GradientTape() as tape:
            weights_BL = position_weights(token_ids_BL, linear.end_decay, linear.context_windows, context_weights)
            logits_BU = scale * _weighed(weights_BL, sums_BLU, counts_BL) + bias_U
            loss = tf.reduce_mean(weights_B * _cross_entropies(logits_BU, labels_B, several))
        gradients = tape.gradient(loss, [variable.value for variable in learnt])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], learnt)

    return step


def _cross_entropies(logits_BU: Any, labels: Any, several: bool) -> Any:
    """Cross-entropy of each text, (B,), by class ids (B,), or added up over the labels, (B, U)."""
    if several:
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), logits_BU), axis=1)
    logits_BC = tf.concat([tf.zeros_like(logits_BU), logits_BU], axis=1) if logits_BU.shape[1] == 1 else logits_BU
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_BC)
