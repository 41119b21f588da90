"""How much each attention head matters, by silencing it and by its gradient, and where it looks.

Axes: B batch, H heads, L tokens of a text, T targets, A tokens of a text whose attention counts.
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
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.model.classifier import after_embedding, encoder_blocks, linear_logits_of, to_model
from mha_cli.model.outputs import compile_forward, cross_entropy, predict_probabilities
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.forward import attention_weights, finite
from mha_cli.runtime.inspection import WEIGHT_BYTES
from mha_cli.runtime.metrics import are_right
from mha_cli.runtime.probabilities import errors_naming
from mha_cli.sources.targets import are_several, one_hot
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.working_memory import MemoryEstimate, refuse_bytes

TARGETS = ("first", "previous", "itself", "next", "last", "others")  # tokens that are looked at; pretrained: first [CLS], last [SEP]


@dataclass(frozen=True)
class HeadScore:
    """How much one head matters."""

    block: int  # number of the block, from 0
    head: int  # number of the head in it, from 0
    accuracy_without: float  # accuracy of the model with this head silenced, in [0, 1]; NaN if not measured, like ``accuracy_fall``
    accuracy_fall: float  # accuracy with all heads minus ``accuracy_without``, in [-1, 1]
    importance: float  # mean absolute gradient of a text's loss by the number that multiplies the head's output, in nats
    looks_at: dict[str, float]  # mean share of the head's attention weight on each of ``TARGETS``, in [0, 1]


@dataclass(frozen=True)
class HeadReport:
    """How much the heads of a model matter."""

    data: str
    split: str
    num_texts: int
    accuracy: float  # accuracy with all heads, in [0, 1]
    heads: list[HeadScore]


def score_heads(
    checkpoint: Checkpoint, labelled: LabelledTexts, max_texts: int | None = None, callbacks: Callbacks = SILENT, silence: bool = True
) -> tuple[HeadReport, EncodedTexts]:
    """Measure how much each head matters and where it looks, on ``max_texts`` random texts, or all; the texts are returned as well.

    With ``silence``, accuracy is measured without each head, which takes one more pass over the texts per head.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3.2 and 4.1 (eq. 2).
    """
    texts = labelled.texts.random_part(max_texts, np.random.default_rng(0))
    model = to_model(checkpoint)
    masks = [tf.Variable(tf.ones(num_heads)) for num_heads in checkpoint.config.model.heads]
    texts = texts if len(model.inputs) > 1 else texts.for_encoder
    shapes = [tensor.shape[1:] for tensor in model.inputs]
    forward = compile_forward(lambda *inputs, training: masked_forward(model, inputs, masks), *shapes)

    def accuracy() -> float:
        probabilities = predict_probabilities(forward, checkpoint.memory_estimate, texts, checkpoint.config.is_multi_label)
        return float(are_right(probabilities, texts.labels, checkpoint.label_thresholds).mean())

    with_all = accuracy()
    with_gradient = dataclasses.replace(checkpoint.memory_estimate, gradient=True)
    with errors_naming(checkpoint):
        importance = list(map(finite, gradient_importance(model, texts, with_gradient)))
    shares = head_targets(checkpoint, texts.for_encoder)
    heads = []
    for block, mask in enumerate(masks):
        for head in range(len(importance[block])):
            without = math.nan
            if silence:
                callbacks.log(f"silencing head {head} of block {block}")
                mask.assign(tf.one_hot(head, mask.shape[0], on_value=0.0, off_value=1.0))
                without = accuracy()
            looks_at = dict(zip(TARGETS, shares[block][head].tolist(), strict=True))
            heads.append(HeadScore(block, head, without, with_all - without, float(importance[block][head]), looks_at))
        mask.assign(tf.ones(mask.shape))
    return HeadReport(labelled.data, labelled.split, len(texts), with_all, heads), texts


def gradient_importance(model: keras.Model, texts: EncodedTexts, memory_estimate: MemoryEstimate) -> list[Float64s]:
    """I_h = E |∂ loss / ∂ ξ_h|, where ξ_h = 1 is a factor of the head's output; an array (H,) per block.

    Source: Michel et al. 2019, eq. 2.
    """
    heads, num_classes = [block.num_heads for block in encoder_blocks(model)], max(2, model.output_shape[-1])
    signature = [*(tf.TensorSpec(tensor.shape, tf.int32) for tensor in model.inputs), tf.TensorSpec([None, num_classes], tf.float32)]

    @tf.function(autograph=False, input_signature=signature)
    def sums_over_texts(*inputs_and_targets: Any) -> Any:
        *inputs, targets = inputs_and_targets
        # One factor per text and head gives the gradient of each text's loss in one backward pass.
        factors = [tf.ones((tf.shape(targets)[0], num_heads)) for num_heads in heads]
        with tf.GradientTape() as tape:
            tape.watch(factors)
            probabilities = masked_forward(model, inputs, factors)
            loss = tf.reduce_sum(cross_entropy(probabilities, targets, is_multi_label=are_several(texts.labels)))
        return [tf.reduce_sum(tf.abs(gradient), axis=0) for gradient in tape.gradient(loss, factors)]

    totals = [np.zeros(num_heads) for num_heads in heads]
    for rows in scoring_batches(texts.input_lengths, memory_estimate):
        sums = sums_over_texts(*texts.inputs(rows), one_hot(texts.labels[rows], num_classes))
        totals = [total + batch_sum.numpy() for total, batch_sum in zip(totals, sums, strict=True)]
    return [total / len(texts) for total in totals]


def head_targets(checkpoint: Checkpoint, texts: EncodedTexts) -> list[Float64s]:
    """Mean share of a head's attention weight on each of ``TARGETS``, in [0, 1]: an array (H, T) per block.

    The mean is over all tokens at least two away from both ends, for which the first five targets differ. Shares are zero if no text has
    five tokens.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 and 3.2.
    """
    model, longest = checkpoint.config.model, int(texts.lengths.max(initial=0))
    what = f"{checkpoint.memory_estimate.name}: the attention of a text of {longest:,} tokens"
    refuse_bytes(WEIGHT_BYTES * sum(model.heads) * longest**2, what, "take shorter texts")
    sums, num_tokens = [np.zeros((heads, len(TARGETS))) for heads in model.heads], 0
    for row in range(len(texts)):
        tokens = texts.padded(np.array([row]))
        length = tokens.shape[1]
        looking_A = np.arange(2, length - 2)
        targets_TA = np.stack([0 * looking_A, looking_A - 1, looking_A, looking_A + 1, 0 * looking_A + length - 1])
        with errors_naming(checkpoint):
            weights = attention_weights(tokens, checkpoint.weights, checkpoint.config)
        for sums_HT, weights_BHLL in zip(sums, weights, strict=True):
            of_five_HT = weights_BHLL[0][:, looking_A, targets_TA].sum(axis=-1)
            sums_HT += np.column_stack([of_five_HT, np.maximum(0.0, len(looking_A) - of_five_HT.sum(axis=1))])
        num_tokens += len(looking_A)
    return [sums_HT / max(1, num_tokens) for sums_HT in sums]


def masked_forward(model: keras.Model, inputs: Sequence[Any], head_masks: list[Any]) -> Any:
    """The model's output with a head mask for every block, each (H,) or (B, H)."""
    embedding, tokens = model.get_layer("embedding"), inputs[0]
    embedded, mask = embedding(tokens, training=False), embedding.compute_mask(tokens)
    return after_embedding(model, embedded, mask, linear_logits_of(model, inputs[-1]), head_masks)
