"""Token embeddings: words and, on request, n-grams, subwords and a convolution.

Axes: B batch, L length, W characters of a token, D model width, N width of a convolution.
"""

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import Layer, check_buckets, check_shares, check_sizes
from mha_cli.layers.ngrams import hashed_ngrams, ids_of, rows_of, subword_sums


@keras.saving.register_keras_serializable(package="mha")
class TokenEmbedding(Layer):
    """One vector per token: its row in a table of words, plus what the options add.

    - n-grams: the embeddings of all n-grams that end at the token;
    - subwords: the mean embedding of the token's character n-grams;
    - convolution: a depthwise convolution over the sum, whose kernel starts at zero. It reads local word order.

    Args:
        vocabulary_size: number of token ids; id 0 is padding.
        embed_dim: width of the output, D.
        max_ngram: longest n-gram whose embedding is added; 1 adds none.
        ngram_buckets: rows of the table that all n-grams share by hash, a power of two.
        ngram_dropout: share of the units of n-gram and subword embeddings zeroed in training, in [0, 1).
        subword_buckets: rows of the table that all subwords share by hash, a power of two; 0 for no subwords, which need characters
            beside the token ids.
        conv_kernel_size: width of the convolution in tokens, N, odd; 0 for no convolution.

    Masking: ``compute_mask`` is True where the id is not 0.

    Source: n-grams: Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification", section 2.2; subwords: Bojanowski et al. 2017,
    "Enriching Word Vectors with Subword Information", section 3.2; convolution: Chu et al. 2023, "Conditional Positional Encodings for
    Vision Transformers", section 3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embed_dim: int,
        max_ngram: int = 1,
        ngram_buckets: int = 0,
        ngram_dropout: float = 0.0,
        subword_buckets: int = 0,
        conv_kernel_size: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(vocabulary_size=vocabulary_size, embed_dim=embed_dim, max_ngram=max_ngram)
        check_shares(ngram_dropout=ngram_dropout)
        if max_ngram > 1:
            check_buckets(ngram_buckets=ngram_buckets)
        if subword_buckets:
            check_buckets(subword_buckets=subword_buckets)
        if conv_kernel_size and (conv_kernel_size < 0 or conv_kernel_size % 2 == 0):
            raise ValueError(f"conv_kernel_size is {conv_kernel_size}; it must be odd, or 0")
        self.vocabulary_size, self.embed_dim = vocabulary_size, embed_dim
        self.max_ngram, self.ngram_buckets, self.ngram_dropout = max_ngram, ngram_buckets, ngram_dropout
        self.subword_buckets, self.conv_kernel_size = subword_buckets, conv_kernel_size
        self.unit_dropout = keras.layers.Dropout(ngram_dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Create the tables that the options need."""
        if self.subword_buckets and len(input_shape) != 3:
            raise ValueError(f"the input has shape {tuple(input_shape)}; with subwords it takes (batch, length, 1 + characters)")
        self.words = self._table("words", self.vocabulary_size)
        if self.max_ngram > 1:
            self.ngrams = self._table("ngrams", self.ngram_buckets)
        if self.subword_buckets:
            self.subwords = self._table("subwords", self.subword_buckets)
        if self.conv_kernel_size:
            self.convolution_kernel = self.add_weight(
                name="convolution_kernel", shape=(self.conv_kernel_size, self.embed_dim), initializer="zeros"
            )

    def _table(self, name: str, num_rows: int) -> Any:
        return self.add_weight(name=name, shape=(num_rows, self.embed_dim), initializer="uniform", autocast=False)

    def call(self, token_ids: Any, training: bool | None = None) -> Any:
        """Embed tokens, int (B, L), or (B, L, 1 + W) with characters, as (B, L, D)."""
        return self.with_neighbours(self.embed_words(token_ids, training), self.compute_mask(token_ids))

    def embed_words(self, token_ids: Any, training: bool | None = None) -> Any:
        """The embeddings of words, n-grams and subwords before the convolution, (B, L, D)."""
        ids_BL = ids_of(token_ids)
        embedded_BLD = ops.cast(rows_of(self.words, ids_BL), self.compute_dtype)
        for buckets_BL, whole_BL in hashed_ngrams(ids_BL, range(2, self.max_ngram + 1), self.ngram_buckets):
            ngrams_BLD = ops.cast(rows_of(self.ngrams, buckets_BL), self.compute_dtype)
            ngrams_BLD = ngrams_BLD * ops.expand_dims(ops.cast(whole_BL, self.compute_dtype), 2)
            embedded_BLD = embedded_BLD + self.unit_dropout(ngrams_BLD, training=training)
        if self.subword_buckets:
            sums_BLD, numbers_BL1 = subword_sums(self.subwords, token_ids, self.compute_dtype, training)
            embedded_BLD = embedded_BLD + self.unit_dropout(sums_BLD / ops.maximum(numbers_BL1, 1), training=training)
        return embedded_BLD

    def with_neighbours(self, words_BLD: Any, mask_BL: Any) -> Any:
        """The embeddings plus their convolution, x_t + Σ_n k_n ⊙ x_(t + n - (N - 1) / 2), (B, L, D)."""
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
