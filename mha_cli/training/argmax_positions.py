"""The forward pass of a training step, in which the last block computes gradients only at the positions of the maximum.

``GlobalMaxPooling1D`` hands the gradient of a feature to one position only, its argmax, and dropout takes it from a share of the features.
A block's output at one position needs the keys and values of all positions, but only its own query. So the last block runs once over all
positions without gradients, to find the argmax positions, and once more over these with gradients. If they are a share w of all, a step
costs 1 + 3w forward passes of the block instead of 3; loss and gradients stay the same.

Axes: B batch, L length, D model width, W positions of the maximum.
"""

from typing import Any

import keras
import tensorflow as tf

from mha_cli.config.settings import Config
from mha_cli.layers import TransformerEncoder
from mha_cli.model.classifier import classify, encoder_blocks

ARGMAX_STEP = 8  # W is a multiple of it, so that few sizes occur: for bfloat16, oneDNN generates machine code for every size of a matrix


def argmax_suffices(config: Config, mean_length: float) -> bool:
    """Whether the last block may run twice, and gains by it; it may not with dropout of its own, or with a loss of dropped features.

    Of L positions, at most as many are an argmax as dropout leaves features. If there are as many features as positions and each feature's
    argmax is drawn at random, a share of 1 - 1/e of the positions wins; at a share of two thirds nothing is gained.
    """
    model = config.model
    return (
        model.pooling == "max"
        and not (model.attention_dropout or model.block_dropout or config.training.contrastive_weight)
        and mean_length > model.embed_dim * (1.0 - model.dropout)
    )


def training_output(model: keras.Model, embedded_BLD: Any, mask_BL: Any, argmax_only: bool) -> tuple[Any, Any]:
    """The output in training of a model without a linear model, and its pooled features before dropout, (B, D).

    The embeddings come with their mask, True at real positions. With ``argmax_only``, the last block learns from the positions of the
    maximum only.
    """
    *earlier, last = encoder_blocks(model)
    x_BLD = embedded_BLD
    for block in earlier:
        x_BLD = block(x_BLD, mask=mask_BL, training=True)
    kept_BD = model.get_layer("dropout")(tf.ones_like(x_BLD[:, 0]), training=True)
    if argmax_only:
        encoded_BLD = tf.stop_gradient(last(tf.stop_gradient(x_BLD), mask=mask_BL))
        argmax_BW = argmax_positions_of(encoded_BLD, mask_BL, kept_BD > 0, ARGMAX_STEP)
        encoded_BLD = encode_at(last, x_BLD, argmax_BW, mask_BL)
        mask_BL = tf.gather(mask_BL, argmax_BW, batch_dims=1)
    else:
        encoded_BLD = last(x_BLD, mask=mask_BL, training=True)
    pooled_BD = model.get_layer("pooling")(encoded_BLD, mask=mask_BL)
    return classify(model, kept_BD * pooled_BD, None), pooled_BD


def argmax_positions_of(x_BLD: Any, mask_BL: Any, kept_BD: Any, multiple: int = 1) -> Any:
    """The positions at which a feature is largest, int (B, W): every argmax of every text, and others where a text has fewer than W.

    Args:
        x_BLD: features.
        mask_BL: bool, True at real positions; others never win.
        kept_BD: bool, True at features whose argmax counts.
        multiple: divisor of W, which is the largest number of argmax positions that a text has, rounded up to it, but at most L.
    """
    largest_BD = tf.reduce_max(tf.where(mask_BL[:, :, None], x_BLD, x_BLD.dtype.min), axis=1)
    to_equal_BD = tf.where(kept_BD, largest_BD, float("nan"))  # which nothing equals
    wins_BL = mask_BL & tf.reduce_any(x_BLD == to_equal_BD[:, None, :], axis=2)
    most = tf.maximum(tf.reduce_max(tf.math.count_nonzero(wins_BL, axis=1, dtype=tf.int32)), 1)
    number = tf.minimum(most + tf.math.floormod(-most, multiple), tf.shape(wins_BL)[1])
    return tf.math.top_k(tf.cast(wins_BL, tf.int32), k=number, sorted=False).indices


def encode_at(block: TransformerEncoder, x_BLD: Any, positions_BW: Any, mask_BL: Any) -> Any:
    """The output of an encoder block at some positions only, which look at all positions, without dropout, (B, W, D)."""
    x_BLD = tf.cast(x_BLD, block.compute_dtype)  # as Keras does when it calls a layer
    x_BWD = take_positions(x_BLD, positions_BW)
    if block.normalization == "pre":
        normed_BLD = block.attention_norm(x_BLD)
        x_BWD = x_BWD + block.attend(take_positions(normed_BLD, positions_BW), mask_BL, value=normed_BLD)
        return x_BWD + block.feed_forward(block.feed_forward_norm(x_BWD))
    x_BWD = block.attention_norm(x_BWD + block.attend(x_BWD, mask_BL, value=x_BLD))
    return block.feed_forward_norm(x_BWD + block.feed_forward(x_BWD))


def take_positions(x_BLD: Any, positions_BW: Any) -> Any:
    """Some positions of every text, (B, W, D)."""
    batch, length = tf.shape(x_BLD)[0], tf.shape(x_BLD)[1]
    rows_BW = positions_BW + length * tf.range(batch, dtype=positions_BW.dtype)[:, None]
    return tf.gather(tf.reshape(x_BLD, (batch * length, x_BLD.shape[2])), rows_BW)
