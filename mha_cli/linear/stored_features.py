"""The features of any number of texts, in a temporary file.

Axes: N texts, E features of all texts, R buckets, D width of an embedding, U units of the logits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from mha_cli.arrays import Array, Floats, Int32s, Int64s
from mha_cli.config.settings import LinearConfig
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.corpus.token_store import TokenStore
from mha_cli.linear.features import CHUNK_TEXTS, NgramEmbeddings, ngrams_of, text_features
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down


@dataclass(frozen=True)
class StoredFeatures:
    """The features of ``text_features`` in R columns; with embeddings, D more columns hold the sum of a text's embeddings."""

    store: TokenStore  # column and value, as the bits of a float32, of each feature, int32 (E, 2)
    starts: Int64s  # first feature of each text, (N,)
    stops: Int64s  # end of the features of each text, (N,)
    num_columns: int  # R + D

    def __getitem__(self, rows: Array) -> Self:
        """Some of the texts."""
        return replace(self, starts=self.starts[rows], stops=self.stops[rows])

    def __matmul__(self, table_RU: Floats) -> Floats:
        """The features without sums of embeddings, times a table, (N, U)."""
        sums_NU = np.empty((len(self.starts), table_RU.shape[1]), np.float32)
        for rows, part in self.parts():
            sums_NU[rows] = part[:, : len(table_RU)] @ table_RU
        return sums_NU

    def row(self, row: int) -> tuple[Int32s, Floats]:
        """Columns and values of the features of a text."""
        features = self.store[self.starts[row] : self.stops[row]]
        return features[:, 0], features[:, 1].view(np.float32)

    def parts(self, what: str = "", callbacks: Callbacks = SILENT) -> Iterator[tuple[slice, Any]]:
        """Parts of the texts, and their features in memory, sparse; ``what`` names a part for progress."""
        for start in counted_down(range(0, len(self.starts), CHUNK_TEXTS), what, callbacks):
            rows = slice(start, min(start + CHUNK_TEXTS, len(self.starts)))
            columns, values = zip(*map(self.row, range(rows.start, rows.stop)), strict=True)
            offsets = np.cumsum([0, *map(len, columns)])
            shape = (len(columns), self.num_columns)
            yield rows, csr_matrix((np.concatenate(values), np.concatenate(columns), offsets), shape)


def store_features(
    texts: EncodedTexts, linear: LinearConfig, embeddings: NgramEmbeddings | None, callbacks: Callbacks = SILENT
) -> StoredFeatures:
    """The features of texts, found in parts."""
    starts = counted_down(range(0, len(texts), CHUNK_TEXTS), "storing n-grams, part", callbacks)
    parts = (texts.subset(np.arange(start, min(start + CHUNK_TEXTS, len(texts)))) for start in starts)
    return stored((text_features(part, ngrams_of(part, linear), linear) for part in parts), embeddings)


def stored(parts: Iterable[Any], embeddings: NgramEmbeddings | None) -> StoredFeatures:
    """The features of parts of texts, each sparse, (n, R)."""
    store, counts = TokenStore(), []
    for features in parts:
        if embeddings is not None:
            features = with_sums(features, embeddings)
        store.append(np.stack([features.indices, features.data.view(np.int32)], axis=1))
        counts.append(np.diff(features.indptr))
    stops = np.cumsum(np.concatenate(counts), dtype=np.int64)
    return StoredFeatures(store, np.concatenate([[0], stops[:-1]]), stops, features.shape[1])


def with_sums(features: Any, embeddings: NgramEmbeddings) -> Any:
    """Sparse features, (n, R), and the sums of their embeddings in D further columns; these hold zeros as well, since they are centred."""
    occurring, columns = np.unique(features.indices, return_inverse=True)
    compact = csr_matrix((features.data, columns, features.indptr), (features.shape[0], len(occurring)))
    sums = compact @ embeddings.of(occurring)
    rows, columns = np.indices(sums.shape)
    return hstack([features, csr_matrix((sums.ravel(), (rows.ravel(), columns.ravel())), sums.shape)], format="csr")
