"""Token embeddings with positions added: where the encoder learns in which order the words stand.

Axes: B batch, L length, S longest length, W characters of a token, D model width, N width of a convolution.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from mha_cli.layers.arguments import Layer, check_buckets, check_choice, check_shares, check_sizes
from mha_cli.layers.ngrams import ids_of, ngram_buckets_of, rows_of, subword_sums

POSITIONS = ("learned", "sinusoidal", "none")


def sinusoidal_positions(sequence_length: int, embed_dim: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """PE(s, 2i) = sin(s / 10000^(2i/D)), PE(s, 2i+1) = cos(s / 10000^(2i/D)), as (S, D); s is the paper's pos.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    position_S1 = np.arange(sequence_length, dtype=np.float64)[:, None]
    unit_D = np.arange(embed_dim)
    angle_SD = position_S1 / 10_000.0 ** ((unit_D - unit_D % 2) / embed_dim)  # 2i, of the units 2i and 2i + 1
    return np.where(unit_D % 2 == 0, np.sin(angle_SD), np.cos(angle_SD)).astype(np.float32)


@keras.saving.register_keras_serializable(package="mha")
class PositionalEmbedding(Layer):
    """Token embedding plus position embedding, with dropout on the sum.

    On request the embeddings of its subwords and of n-grams ending there are added to a token's, and then what a depthwise convolution
    makes of it and its neighbours: word order as it is near a word, wherever that stands.

    Args:
        sequence_length: longest input, S; a longer one is an error.
        vocabulary_size: number of token ids; id 0 is padding.
        embed_dim: width of the output, D.
        positions: ``learned`` (a table of S rows), ``sinusoidal`` (no weights), or ``none`` (the model then cannot read order).
        dropout: share of the sum's units zeroed in training, in [0, 1).
        max_ngram: longest n-gram whose embedding is added; 1 adds none. N-grams carry order, so ``positions="none"`` takes 1 only.
        ngram_buckets: rows of the table that all n-grams share by hash, a power of two; n-grams in one row have the same embedding.
        ngram_dropout: share of the units of n-gram embeddings, and of the subwords' mean, zeroed in training, in [0, 1).
        subword_buckets: rows of the table that all subwords share by hash, a power of two; 0 for none. With it, tokens have characters
            beside their ids.
        conv_kernel_size: tokens that the convolution sees, N, odd, the token itself in their middle; 0 for none. It starts at zero, and
            carries order, so ``positions="none"`` takes 0 only.

    Masking: ``compute_mask`` is True where the id is not 0, and Keras hands it to the layers that follow.

    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.4, 3.5 and 5.4 (without the factor √D of 3.4); subwords:
    Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2; the convolution: Chu et al. 2023, "Conditional
    Positional Encodings for Vision Transformers", section 3 (Positional Encoding Generator).
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
        subword_buckets: int = 0,
        conv_kernel_size: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(sequence_length=sequence_length, vocabulary_size=vocabulary_size, embed_dim=embed_dim, max_ngram=max_ngram)
        check_shares(dropout=dropout, ngram_dropout=ngram_dropout)
        check_choice("positions", positions, POSITIONS)
        if max_ngram > 1 and positions == "none":
            raise ValueError(f"max_ngram is {max_ngram}, but n-grams carry word order and positions is 'none'; take max_ngram 1")
        if max_ngram > 1:
            check_buckets(ngram_buckets=ngram_buckets)
        if subword_buckets:
            check_buckets(subword_buckets=subword_buckets)
        if conv_kernel_size and (conv_kernel_size < 0 or conv_kernel_size % 2 == 0):
            raise ValueError(f"conv_kernel_size is {conv_kernel_size}; it must be odd, or 0")
        if conv_kernel_size and positions == "none":
            raise ValueError(f"conv_kernel_size is {conv_kernel_size}, but it carries word order and positions is 'none'; take 0")
        self.sequence_length, self.vocabulary_size, self.embed_dim, self.positions = sequence_length, vocabulary_size, embed_dim, positions
        self.dropout, self.max_ngram, self.ngram_buckets, self.ngram_dropout = dropout, max_ngram, ngram_buckets, ngram_dropout
        self.subword_buckets, self.conv_kernel_size = subword_buckets, conv_kernel_size
        self.sum_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.unit_dropout = keras.layers.Dropout(ngram_dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Create the token table and those of positions, n-grams and subwords, as far as there are any."""
        if self.subword_buckets and len(input_shape) != 3:
            raise ValueError(f"the input has shape {tuple(input_shape)}; with subwords it takes (batch, length, 1 + characters)")
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
        if self.subword_buckets:
            self.subword_embeddings = self.add_weight(
                name="subword_embeddings", shape=(self.subword_buckets, self.embed_dim), initializer="uniform", autocast=False
            )
        if self.conv_kernel_size:
            self.convolution_kernel = self.add_weight(
                name="convolution_kernel", shape=(self.conv_kernel_size, self.embed_dim), initializer="zeros"
            )

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Embed tokens.

        Args:
            token_ids: int (B, L), or (B, L, 1 + W) with characters, with L at most ``sequence_length``.
            training: whether dropout is active.

        Returns:
            (B, L, D).
        """
        if token_ids.shape[1] is not None and token_ids.shape[1] > self.sequence_length:
            raise ValueError(f"the input is {token_ids.shape[1]} tokens long; sequence_length allows {self.sequence_length}")
        embedded_BLD = self.with_neighbours(self.embed_words(token_ids, training=training), self.compute_mask(token_ids))
        if self.position_embeddings is not None:
            positions_LD = ops.convert_to_tensor(self.position_embeddings)[: ops.shape(token_ids)[1]]
            embedded_BLD = embedded_BLD + ops.cast(positions_LD, self.compute_dtype)
        return self.sum_dropout(embedded_BLD, training=training)

    def embed_words(self, token_ids: Any, training: bool | None = None) -> Any:
        """The token embeddings and those of n-grams and subwords, without positions, (B, L, D)."""
        ids_BL = ids_of(token_ids)
        embedded_BLD = ops.cast(rows_of(self.token_embeddings, ids_BL), self.compute_dtype)
        for n in range(2, self.max_ngram + 1):
            buckets_BL, whole_BL = ngram_buckets_of(ids_BL, n, self.ngram_buckets)
            ngrams_BLD = ops.cast(rows_of(self.ngram_embeddings, buckets_BL), self.compute_dtype)
            ngrams_BLD = ngrams_BLD * ops.expand_dims(ops.cast(whole_BL, self.compute_dtype), 2)
            embedded_BLD = embedded_BLD + self.unit_dropout(ngrams_BLD, training=training)
        if self.subword_buckets:
            sums_BLD, numbers_BL1 = subword_sums(self.subword_embeddings, token_ids, self.compute_dtype, training)
            embedded_BLD = embedded_BLD + self.unit_dropout(sums_BLD / ops.maximum(numbers_BL1, 1), training=training)
        return embedded_BLD

    def with_neighbours(self, words_BLD: Any, mask_BL: Any) -> Any:
        """What ``embed_words`` gives, and what the convolution makes of it added: x_t + Σ_n k_n ⊙ x_(t + n - (N - 1) / 2), (B, L, D)."""
        if not self.conv_kernel_size:
            return words_BLD
        words_BLD = words_BLD * ops.expand_dims(ops.cast(mask_BL, words_BLD.dtype), 2)
        kernel_ND1 = ops.expand_dims(ops.cast(self.convolution_kernel, words_BLD.dtype), 2)
        return words_BLD + ops.depthwise_conv(words_BLD, kernel_ND1, padding="same", data_format="channels_last")

    def compute_mask(self, token_ids: Any, previous: Any = None) -> Any:
        """Bool (B, L): True at real tokens, False at padding."""
        return ops.not_equal(ids_of(token_ids), 0)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, L, D)."""
        return (*input_shape[:2], self.embed_dim)
