"""The classifier as a Keras model: PositionalEmbedding → TransformerEncoder × n → GlobalMaxPooling1D → Dropout → Dense; NgramLinear."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.parameters import context_words, encoder_length, num_outputs
from mha_cli.config.settings import Config, LinearConfig
from mha_cli.layers import POOLINGS, NgramLinear, PositionalEmbedding, TransformerEncoder
from mha_cli.layers.positions import POSITIONS
from mha_cli.layers.since_2017 import NORMS

BLOCK_DROPOUT = 0.1  # share of each sub-layer's output zeroed in training, in a pretrained encoder: the share that it was trained with


def build_classifier(
    config: Config, vocabulary_size: int, num_classes: int, with_linear: bool = True, attention: str = "auto"
) -> keras.Model:
    """A Keras model from tokens, ids (B, L) or ids and characters (B, L, 1 + W), to class probabilities.

    A pretrained encoder reads pieces, (B, P); if there is a linear model, which reads tokens, the model takes both, pieces first.

    For two classes, the output is the probability of the second class, (B, 1), from a sigmoid. For more, it is the probabilities of all
    classes, (B, C), from a softmax, or from a sigmoid per class if texts may have several labels.

    With ``with_linear`` False, it is the encoder alone, which trains without the linear model. ``attention`` is one of ``IMPLEMENTATIONS``.
    """
    model = config.model
    token_ids = keras.Input(shape=config.text.token_shape, dtype="int32", name="token_ids")
    inputs = encoder_ids = keras.Input(shape=(None,), dtype="int32", name="pieces") if model.num_pieces else token_ids
    x = PositionalEmbedding(
        sequence_length=encoder_length(config),
        vocabulary_size=model.num_pieces or vocabulary_size,
        embed_dim=model.embed_dim,
        positions=model.positions if model.positions in POSITIONS else "none",
        norm_epsilon=model.norm_epsilon if model.normalizes_embedding else None,
        dropout=model.embedding_dropout,
        token_options={
            "max_ngram": model.max_ngram,
            "ngram_buckets": model.ngram_buckets,
            "ngram_dropout": model.ngram_dropout,
            "subword_buckets": model.subword_buckets,
            "conv_kernel_size": model.conv_kernel_size,
        },
        name="embedding",
    )(encoder_ids)
    for block in range(model.num_blocks):
        x = TransformerEncoder(
            embed_dim=model.embed_dim,
            feed_forward_dim=model.feed_forward_dim,
            num_heads=model.heads[block],
            key_dim=model.head_key_dim,
            activation=model.activation,
            normalization=model.normalization,
            dropout=BLOCK_DROPOUT if model.num_pieces else 0.0,
            attention_implementation=attention,
            norm_epsilon=model.norm_epsilon,
            norm=model.norm,
            gated=model.gated,
            causal=model.causal,
            normalizes_attention=model.normalizes_attention(block),
            attention_options={
                "num_key_value_heads": model.num_key_value_heads,
                "rotary_base": model.rotary_base_of(block),
                "linear_biases": model.positions == "linear_biases",
                "max_distance": model.distance(block),
                "query_key_norm": model.norm if model.query_key_norm else None,
            },
            name=f"encoder_{block}",
        )(x)
    if model.normalizes_output:
        x = NORMS[model.norm](epsilon=model.norm_epsilon, name="final_norm")(x)
    x = POOLINGS[model.pooling](name="pooling")(x)
    x = keras.layers.Dropout(model.dropout, name="dropout")(x)
    units = num_outputs(num_classes, config.is_multi_label)
    kernel_initializer: Any = "glorot_uniform"
    if config.linear and not with_linear:
        # The same initial scale as with the linear model, whose units add rows to the kernel.
        limit = math.sqrt(3.0 * (1.0 / max(1.0, (model.embed_dim + 2 * units) / 2.0)))
        kernel_initializer = keras.initializers.RandomUniform(-limit, limit)
    elif config.linear:
        inputs = token_ids if encoder_ids is token_ids else [encoder_ids, token_ids]
        linear_logits = build_linear(config.linear, vocabulary_size, units)(token_ids)
        x = keras.layers.Concatenate(name="features")([x, linear_logits])
    activation = "sigmoid" if units == 1 or config.is_multi_label else "softmax"
    probabilities = keras.layers.Dense(
        units, activation=activation, kernel_initializer=kernel_initializer, dtype="float32", name="classifier"
    )(x)
    return keras.Model(inputs, probabilities, name="mha")


def build_linear(linear: LinearConfig, vocabulary_size: int, units: int) -> NgramLinear:
    """The layer of the linear model, with ``units`` logits."""
    return NgramLinear(
        max_ngram=linear.max_ngram,
        buckets=linear.buckets,
        units=units,
        end_decay=linear.end_decay,
        context_windows=linear.context_windows,
        context_words=context_words(linear, vocabulary_size),
        name="linear",
    )


def keras_config(model: keras.Model) -> str:
    """The architecture as Keras serializes it, for the checkpoint."""
    return json.dumps(keras.saving.serialize_keras_object(model))


def to_model(checkpoint: Checkpoint, attention: str = "auto") -> keras.Model:
    """The Keras model that a checkpoint describes, built by our own code, with its weights."""
    model = build_classifier(checkpoint.config, len(checkpoint.vocabulary), len(checkpoint.class_names), attention=attention)
    for weight in model.weights:
        weight.assign(checkpoint.weights[weight.path])
    return model


def start_from(model: keras.Model, weights: Mapping[str, Any]) -> None:
    """Copy the weights of a trained encoder into a model, by path.

    Sizes may differ: the encoder may have more positions, or fewer words and classes. Rows that it lacks stay as they are.
    """
    for weight in model.weights:
        if weight.path in weights:
            values, trained = np.array(weight), weights[weight.path]
            shared = tuple(slice(min(sizes)) for sizes in zip(values.shape, trained.shape, strict=True))
            values[shared] = trained[shared]
            weight.assign(values)


def start_words_from(model: keras.Model, ids_V: Any, vectors_VD: Any) -> None:
    """Start word embeddings from word vectors; vectors that are wider are projected onto their principal axes, further units stay."""
    words = model.get_layer("embedding").token_embedding.words
    table = np.array(words)
    width = min(table.shape[1], vectors_VD.shape[1])
    if width < vectors_VD.shape[1]:
        vectors_VD = vectors_VD @ np.linalg.eigh(vectors_VD.T @ vectors_VD)[1][:, : -width - 1 : -1]
    table[ids_V, :width] = vectors_VD
    words.assign(table)


def freeze_below(model: keras.Model, trainable_blocks: int | str) -> None:
    """Freeze all weights below the last ``trainable_blocks`` blocks; with ``all``, none."""
    if isinstance(trainable_blocks, int):
        blocks = encoder_blocks(model)
        for layer in [model.get_layer("embedding"), *blocks[: max(0, len(blocks) - trainable_blocks)]]:
            layer.trainable = False


def up_to_logits(model: keras.Model) -> Callable[..., Any]:
    """The same model up to the logits, (B, U), without the sigmoid or softmax of its last layer."""
    classifier = model.get_layer("classifier")
    features = keras.Model(model.input, classifier.input)
    return lambda token_ids, training: features(token_ids, training=training) @ classifier.kernel + classifier.bias


def encoder_blocks(model: keras.Model) -> list[TransformerEncoder]:
    """The blocks of a model from ``build_classifier``, first to last."""
    return [layer for layer in model.layers if isinstance(layer, TransformerEncoder)]


def after_embedding(model: keras.Model, embedded: Any, mask: Any, linear_logits: Any, head_masks: Sequence[Any] | None = None) -> Any:
    """The model's output, without dropout, from its embeddings (B, L, D).

    Args:
        mask: bool (B, L), True at real positions.
        linear_logits: logits of the linear model, (B, U), zeros to silence it; ignored by a model without one.
        head_masks: one head mask per block, see ``MultiHeadAttention``.
    """
    x, blocks = embedded, encoder_blocks(model)
    for block, head_mask in zip(blocks, head_masks or [None] * len(blocks), strict=True):
        x = block(x, mask=mask, head_mask=head_mask)
    if any(layer.name == "final_norm" for layer in model.layers):
        x = model.get_layer("final_norm")(x)
    return classify(model, model.get_layer("pooling")(x, mask=mask), linear_logits)


def classify(model: keras.Model, pooled: Any, linear_logits: Any) -> Any:
    """The model's output from the pooled features (B, D) and the logits of the linear model (B, U)."""
    names = [layer.name for layer in model.layers]
    features = model.get_layer("features")([pooled, linear_logits]) if "features" in names else pooled
    return model.get_layer("classifier")(features)


def linear_logits_of(model: keras.Model, token_ids: Any) -> Any:
    """Logits of the linear model, (B, U), from the model's tokens; U is 0 for a model without one."""
    layers = [layer for layer in model.layers if isinstance(layer, NgramLinear)]
    return layers[0](token_ids) if layers else keras.ops.zeros((keras.ops.shape(token_ids)[0], 0))
