"""A faster training step: the last block computes gradients only at the positions that hold the maximum of a feature.

Max pooling passes the gradient of a feature to a single position, its argmax, and none where dropout drops the feature. A block's output
at one position needs the keys and values of all positions, but only its own query. So the last block runs without gradients over all
positions, which finds the argmax positions, and with gradients over these alone. If they are a share w of all positions, the block costs
1 + 3w forward passes instead of 3. Loss and gradients are the same.

Axes: B batch, L length, D model width, W positions of the maximum.
"""

from typing import Any

import keras
import tensorflow as tf

from mha_cli.config.settings import Config
from mha_cli.layers import TransformerEncoder
from mha_cli.model.classifier import classify, encoder_blocks

ARGMAX_STEP = 8  # W is a multiple of it, so that few sizes occur: for bfloat16, oneDNN compiles a kernel for every size of a matrix
LEAST_POSITIONS = 1.5  # positions per feature that dropout leaves, from which a step saves time; 1.0 costs a tenth, 5.0 saves a fifth


def argmax_suffices(config: Config, mean_length: float) -> bool:
    """Whether the argmax positions are few enough to save time, and nothing else needs a gradient: no dropout, no contrastive loss."""
    model = config.model
    return (
        model.pooling == "max"
        and not (model.num_pieces or config.training.few_labels)  # a pretrained encoder has dropout in its blocks
        and not (model.positions in ("rotary", "linear_biases") or model.max_distance or model.causal)  # gathered queries lose positions
        and mean_length > LEAST_POSITIONS * model.embed_dim * (1.0 - model.dropout)
    )


def output_at_argmax(model: keras.Model, tokens: Any) -> tuple[Any, Any]:
    """Probabilities and pooled features, (B, D), of a model in training; the last block learns at the argmax positions only."""
    embedding, (*earlier_blocks, last_block) = model.get_layer("embedding"), encoder_blocks(model)
    x_BLD, mask_BL = embedding(tokens, training=True), embedding.compute_mask(tokens)
    for block in earlier_blocks:
        x_BLD = block(x_BLD, mask=mask_BL, training=True)
    kept_BD = model.get_layer("dropout")(tf.ones_like(x_BLD[:, 0]), training=True)
    positions_BW = argmax_positions(last_block(tf.stop_gradient(x_BLD), mask=mask_BL), mask_BL, kept_BD > 0)
    encoded_BWD = encode_at(last_block, x_BLD, positions_BW, mask_BL)
    pooled_BD = model.get_layer("pooling")(encoded_BWD, mask=tf.gather(mask_BL, positions_BW, batch_dims=1))
    return classify(model, kept_BD * pooled_BD, None), pooled_BD


def argmax_positions(x_BLD: Any, mask_BL: Any, kept_BD: Any) -> Any:
    """The argmax positions of the kept features of each text, int (B, W), filled up with other positions.

    W is the largest number of argmax positions of a text, rounded up to a multiple of ``ARGMAX_STEP``, and at most L. Padding, where
    ``mask_BL`` is False, holds no maximum.
    """
    largest_BD = tf.reduce_max(tf.where(mask_BL[:, :, None], x_BLD, x_BLD.dtype.min), axis=1)
    is_argmax_BLD = (x_BLD == largest_BD[:, None]) & kept_BD[:, None] & mask_BL[:, :, None]
    is_argmax_BL = tf.reduce_any(is_argmax_BLD, axis=2)
    most = tf.maximum(tf.reduce_max(tf.math.count_nonzero(is_argmax_BL, axis=1, dtype=tf.int32)), 1)
    width = tf.minimum(most + tf.math.floormod(-most, ARGMAX_STEP), tf.shape(x_BLD)[1])
    return tf.math.top_k(tf.cast(is_argmax_BL, tf.int32), k=width, sorted=False).indices


def encode_at(block: TransformerEncoder, x_BLD: Any, positions_BW: Any, mask_BL: Any) -> Any:
    """The output of an encoder block at some positions, (B, W, D), which look at all positions, without dropout."""
    x_BLD = tf.cast(x_BLD, block.compute_dtype)  # as Keras does when it calls a layer
    x_BWD = tf.gather(x_BLD, positions_BW, batch_dims=1)
    if block.normalization == "pre":
        normed_BLD = block.attention_norm(x_BLD)
        y_BWD = x_BWD + block.attend(tf.gather(normed_BLD, positions_BW, batch_dims=1), mask_BL, value=normed_BLD)
        return y_BWD + block.feed_forward(block.feed_forward_norm(y_BWD))
    y_BWD = block.attention_norm(x_BWD + block.attend(x_BWD, mask_BL, value=x_BLD))
    return block.feed_forward_norm(y_BWD + block.feed_forward(y_BWD))
