"""Losses and outputs of the Keras model; commands that only apply a checkpoint use ``runtime.probabilities``.

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
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.system.working_memory import MemoryEstimate

TEMPERATURE = 0.1  # of the contrastive loss, as in its source


def cross_entropy(probabilities: Any, targets: Any, label_smoothing: float = 0.0, is_multi_label: bool = False) -> Any:
    """Cross-entropy in nats, (B,), of a model's probabilities, (B, 1) or (B, C), with targets (B, C); of several labels, their mean."""
    if is_multi_label:
        return keras.losses.binary_crossentropy(targets, probabilities)
    if probabilities.shape[-1] == 1:
        return keras.losses.binary_crossentropy(targets[:, 1:], probabilities, label_smoothing=label_smoothing)
    return keras.losses.categorical_crossentropy(targets, probabilities, label_smoothing=label_smoothing)


def contrastive_loss(features_BD: Any, targets_BC: Any) -> Any:
    """Supervised contrastive loss in nats, (B,): low where a text is nearest, by cosine, to others of its class; 0 if it has no others.

    Source: Khosla et al. 2020, "Supervised Contrastive Learning", eq. 2.
    """
    normalized_BD = tf.math.l2_normalize(tf.cast(features_BD, tf.float32), axis=1)
    identity_BB = tf.eye(tf.shape(normalized_BD)[0])
    cosines_BB = tf.matmul(normalized_BD, normalized_BD, transpose_b=True)
    log_softmax_BB = tf.nn.log_softmax(cosines_BB / TEMPERATURE - 1e9 * identity_BB)
    same_class_BB = (1.0 - identity_BB) * tf.matmul(targets_BC, targets_BC, transpose_b=True)
    return -tf.math.divide_no_nan(tf.reduce_sum(same_class_BB * log_softmax_BB, axis=1), tf.reduce_sum(same_class_BB, axis=1))


def are_right(probabilities: Any, targets: Any, is_multi_label: bool = False) -> Any:
    """Whether the most probable class, or all labels over one half, are those of the targets (B, C): bool (B,)."""
    if is_multi_label:
        return tf.reduce_all((probabilities > 0.5) == (targets > 0.5), axis=-1)
    if probabilities.shape[-1] == 1:
        return (probabilities[:, 0] > 0.5) == (targets[:, 1] > 0.5)
    return tf.argmax(probabilities, axis=-1) == tf.argmax(targets, axis=-1)


def compile_forward(model: Callable[..., Any], *token_shapes: tuple[int | None, ...]) -> Callable[..., Any]:
    """A model without dropout as one TensorFlow function of texts of any length; compile it once, because tracing takes long.

    Args:
        model: function of one array of tokens per shape (see ``EncodedTexts.inputs``), and of ``training``.
        token_shapes: shape of one text in each array.
    """
    signature = [tf.TensorSpec([None, *shape], tf.int32) for shape in token_shapes]
    return tf.function(lambda *inputs: model(*inputs, training=False), autograph=False, input_signature=signature)


def predict_probabilities(
    forward: Callable[[Any], Any], memory_estimate: MemoryEstimate, texts: EncodedTexts, is_multi_label: bool = False
) -> Floats:
    """Probabilities of all classes for every text, (N, C), with a model from ``compile_forward``."""
    outputs = predict_outputs(forward, memory_estimate, texts, num_outputs(memory_estimate.num_classes, is_multi_label))
    return np.concatenate([1.0 - outputs, outputs], axis=1) if outputs.shape[1] == 1 else outputs


def predict_outputs(forward: Callable[[Any], Any], memory_estimate: MemoryEstimate, texts: EncodedTexts, width: int) -> Floats:
    """The outputs of ``forward`` for every text, (N, width), in order."""
    outputs = np.zeros((len(texts), width), dtype=np.float32)
    for rows in scoring_batches(texts.input_lengths, memory_estimate):
        outputs[rows] = forward(*texts.inputs(rows)).numpy()
    return outputs
