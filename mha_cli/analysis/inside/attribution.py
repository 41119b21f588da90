"""How much each word adds to a class probability, by integrated gradients.

Axes: S steps along the path, L length, D model width.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.model.classifier import after_embedding, linear_logits_of, to_model

STEPS = 64  # points of the path at which the gradient is taken
BATCH_TOKENS = 4_096  # tokens of all points in a batch; long texts take one point at a time


def integrated_gradients(checkpoint: Checkpoint, text: str, class_ids: Sequence[int], steps: int = STEPS) -> tuple[list[float], float]:
    """How much each word adds to the probability of a class, or of several together.

    It is measured on a straight path from zero embeddings to those of the text.

    Positions and the linear model do not change along the path. The attribution of a word is its embedding times the mean gradient along
    the path (midpoint rule, S steps). All attributions add up to the change of the probability, up to the error of the midpoint rule.

    Returns:
        One attribution per word, and the change of the probability from the start of the path to its end.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", eq. 1 and 3.
    """
    pipeline = checkpoint.text_pipeline
    words = pipeline.read_words(text)
    code = pipeline.encode(text if pipeline.pieces is None else " ".join(words))  # as `looking_inside` reads it
    tokens = code.for_encoder
    memory_estimate = dataclasses.replace(checkpoint.memory_estimate, gradient=True)
    memory_estimate.refuse_too_long(len(tokens))
    model = to_model(checkpoint)
    tokens_1L = tf.constant(tokens[None])
    embedding, no_padding_1L = model.get_layer("embedding"), tf.ones((1, len(tokens)), dtype=tf.bool)
    token_embedding = embedding.token_embedding
    words_1LD = tf.convert_to_tensor(token_embedding.embed_words(tokens_1L, training=False))
    linear_1U = linear_logits_of(model, tf.constant(code.tokens[None]))

    def probability(path_SLD: Any) -> Any:
        """Probability of the classes, (S,)."""
        embedded_SLD = embedding.with_positions(token_embedding.with_neighbours(path_SLD, no_padding_1L))
        mask_SL, linear_SU = (tf.repeat(array, tf.shape(path_SLD)[0], axis=0) for array in (no_padding_1L, linear_1U))
        probabilities = after_embedding(model, embedded_SLD, mask_SL, linear_SU)
        if probabilities.shape[-1] == 1:
            probabilities = tf.concat([1.0 - probabilities, probabilities], axis=1)
        return tf.reduce_sum(tf.gather(probabilities, class_ids, axis=1), axis=1)

    shares_S11 = ((np.arange(steps, dtype=np.float32) + 0.5) / steps)[:, None, None]
    mean_gradient_LD = tf.zeros_like(words_1LD[0])
    batch_size = memory_estimate.most_texts(len(tokens), min(steps, BATCH_TOKENS // len(tokens)))
    for batch_S11 in np.array_split(shares_S11, math.ceil(steps / batch_size)):
        path_SLD = batch_S11 * words_1LD
        with tf.GradientTape() as tape:
            tape.watch(path_SLD)
            total = tf.reduce_sum(probability(path_SLD))
        mean_gradient_LD += tf.reduce_sum(tape.gradient(total, path_SLD), axis=0) / steps
    attributions = tf.reduce_sum(mean_gradient_LD * words_1LD[0], axis=-1)
    ends = probability(tf.concat([tf.zeros_like(words_1LD), words_1LD], axis=0))
    if pipeline.pieces is not None:
        word_of_piece = [len(words) if word is None else word for word in pipeline.pieces.words_of_pieces(words)]
        attributions = np.bincount(word_of_piece, attributions, len(words) + 1)[:-1]
    return [float(value) for value in attributions], float(ends[1] - ends[0])
