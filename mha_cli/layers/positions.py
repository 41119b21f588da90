"""Token embeddings plus position embeddings, which tell the encoder the order of the words.

Axes: B batch, L length, S longest length, W characters of a token, D model width.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from mha_cli.layers.arguments import Layer, check_choice, check_shares, check_sizes
from mha_cli.layers.tokens import TokenEmbedding

POSITIONS = ("learned", "sinusoidal", "none")  # what may be added; rotary positions and linear biases are in attention


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

    Args:
        sequence_length: largest length of an input, S.
        vocabulary_size: number of token ids; id 0 is padding.
        embed_dim: width of the output, D.
        positions: ``learned`` (a table of S rows), ``sinusoidal`` (no weights), or ``none`` (the model then ignores order).
        norm_epsilon: epsilon of a layer normalization of the sum, before dropout; None adds none.
        dropout: share of the sum's units zeroed in training, in [0, 1).
        token_options: further arguments of ``TokenEmbedding``, by name; None for words alone.

    Masking: ``compute_mask`` is True where the id is not 0; Keras passes it to the following layers.

    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.4, 3.5 and 5.4 (without the factor √D of 3.4).
    """

    def __init__(
        self,
        sequence_length: int,
        vocabulary_size: int,
        embed_dim: int,
        positions: str = "learned",
        norm_epsilon: float | None = None,
        dropout: float = 0.0,
        token_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(sequence_length=sequence_length)
        check_shares(dropout=dropout)
        check_choice("positions", positions, POSITIONS)
        self.sequence_length, self.vocabulary_size, self.embed_dim = sequence_length, vocabulary_size, embed_dim
        self.positions, self.norm_epsilon, self.dropout, self.token_options = positions, norm_epsilon, dropout, token_options
        policy = self.dtype_policy
        self.sum_dropout = keras.layers.Dropout(dropout, dtype=policy)
        self.token_embedding = TokenEmbedding(vocabulary_size, embed_dim, **(token_options or {}), dtype=policy, name="token_embedding")
        if positions == "learned":
            self.position_embedding = keras.layers.Embedding(sequence_length, embed_dim, dtype=policy, name="position_embedding")
        if norm_epsilon is not None:
            self.norm = keras.layers.LayerNormalization(epsilon=norm_epsilon, dtype=policy, name="norm")

    def build(self, input_shape: Any) -> None:
        """Create the tables of tokens and positions."""
        self.token_embedding.build(input_shape)
        if self.positions == "learned":
            self.position_embedding.build()
        elif self.positions == "sinusoidal":
            self.sinusoids_SD = sinusoidal_positions(self.sequence_length, self.embed_dim)
        if self.norm_epsilon is not None:
            self.norm.build((*input_shape[:2], self.embed_dim))

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Embed tokens, int (B, L), or (B, L, 1 + W) with characters, as (B, L, D); L is at most ``sequence_length``."""
        if token_ids.shape[1] is not None and token_ids.shape[1] > self.sequence_length:
            raise ValueError(f"the input is {token_ids.shape[1]} tokens long; sequence_length allows {self.sequence_length}")
        embedded_BLD = self.with_positions(self.token_embedding(token_ids, training=training))
        return self.sum_dropout(embedded_BLD, training=training)

    def with_positions(self, embedded_BLD: Any) -> Any:
        """Token embeddings plus position embeddings, (B, L, D), normalized unless ``norm_epsilon`` is None."""
        if self.positions != "none":
            embedded_BLD = embedded_BLD + ops.cast(self.position_table()[: ops.shape(embedded_BLD)[1]], self.compute_dtype)
        return embedded_BLD if self.norm_epsilon is None else self.norm(embedded_BLD)

    def position_table(self) -> Any:
        """One row per position, learned or sinusoidal, (S, D)."""
        return ops.convert_to_tensor(self.position_embedding.embeddings if self.positions == "learned" else self.sinusoids_SD)

    def compute_mask(self, token_ids: Any, previous: Any = None) -> Any:
        """Bool (B, L): True at real tokens, False at padding."""
        return self.token_embedding.compute_mask(token_ids)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """(B, L, D)."""
        return (*input_shape[:2], self.embed_dim)
