"""Features on disk are those in memory."""

import numpy as np
import pytest

from mha_cli.config.settings import LinearConfig
from mha_cli.linear import stored_features as module
from mha_cli.linear.features import NgramEmbeddings, ngrams_of, text_features
from mha_cli.linear.stored_features import store_features
from tests.reviews import encoded

BUCKETS, CHARACTERS = 64, 7


@pytest.mark.parametrize("embedded", [False, True])
def test_parts_rows_and_products_are_those_of_all_texts_in_memory(embedded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_TEXTS", 3)
    rng = np.random.default_rng(0)
    texts = encoded([rng.integers(2, 40, length).tolist() for length in (5, 1, 0, 7, 2, 11, 3)], list(range(7)), CHARACTERS)
    linear = LinearConfig(max_ngram=2, buckets=BUCKETS, end_decay=4)
    embeddings = NgramEmbeddings(np.array([1, 5, 8, 30, 31]), rng.normal(size=(5, 2)).astype(np.float32)) if embedded else None
    expected = text_features(texts, ngrams_of(texts, linear), linear).toarray()
    table = rng.normal(size=(BUCKETS, 3)).astype(np.float32)

    features = store_features(texts, linear, embeddings)
    np.testing.assert_allclose(features @ table, expected @ table, atol=1e-5)
    if embeddings is not None:
        expected = np.hstack([expected, expected[:, embeddings.buckets] @ embeddings.table])
    some = np.array([True, False, True, True, False, True, True])
    for stored, dense in ((features, expected), (features[some], expected[some])):
        parts = list(stored.parts())
        assert [row for rows, _ in parts for row in range(rows.start, rows.stop)] == list(range(len(dense)))
        assert len(parts) == -(-len(dense) // 3)
        np.testing.assert_allclose(np.vstack([part.toarray() for _, part in parts]), dense, atol=1e-6)
        columns, values = stored.row(3)
        np.testing.assert_allclose(values, dense[3, columns], atol=1e-6)
        assert set(columns) == set(np.flatnonzero(dense[3])) | set(range(BUCKETS, dense.shape[1]))
        assert len(features.row(2)[0]) == dense.shape[1] - BUCKETS  # sums of no embedding are stored as well
