"""Token embeddings with positions added: the only place where the model learns in which order the words stand.

Axes: B batch, L length, S longest length, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from mha_cli.layers.arguments import Layer, check_choice, check_shares, check_sizes

POSITIONS = ("learned", "sinusoidal", "none")
HASH_FACTOR = -1_640_531_535
"""2³² / golden ratio, as a 32-bit integer: odd and far from round, so that neighbouring ids scatter over any number of buckets (Knuth,
"The Art of Computer Programming", volume 3, section 6.4)."""


def sinusoidal_positions(sequence_length: int, embed_dim: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """PE(s, 2i) = sin(s / 10000^(2i/D)), PE(s, 2i+1) = cos(s / 10000^(2i/D)), as (S, D).

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    position_S1 = np.arange(sequence_length, dtype=np.float64)[:, None]
    unit_D = np.arange(embed_dim)
    angle_SD = position_S1 / 10_000.0 ** ((unit_D - unit_D % 2) / embed_dim)
    return np.where(unit_D % 2 == 0, np.sin(angle_SD), np.cos(angle_SD)).astype(np.float32)


def ngram_buckets_of(token_ids_BL: Any, n: int, buckets: int) -> tuple[Any, Any]:
    """The bucket of the n tokens that end at each position, and where there are n.

    Args:
        token_ids_BL: int32, 0 at padding, which stands only at the end.
        n: tokens of an n-gram.
        buckets: size of the table.

    Returns:
        Bucket numbers, int32 (B, L), and a bool (B, L) that is False at padding and at the first n - 1 positions.

    Source: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification", section 2.2; the hash is a polynomial in the ids.
    """
    token_ids_BL = ops.cast(token_ids_BL, "int32")  # the arithmetic wraps round at 32 bits, in every backend alike
    length = ops.shape(token_ids_BL)[1]
    hash_BL = ops.zeros_like(token_ids_BL) + n
    for back in range(n - 1, -1, -1):
        earlier_BL = ops.pad(token_ids_BL, [[0, 0], [back, 0]])[:, :length]
        hash_BL = hash_BL * HASH_FACTOR + earlier_BL
    whole_BL = ops.logical_and(token_ids_BL != 0, ops.arange(length)[None, :] >= n - 1)
    return ops.mod(hash_BL, buckets), whole_BL


def rows_of(table: Any, row_numbers: Any) -> Any:
    """The given rows of a weight (R, D), as (…, D).

    TensorFlow copies a weight of which single rows have been changed whenever the whole of it is read; its own look-up of rows does not.
    """
    look_up = getattr(table.value, "sparse_read", None)
    return ops.take(table, row_numbers, axis=0) if look_up is None else look_up(row_numbers)


@keras.saving.register_keras_serializable(package="mha")
class PositionalEmbedding(Layer):
    """Token embedding plus position embedding, with dropout on the sum; on request also embeddings of the n-grams that end at a token.

    Args:
        sequence_length: longest input, S; a longer one is an error.
        vocabulary_size: number of token ids; id 0 is padding.
        embed_dim: width of the output, D.
        positions: ``learned`` (a table of S rows), ``sinusoidal`` (no weights), or ``none`` (the model then cannot read order).
        dropout: share of the sum's units zeroed in training, in [0, 1).
        max_ngram: longest n-gram whose embedding is added; 1 adds none. N-grams carry order, so ``positions="none"`` takes 1 only.
        ngram_buckets: rows of the table that all n-grams share by hash; two that fall into one row are not told apart.
        ngram_dropout: share of the n-gram embeddings' units zeroed in training, in [0, 1).

    Masking: ``compute_mask`` is True where the id is not 0, and Keras hands it to the layers that follow.

    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.4, 3.5 and 5.4 (without the factor √D of 3.4).
    """

    def __init__(
        self,
        sequence_length: int,
        vocabulary_size: int,
        embed_dim: int,
        positions: str = "learned",
        dropout: float = 0.0,
        max_ngram: int = 1,
        ngram_buckets: int = 0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(sequence_length=sequence_length, vocabulary_size=vocabulary_size, embed_dim=embed_dim, max_ngram=max_ngram)
        check_shares(dropout=dropout, ngram_dropout=ngram_dropout)
        check_choice("positions", positions, POSITIONS)
        if max_ngram > 1 and positions == "none":
            raise ValueError(f"max_ngram is {max_ngram}, but n-grams carry word order and positions is 'none'; take max_ngram 1")
        if max_ngram > 1 and ngram_buckets < 1:
            raise ValueError(f"max_ngram is {max_ngram}, so ngram_buckets must be at least 1")
        self.sequence_length, self.vocabulary_size, self.embed_dim, self.positions = sequence_length, vocabulary_size, embed_dim, positions
        self.dropout, self.max_ngram, self.ngram_buckets, self.ngram_dropout = dropout, max_ngram, ngram_buckets, ngram_dropout
        self.sum_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.unit_dropout = keras.layers.Dropout(ngram_dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Create the token table and, for learned positions, the position table."""
        self.token_embeddings = self.add_weight(
            name="token_embeddings", shape=(self.vocabulary_size, self.embed_dim), initializer="uniform", autocast=False
        )
        self.position_embeddings: Any = None
        if self.positions == "learned":
            self.position_embeddings = self.add_weight(
                name="position_embeddings", shape=(self.sequence_length, self.embed_dim), initializer="uniform"
            )
        elif self.positions == "sinusoidal":
            self.position_embeddings = sinusoidal_positions(self.sequence_length, self.embed_dim)
        if self.max_ngram > 1:
            self.ngram_embeddings = self.add_weight(
                name="ngram_embeddings", shape=(self.ngram_buckets, self.embed_dim), initializer="uniform", autocast=False
            )

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Embed token ids.

        Args:
            token_ids: int (B, L) with L at most ``sequence_length``.
            training: whether dropout is active.

        Returns:
            (B, L, D).
        """
        if token_ids.shape[1] is not None and token_ids.shape[1] > self.sequence_length:
            raise ValueError(f"the input is {token_ids.shape[1]} tokens long; sequence_length allows {self.sequence_length}")
        embedded_BLD = self.embed_words(token_ids, training=training)
        if self.position_embeddings is not None:
            positions_LD = ops.convert_to_tensor(self.position_embeddings)[: ops.shape(token_ids)[1]]
            embedded_BLD = embedded_BLD + ops.cast(positions_LD, self.compute_dtype)
        return self.sum_dropout(embedded_BLD, training=training)

    def embed_words(self, token_ids: Any, training: bool | None = None) -> Any:
        """The token embeddings and those of the n-grams, without positions, (B, L, D)."""
        embedded_BLD = ops.cast(rows_of(self.token_embeddings, token_ids), self.compute_dtype)
        for n in range(2, self.max_ngram + 1):
            buckets_BL, whole_BL = ngram_buckets_of(token_ids, n, self.ngram_buckets)
            ngrams_BLD = ops.cast(rows_of(self.ngram_embeddings, buckets_BL), self.compute_dtype)
            ngrams_BLD = ngrams_BLD * ops.expand_dims(ops.cast(whole_BL, self.compute_dtype), 2)
            embedded_BLD = embedded_BLD + self.unit_dropout(ngrams_BLD, training=training)
        return embedded_BLD

    def compute_mask(self, token_ids: Any, previous: Any = None) -> Any:
        """Bool (B, L): True at real tokens, False at padding."""
        return ops.not_equal(token_ids, 0)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, L, D)."""
        return (*input_shape, self.embed_dim)
