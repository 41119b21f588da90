"""Outputs of a Keras model, in training and with masked heads; ``runtime.probabilities`` has those of a checkpoint that only answers.

Axes: B batch, L length, N texts, C classes, U units of the last layer.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mha_cli.arrays import Floats
from mha_cli.config.parameters import num_outputs
from mha_cli.corpus.batches import scoring_batches
from mha_cli.corpus.corpus import EncodedTexts
from mha_cli.system.working_memory import MemoryEstimate

TEMPERATURE = 0.1  # of the contrastive loss, as in its source


def cross_entropy(probabilities: Any, targets: Any, label_smoothing: float = 0.0, several: bool = False) -> Any:
    """Cross-entropy in nats, (B,), of a model's probabilities, (B, 1) or (B, C), with targets (B, C); with ``several``, the mean over C."""
    if several:
        return keras.losses.binary_crossentropy(targets, probabilities)
    if probabilities.shape[-1] == 1:
        return keras.losses.binary_crossentropy(targets[:, 1:], probabilities, label_smoothing=label_smoothing)
    return keras.losses.categorical_crossentropy(targets, probabilities, label_smoothing=label_smoothing)


def contrastive_loss(features_BD: Any, targets_BC: Any) -> Any:
    """Supervised contrastive loss in nats, (B,): how surely a text finds others of its class in the batch, by cosine; 0 if there are none.

    Source: Khosla et al. 2020, "Supervised Contrastive Learning", eq. 2.
    """
    normalized_BD = tf.math.l2_normalize(tf.cast(features_BD, tf.float32), axis=1)
    itself_BB = tf.eye(tf.shape(normalized_BD)[0])
    cosines_BB = tf.matmul(normalized_BD, normalized_BD, transpose_b=True)
    log_shares_BB = tf.nn.log_softmax(cosines_BB / TEMPERATURE - 1e9 * itself_BB)
    alike_BB = (1.0 - itself_BB) * tf.matmul(targets_BC, targets_BC, transpose_b=True)
    return -tf.math.divide_no_nan(tf.reduce_sum(alike_BB * log_shares_BB, axis=1), tf.reduce_sum(alike_BB, axis=1))


def are_right(probabilities: Any, targets: Any, several: bool = False) -> Any:
    """Whether the answers are those of the targets (B, C), bool (B,): the most probable class, or all that are over one half."""
    if several:
        return tf.reduce_all((probabilities > 0.5) == (targets > 0.5), axis=-1)
    if probabilities.shape[-1] == 1:
        return (probabilities[:, 0] > 0.5) == (targets[:, 1] > 0.5)
    return tf.argmax(probabilities, axis=-1) == tf.argmax(targets, axis=-1)


def compile_forward(model: Callable[..., Any], *token_shapes: tuple[int | None, ...]) -> Callable[..., Any]:
    """A model or layer of tokens, without dropout, as one TensorFlow function for every length; made once, because tracing takes long.

    The model is a function of as many arrays as there are shapes, of a text's tokens in each (``EncodedTexts.readings``), and ``training``.
    """
    signature = [tf.TensorSpec([None, *shape], tf.int32) for shape in token_shapes]
    return tf.function(lambda *readings: model(*readings, training=False), autograph=False, input_signature=signature)


def predict_probabilities(
    forward: Callable[[Any], Any], memory_estimate: MemoryEstimate, texts: EncodedTexts, is_multi_label: bool = False
) -> Floats:
    """Probabilities of all classes for every text, (N, C), with a model from ``compile_forward``."""
    outputs = predict_outputs(forward, memory_estimate, texts, num_outputs(memory_estimate.num_classes, is_multi_label))
    return np.concatenate([1.0 - outputs, outputs], axis=1) if outputs.shape[1] == 1 else outputs


def predict_outputs(forward: Callable[[Any], Any], memory_estimate: MemoryEstimate, texts: EncodedTexts, width: int) -> Floats:
    """The outputs of ``forward`` for every text, (N, width), in order."""
    outputs = np.zeros((len(texts), width), dtype=np.float32)
    for rows in scoring_batches(texts.longest_readings, memory_estimate):
        outputs[rows] = forward(*texts.readings(rows)).numpy()
    return outputs
