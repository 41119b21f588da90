"""The n-grams and subwords of texts as sparse features: what a linear model reads.

Axes: N texts, P tokens of all texts, E distinct n-grams of each text, all texts one after another, W characters of a token,
R buckets, V n-grams that have an embedding, F some buckets, D width of an embedding.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from mha_cli.arrays import Array, Floats, Int32s, Int64s
from mha_cli.config.settings import LinearConfig
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.pretrained.vectors import WordVectors
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down
from mha_cli.text.encoding import ids_of
from mha_cli.text.ngrams import hashed_ngrams, hashed_subwords

CHUNK_TEXTS = 2_000
MOST_TEXTS = 100_000  # whose features are in memory at once, at most
MOST_FEATURES = 50_000_000  # features in memory at once, at most, by ``num_features``: 4 GB with the solver's copy
SUBWORDS_OF_TOKEN = 4  # features of a token with subwords, roughly, beside its n-grams: only those that are new in a text count
VECTORS_WEIGHT = 0.3  # weight of word vectors beside n-grams; low, since most of a text's sum is common to all texts


@dataclass(frozen=True)
class Ngrams:
    """The distinct n-grams of texts."""

    buckets: Int32s  # int32 (E,)
    tokens: Int64s  # last token of the last occurrence of each n-gram, counted over all texts, int64 (E,)
    offsets: Int64s  # int64 (N + 1,); text i has the n-grams ``offsets[i]:offsets[i + 1]``


class NgramEmbeddings(NamedTuple):
    """Sorted buckets of n-grams, int64 (V,), their embeddings, (V, D), and how large their sums are beside the n-grams themselves."""

    buckets: Int64s
    table: Floats
    weight: float = 1.0

    def of(self, buckets_F: Array) -> Floats:
        """The embeddings of some buckets, (F, D); zeros for buckets without one."""
        rows_F = np.minimum(np.searchsorted(self.buckets, buckets_F), len(self.buckets) - 1)
        return self.table[rows_F] * (self.buckets[rows_F] == buckets_F)[:, None]


def num_features(texts: EncodedTexts, linear: LinearConfig) -> int:
    """A rough number of the features of texts."""
    return len(texts.tokens) * (linear.max_ngram + SUBWORDS_OF_TOKEN * texts.have_characters)


def most_in_memory(texts: EncodedTexts, linear: LinearConfig) -> int:
    """The most texts of this length whose features are in memory at once."""
    return min(MOST_TEXTS, MOST_FEATURES * len(texts) // max(1, num_features(texts, linear)))


def embeddings_of_words(vectors: WordVectors, buckets: int) -> NgramEmbeddings:
    """The vectors of words as embeddings of n-grams that are one word long."""
    [(buckets_V1, _)] = hashed_ngrams(vectors.ids[:, None], [1], buckets)
    sorted_V, first_V = np.unique(buckets_V1[:, 0].astype(np.int64), return_index=True)
    return NgramEmbeddings(sorted_V, vectors.table[first_V], VECTORS_WEIGHT)


def ngrams_of(texts: EncodedTexts, linear: LinearConfig, callbacks: Callbacks = SILENT) -> Ngrams:
    """The n-grams of texts up to length ``max_ngram``, by hash."""
    buckets, longest = linear.buckets, max(1, int(texts.lengths.max(initial=0)))
    parts, tokens, counts = [], [], []
    for start in counted_down(range(0, len(texts), CHUNK_TEXTS), "finding n-grams, part", callbacks):
        lengths = texts.lengths[start : start + CHUNK_TEXTS]
        first_token = texts.offsets[start]
        token_ids = ids_of(texts.tokens[first_token : texts.offsets[start + len(lengths)]])
        starts = np.cumsum(lengths) - lengths
        rows = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.arange(len(token_ids)) - starts[rows]
        cells_by_length = []
        for n, (numbers, _) in enumerate(hashed_ngrams(token_ids[None], range(1, linear.max_ngram + 1), buckets)):
            whole = positions >= n  # the others reach back into the text before
            cells_by_length.append((rows[whole] * buckets + numbers[0, whole]) * longest + positions[whole])
        cells, last_positions = np.divmod(np.sort(np.concatenate(cells_by_length)), longest)
        distinct = np.diff(cells, append=-1) != 0  # of an n-gram that comes again the last position
        rows, numbers = np.divmod(cells[distinct], buckets)
        parts.append(numbers.astype(np.int32))
        tokens.append(first_token + starts[rows] + last_positions[distinct])
        counts.append(np.bincount(rows, minlength=len(lengths)))
    return Ngrams(np.concatenate(parts), np.concatenate(tokens), np.concatenate([[0], np.cumsum(np.concatenate(counts))]))


def text_features(texts: EncodedTexts, ngrams: Ngrams, linear: LinearConfig, callbacks: Callbacks = SILENT) -> Any:
    """All features of the linear model: sparse (N, R). Times a table it is the layer ``NgramLinear`` without windows."""
    features = _ngram_features(texts, ngrams, linear)
    return features + _subword_features(texts, linear, callbacks) if texts.have_characters else features


def _ngram_features(texts: EncodedTexts, ngrams: Ngrams, linear: LinearConfig) -> Any:
    """Weights of the n-grams by position, each row divided by its norm, as in ``layers.ngram_linear.text_logits``."""
    counts = np.diff(ngrams.offsets)
    tokens_after = np.repeat(texts.offsets[1:], counts) - 1 - ngrams.tokens
    weights = 1.0 + np.exp(-tokens_after / linear.end_decay) if linear.end_decay else np.ones(len(tokens_after))
    norms = np.sqrt(np.bincount(np.repeat(np.arange(len(counts)), counts), np.square(weights), len(counts)))
    unit_weights = (weights / np.repeat(norms, counts)).astype(np.float32)
    return csr_matrix((unit_weights, ngrams.buckets, ngrams.offsets), shape=(len(counts), linear.buckets))


def _subword_features(texts: EncodedTexts, linear: LinearConfig, callbacks: Callbacks) -> Any:
    """Counts of the subwords of a text, divided by the square root of their number, as in ``layers.ngram_linear.subword_logits``."""
    parts = []
    for start in counted_down(range(0, len(texts), CHUNK_TEXTS), "finding subwords, part", callbacks):
        lengths = texts.lengths[start : start + CHUNK_TEXTS]
        tokens = texts.tokens[texts.offsets[start] : texts.offsets[start + len(lengths)]]
        of_token = np.repeat(np.arange(len(lengths)), lengths)
        rows, buckets = [], []
        for buckets_PW, whole_PW in hashed_subwords(tokens[:, 1:], linear.buckets):
            rows.append(np.repeat(of_token, whole_PW.sum(axis=1)))
            buckets.append(buckets_PW[whole_PW])
        row_E = np.concatenate(rows)
        norms = np.sqrt(np.bincount(row_E, minlength=len(lengths)))
        counts = (1.0 / norms[row_E]).astype(np.float32)
        parts.append(csr_matrix((counts, (row_E, np.concatenate(buckets))), shape=(len(lengths), linear.buckets)))
    return vstack(parts, format="csr")
