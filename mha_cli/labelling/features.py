"""Features of texts without any label: their words, by TF-IDF.

Axes: N texts, F words.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from mha_cli.config.settings import TextConfig
from mha_cli.text.tokenizer import make_tokenizer

BUCKETS = 2**18  # of words by hash, so that texts without any word are features as well: zeros


def word_features(texts: Iterable[str]) -> Any:
    """Sparse (N, F): the logarithmic TF-IDF of the words that at least two texts share, each row with norm 1, or zeros."""
    words = HashingVectorizer(
        analyzer=make_tokenizer(TextConfig()), n_features=BUCKETS, alternate_sign=False, norm=None, dtype=np.float32
    ).transform(texts)
    num_texts_F = words.getnnz(axis=0)
    shared = words[:, num_texts_F >= min(2, num_texts_F.max())]
    return TfidfTransformer(sublinear_tf=True).fit_transform(shared)
