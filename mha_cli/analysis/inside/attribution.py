"""The words that decided, by gradients.

Axes: S steps along the path, L length, D model width.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.model.classifier import after_embedding, linear_logits_of, to_model
from mha_cli.text.encoding import TextPipeline

STEPS = 64
"""Points of the path at which the gradient is taken."""

BATCH_TOKENS = 4_096
"""Tokens in the points whose gradients are taken at once; long texts take one point at a time."""


def integrated_gradients(checkpoint: Checkpoint, text: str, label: str, steps: int = STEPS) -> tuple[list[float], float]:
    """How much each word adds to the probability of the class ``label``, on the straight path from no words to the text.

    The path starts where every word's embedding is zero (positions and the linear model stay) and ends at the text's embeddings. The
    attribution of a word is the mean gradient along the path (midpoint rule, S steps) times the word's embedding. All attributions sum to
    the difference of the probability at the end and at the start, up to the error of the midpoint rule.

    Returns:
        One attribution per word, and the probability at the end minus that at the start.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", eq. 1 and 3.
    """
    tokens = TextPipeline(checkpoint.config.text, checkpoint.vocabulary).encode(text).tokens
    class_id = checkpoint.class_names.index(label)
    memory_estimate = dataclasses.replace(checkpoint.memory_estimate, gradient=True)
    memory_estimate.refuse_too_long(len(tokens))
    model = to_model(checkpoint)
    tokens_1L = tf.constant(tokens[None])
    embedding, no_padding_1L = model.get_layer("embedding"), tf.ones((1, len(tokens)), dtype=tf.bool)
    token_embedding = embedding.token_embedding
    text_1LD = tf.convert_to_tensor(embedding(tokens_1L, training=False))
    words_1LD = tf.convert_to_tensor(token_embedding.embed_words(tokens_1L, training=False))
    start_1LD = text_1LD - token_embedding.with_neighbours(words_1LD, no_padding_1L)  # the positions alone
    linear_1U = linear_logits_of(model, tokens_1L)
    shares_S11 = ((np.arange(steps, dtype=np.float32) + 0.5) / steps)[:, None, None]
    mean_gradient_LD = tf.zeros_like(words_1LD[0])
    together = memory_estimate.most_texts(len(tokens), min(steps, BATCH_TOKENS // len(tokens)))
    for some_S11 in np.array_split(shares_S11, math.ceil(steps / together)):
        path_SLD = some_S11 * words_1LD
        with tf.GradientTape() as tape:
            tape.watch(path_SLD)
            embedded_SLD = start_1LD + token_embedding.with_neighbours(path_SLD, no_padding_1L)
            total = tf.reduce_sum(class_probability(model, embedded_SLD, linear_1U, class_id))
        mean_gradient_LD += tf.reduce_sum(tape.gradient(total, path_SLD), axis=0) / steps
    attributions = tf.reduce_sum(mean_gradient_LD * words_1LD[0], axis=-1)
    ends = class_probability(model, tf.concat([start_1LD, text_1LD], axis=0), linear_1U, class_id)
    return [float(value) for value in attributions], float(ends[1] - ends[0])


def class_probability(model: keras.Model, embedded_SLD: Any, linear_1U: Any, class_id: int) -> Any:
    """Probability of a class, (S,), from embeddings on."""
    mask_SL = tf.ones(tf.shape(embedded_SLD)[:2], dtype=tf.bool)
    linear_SU = tf.repeat(linear_1U, tf.shape(embedded_SLD)[0], axis=0)
    probabilities = after_embedding(model, embedded_SLD, mask_SL, linear_SU)
    if probabilities.shape[-1] == 1:
        return probabilities[:, 0] if class_id == 1 else 1.0 - probabilities[:, 0]
    return probabilities[:, class_id]
