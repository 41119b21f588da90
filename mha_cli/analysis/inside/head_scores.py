"""How much each attention head matters, by silencing it and by its gradient, and where it looks.

Axes: B batch, H heads, L tokens of a text, T targets, A tokens that look.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mha_cli.arrays import Float64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.corpus.batches import scoring_batches
from mha_cli.corpus.corpus import EncodedTexts
from mha_cli.model.classifier import after_embedding, linear_logits_of, to_model
from mha_cli.model.outputs import compile_forward, cross_entropy, predict_probabilities
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.forward import attention_weights, finite
from mha_cli.runtime.inspection import WEIGHT_BYTES
from mha_cli.runtime.metrics import are_right
from mha_cli.runtime.probabilities import named
from mha_cli.sources.targets import are_several, one_hot
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.working_memory import MemoryEstimate, refuse_bytes

TARGETS = ("first", "previous", "itself", "next", "last", "others")
"""Tokens that a token can look at. The first and the last one of a pretrained encoder are special pieces, such as [CLS] and [SEP]."""


@dataclass(frozen=True)
class HeadScore:
    """How much one head matters."""

    block: int  # number of the block, from 0
    head: int  # number of the head in it, from 0
    accuracy_without: float  # accuracy of the model with this head silenced, in [0, 1]; NaN if it was not, as for the fall
    accuracy_fall: float  # accuracy with all heads minus ``accuracy_without``, in [-1, 1]
    importance: float  # mean absolute gradient of a text's loss by the number that multiplies the head's output, in nats
    looks_at: dict[str, float]  # mean share of the head's attention weight on each of ``TARGETS``, in [0, 1]


@dataclass(frozen=True)
class HeadReport:
    """How much the heads of a model matter; ``accuracy`` is that with all heads, in [0, 1]."""

    data: str
    split: str
    num_texts: int
    accuracy: float
    heads: list[HeadScore]


def score_heads(
    checkpoint: Checkpoint, labelled: LabelledTexts, max_texts: int | None = None, callbacks: Callbacks = SILENT, silence: bool = True
) -> tuple[HeadReport, EncodedTexts]:
    """How much each head matters and where it looks, and the texts of the measurement: ``max_texts`` random ones, or all.

    With ``silence``, each head takes one more pass over the texts, for the accuracy without it.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3.2 and 4.1 (eq. 2).
    """
    texts = labelled.texts.random_part(max_texts, np.random.default_rng(0))
    model = to_model(checkpoint)
    counts = checkpoint.config.model.heads
    masks = [tf.Variable(tf.ones(count)) for count in counts]
    texts = texts if len(model.inputs) > 1 else texts.for_encoder
    forward = compile_forward(lambda *readings, training: masked_forward(model, readings, masks), *(one.shape[1:] for one in model.inputs))

    def accuracy() -> float:
        probabilities = predict_probabilities(forward, checkpoint.memory_estimate, texts, checkpoint.config.is_multi_label)
        return float(are_right(probabilities, texts.labels, checkpoint.label_thresholds).mean())

    with_all = accuracy()
    with_gradient = dataclasses.replace(checkpoint.memory_estimate, gradient=True)
    with named(checkpoint):
        importance = list(map(finite, gradient_importance(model, masks, texts, with_gradient)))
    looks_at = head_targets(checkpoint, texts.for_encoder)
    heads = []
    for block, count in enumerate(counts):
        for head in range(count):
            if silence:
                callbacks.log(f"silencing head {head} of block {block}")
                masks[block].assign(tf.one_hot(head, count, on_value=0.0, off_value=1.0))
            without = accuracy() if silence else math.nan
            shares = dict(zip(TARGETS, looks_at[block][head].tolist(), strict=True))
            heads.append(HeadScore(block, head, without, with_all - without, float(importance[block][head]), shares))
        masks[block].assign(tf.ones(count))
    return HeadReport(labelled.data, labelled.split, len(texts), with_all, heads), texts


def gradient_importance(model: keras.Model, masks: list[Any], texts: EncodedTexts, memory_estimate: MemoryEstimate) -> list[Float64s]:
    """I_h = E |∂ loss / ∂ ξ_h| for the number ξ_h that multiplies a head's output, at 1; an array (H,) per block.

    Source: Michel et al. 2019, eq. 2.
    """
    several, num_classes = are_several(texts.labels), max(2, model.output_shape[-1])
    signature = [*(tf.TensorSpec(one.shape, tf.int32) for one in model.inputs), tf.TensorSpec([None, num_classes], tf.float32)]

    @tf.function(autograph=False, input_signature=signature)
    def sums(*readings_and_labels: Any) -> Any:
        *readings, targets = readings_and_labels
        # One mask per text gives the gradient of each text's own loss in one backward pass.
        own = [tf.tile(mask[None], (tf.shape(targets)[0], 1)) for mask in masks]
        with tf.GradientTape() as tape:
            tape.watch(own)
            probabilities = masked_forward(model, readings, own)
            loss = tf.reduce_sum(cross_entropy(probabilities, targets, several=several))
        return [tf.reduce_sum(tf.abs(gradient), axis=0) for gradient in tape.gradient(loss, own)]

    totals = [np.zeros(mask.shape[0]) for mask in masks]
    for rows in scoring_batches(texts.longest_readings, memory_estimate):
        for total, part in zip(totals, sums(*texts.readings(rows), one_hot(texts.labels[rows], num_classes)), strict=True):
            total += part.numpy()
    return [total / len(texts) for total in totals]


def head_targets(checkpoint: Checkpoint, texts: EncodedTexts) -> list[Float64s]:
    """Mean share of a head's attention weight on each of ``TARGETS``, in [0, 1]: an array (H, T) for every block.

    The mean is over all tokens for which the first five targets differ: those at least two away from both ends. Shares are zero if no
    text has five tokens.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 and 3.2.
    """
    model, longest = checkpoint.config.model, int(texts.lengths.max(initial=0))
    what = f"{checkpoint.memory_estimate.name}: the attention of a text of {longest:,} tokens"
    refuse_bytes(WEIGHT_BYTES * sum(model.heads) * longest**2, what, "take shorter texts")
    sums, count = [np.zeros((heads, len(TARGETS))) for heads in model.heads], 0
    for row in range(len(texts)):
        tokens = texts.padded(np.array([row]))
        length = tokens.shape[1]
        looking_A = np.arange(2, length - 2)
        targets_TA = np.stack([0 * looking_A, looking_A - 1, looking_A, looking_A + 1, 0 * looking_A + length - 1])
        with named(checkpoint):
            weights = attention_weights(tokens, checkpoint.weights, checkpoint.config)
        for sums_HT, weights_BHLL in zip(sums, weights, strict=True):
            of_five_HT = weights_BHLL[0][:, looking_A, targets_TA].sum(axis=-1)
            sums_HT += np.column_stack([of_five_HT, np.maximum(0.0, len(looking_A) - of_five_HT.sum(axis=1))])
        count += len(looking_A)
    return [sums_HT / max(1, count) for sums_HT in sums]


def masked_forward(model: keras.Model, readings: Sequence[Any], head_masks: list[Any]) -> Any:
    """The model's output with a head mask for every block, each (H,) or (B, H); ``readings`` are its inputs."""
    embedding, read = model.get_layer("embedding"), readings[0]
    embedded, mask = embedding(read, training=False), embedding.compute_mask(read)
    return after_embedding(model, embedded, mask, linear_logits_of(model, readings[-1]), head_masks=head_masks)
