"""Texts to label first, when no model is there that could doubt any: the most typical text of each cluster.

Axes: N texts, F features, D features after the reduction.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD

from mha_cli.arrays import Floats

MOST_CLUSTERED = 20_000  # texts, drawn at random from more
SINGULAR_VALUES = 64  # of the features of words


def first_texts(features_NF: Any, number: int, seed: int = 0, known: Collection[int] = ()) -> list[int]:
    """The rows of up to ``number`` texts: of each cluster the text with the largest mean cosine, the largest cluster first.

    Args:
        features_NF: features with norm 1, dense or sparse; a text without words has zeros, and is left out.
        known: rows of texts that have a label already. A cluster with one of them is covered.
    """
    norms_N = np.asarray(abs(features_NF).sum(axis=1)).ravel()
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(norms_N))[:MOST_CLUSTERED]
    rows = np.union1d(rows, np.fromiter(known, np.int64))
    features_NF = features_NF[rows]
    clusters_N = _clusters(features_NF, number + len(known), seed)
    covered = set(clusters_N[np.isin(rows, [*known])])
    chosen = []
    for cluster in np.argsort(-np.bincount(clusters_N), kind="stable"):
        members = np.flatnonzero(clusters_N == cluster)
        if len(members) and cluster not in covered:
            sums_F = np.asarray(features_NF[members].sum(axis=0)).ravel()
            chosen.append(int(rows[members[np.argmax(features_NF[members] @ sums_F)]]))
    return chosen[:number]


def _clusters(features_NF: Any, number: int, seed: int) -> Any:
    """The number of each text's cluster, (N,)."""
    if issparse(features_NF) and min(features_NF.shape) > SINGULAR_VALUES:
        reduced_ND: Floats = TruncatedSVD(SINGULAR_VALUES, random_state=seed).fit_transform(features_NF)
    else:
        reduced_ND = features_NF.toarray() if issparse(features_NF) else features_NF
    return KMeans(min(number, len(reduced_ND)), n_init=1, random_state=seed).fit(reduced_ND).labels_
