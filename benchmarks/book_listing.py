"""The book's listing on Keras's own layers: padded to the full length as in the book, and on batches of similar length.

Source: François Chollet, "Deep Learning with Python", 2nd edition, listings 11.21, 11.24 and 11.25.
"""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows, padded, scoring_batches, training_batches
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.system.working_memory import MemoryEstimate


class PositionalEmbedding(layers.Layer):
    """Listing 11.24."""

    def __init__(self, sequence_length: int, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.token_embeddings = layers.Embedding(input_dim, output_dim)
        self.position_embeddings = layers.Embedding(sequence_length, output_dim)

    def build(self, input_shape: Any) -> None:
        """Create both tables."""
        self.token_embeddings.build(input_shape)
        self.position_embeddings.build(input_shape[1:])

    def call(self, inputs: Any) -> Any:
        """Embed token ids (B, L) to (B, L, D)."""
        return self.token_embeddings(inputs) + self.position_embeddings(ops.arange(ops.shape(inputs)[-1]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True at real tokens."""
        return ops.not_equal(inputs, 0)


class TransformerEncoder(layers.Layer):
    """Listing 11.21."""

    def __init__(self, embed_dim: int, dense_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attention = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.dense_proj = keras.Sequential([layers.Dense(dense_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm_1, self.layernorm_2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Create the weights of every sub-layer."""
        self.attention.build(input_shape, input_shape)
        for layer in (self.dense_proj, self.layernorm_1, self.layernorm_2):
            layer.build(input_shape)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Encode (B, L, D) to (B, L, D)."""
        attended = self.attention(inputs, inputs, attention_mask=None if mask is None else mask[:, None, :])
        projected_input = self.layernorm_1(inputs + attended)
        return self.layernorm_2(projected_input + self.dense_proj(projected_input))


class Listing:
    """The book's model, compiled as the book compiles it, by Keras's functions for one batch.

    Not by ``fit`` and ``predict``: after the last batch they wait in pauses that double, and can return twice as late as they are done
    (Keras 3.15, TensorFlow 2.21).

    Args:
        config: sizes and batch size.
        reviews: texts to train on and to classify.
        vocabulary_size: number of token ids.
    """

    def __init__(self, config: Config, reviews: EncodedTexts, vocabulary_size: int) -> None:
        keras.utils.set_random_seed(config.seed)
        self.batch_size, self.reviews, self.rng = config.training.batch_size, reviews, np.random.default_rng(config.seed)
        self.memory_estimate = MemoryEstimate(config.model, 2)
        model, length = config.model, config.text.sequence_length
        inputs = keras.Input(shape=(None,), dtype="int32")
        x = PositionalEmbedding(length, vocabulary_size, model.embed_dim)(inputs)
        x = TransformerEncoder(model.embed_dim, model.feed_forward_dim, model.heads[0])(x)
        x = layers.GlobalMaxPooling1D()(x)
        x = layers.Dropout(model.dropout)(x)
        self.model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
        self.model.compile(optimizer="rmsprop", loss="binary_crossentropy", metrics=["accuracy"])
        self.token_ids = padded(reviews.padded(np.arange(len(reviews))), length)

    def train(self) -> None:
        """Train on every review once."""
        for rows in self._training_batches():
            self.model.train_on_batch(self._padded(rows), self.reviews.labels[rows])

    def predict(self) -> None:
        """Classify every review."""
        for rows in self._scoring_batches():
            self.model.predict_on_batch(self._padded(rows))

    def about(self) -> dict[str, Any]:
        """Weights and options."""
        return {"weights": self.model.count_params()}

    def _training_batches(self) -> Iterable[Rows]:
        return self._cut(self.rng.permutation(len(self.reviews)))

    def _scoring_batches(self) -> Iterable[Rows]:
        return self._cut(np.arange(len(self.reviews)))

    def _cut(self, order: Rows) -> list[Rows]:
        return [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]

    def _padded(self, rows: Rows) -> Any:
        return self.token_ids[rows]


class ListingOnSimilarLengths(Listing):
    """The same compiled model on the batches that torch and ours take, each padded to its own longest review."""

    def _training_batches(self) -> Iterable[Rows]:
        return training_batches(self.reviews.lengths, self.rng, self.batch_size)

    def _scoring_batches(self) -> Iterable[Rows]:
        return scoring_batches(self.reviews.lengths, self.memory_estimate)

    def _padded(self, rows: Rows) -> Any:
        return self.reviews.padded(rows)
