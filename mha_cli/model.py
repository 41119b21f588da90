"""The classifier: PositionalEmbedding → TransformerEncoder × n → GlobalMaxPooling1D → Dropout → Dense, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

from mha_cli.layers import GlobalMaxPooling1D, PositionalEmbedding, TransformerEncoder
from mha_cli.parameters import num_outputs

if TYPE_CHECKING:
    from mha_cli.config import Config


def build_classifier(config: Config, vocabulary_size: int, num_classes: int) -> keras.Model:
    """A Keras model from token ids (B, L) to class probabilities.

    Args:
        config: the sizes.
        vocabulary_size: ids that the vocabulary really has; at most ``config.text.vocabulary_size``.
        num_classes: at least 2.

    Returns:
        A model whose output is the probability of the second class, (B, 1), for two classes (one sigmoid unit), and the
        probabilities of all classes, (B, num_classes), for more (softmax).
    """
    model = config.model
    token_ids = keras.Input(shape=(None,), dtype="int32", name="token_ids")
    x = PositionalEmbedding(
        sequence_length=config.text.sequence_length,
        vocabulary_size=vocabulary_size,
        embed_dim=model.embed_dim,
        positions=model.positions,
        dropout=model.embedding_dropout,
        max_ngram=model.max_ngram,
        ngram_buckets=model.ngram_buckets,
        ngram_dropout=model.ngram_dropout,
        name="embedding",
    )(token_ids)
    for block in range(model.num_blocks):
        x = TransformerEncoder(
            embed_dim=model.embed_dim,
            feed_forward_dim=model.feed_forward_dim,
            num_heads=model.heads[block],
            key_dim=model.head_key_dim,
            value_dim=model.value_dim,
            activation=model.activation,
            normalization=model.normalization,
            use_bias=model.use_bias,
            attention_dropout=model.attention_dropout,
            dropout=model.block_dropout,
            scoring=model.scoring,
            use_scale=model.use_scale,
            attention_form=model.attention_form,
            name=f"encoder_{block}",
        )(x)
    x = GlobalMaxPooling1D(name="pooling")(x)
    x = keras.layers.Dropout(model.dropout, name="dropout")(x)
    units = num_outputs(num_classes)
    activation = "sigmoid" if units == 1 else "softmax"
    probabilities = keras.layers.Dense(units, activation=activation, dtype="float32", name="classifier")(x)
    return keras.Model(token_ids, probabilities, name="mha")
