"""Texts to label first, when no model is there that could doubt any: those that the others resemble most, one after another.

Source: Wei, Iyer and Bilmes 2015, "Submodularity in Data Subset Selection and Active Learning": facility location, without uncertainty.

Axes: N texts, K texts that are compared, F features.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from mha_cli.config.settings import TextConfig
from mha_cli.labelling.next_texts import cosines, representatives, same_text
from mha_cli.runtime.encoder_features import EncoderFeatures
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.text.tokenizer import make_tokenizer

MOST_COMPARED = 4_000  # texts, drawn at random from more: each is compared with each
BUCKETS = 2**18  # of words by hash, so that texts without any word are features as well: zeros
SAME = 1.0 - 1e-5  # cosine from which on two texts are one


def first_texts(features_NF: Any, number: int, seed: int = 0, known: Sequence[int] = ()) -> list[int]:
    """The rows of up to ``number`` texts, the most typical first; each one covers texts that the ones before do not resemble.

    Args:
        features_NF: features with norm 1, dense or sparse. A text without words has zeros; it is left out, as are repeated texts.
        known: rows of texts that have a label already: they cover others.
    """
    is_open_N = np.asarray(abs(features_NF).sum(axis=1)).ravel() > 0
    is_open_N[[*known]] = False
    rows_K = random_part(np.flatnonzero(is_open_N).tolist(), seed)
    features_KF, chosen = features_NF[rows_K], list[int]()
    nearest_K = cosines(features_KF, features_NF[np.array(known, int)]).max(axis=1, initial=0.0)
    cosines_KK = cosines(features_KF, features_KF)
    for row in representatives(cosines_KK, np.ones(len(rows_K), np.float32), number, nearest_K):
        if max(nearest_K[row], *cosines_KK[row, chosen], 0.0) < SAME:
            chosen.append(row)
    return [rows_K[row] for row in chosen]


def typical_texts(
    texts: Sequence[str],
    number: int,
    known: Iterable[str] = (),
    pretrained: Path | None = None,
    seed: int = 0,
    callbacks: Callbacks = SILENT,
) -> list[int]:
    """The rows of ``first_texts`` by the features of the encoder in a folder, or by the words; ``known`` texts have a label already."""
    covered, rows = {same_text(text): text for text in known}, dict[int, int]()
    for row, text in enumerate(texts):
        if text.strip() and (key := same_text(text)) not in covered:
            rows.setdefault(key, row)
    candidates = random_part([*rows.values()], seed)
    compared = [*(texts[row] for row in candidates), *random_part([*covered.values()], seed)]
    if not candidates:
        return []
    if pretrained is None:
        features_NF = word_features(compared)
    else:
        features_NF = EncoderFeatures(pretrained)(compared, lambda done: callbacks.on_texts(done, len(compared)))
    return [candidates[row] for row in first_texts(features_NF, number, seed, range(len(candidates), len(compared)))]


def random_part(values: Sequence[Any], seed: int) -> list[Any]:
    """The values in random order, at most as many of them as are compared."""
    return [values[at] for at in np.random.default_rng(seed).permutation(len(values))[:MOST_COMPARED]]


def word_features(texts: Iterable[str]) -> Any:
    """Sparse (N, F): the logarithmic TF-IDF of the words that at least two texts share, each row with norm 1, or zeros."""
    counter = HashingVectorizer(
        analyzer=make_tokenizer(TextConfig()), n_features=BUCKETS, alternate_sign=False, norm=None, dtype=np.float32
    )
    words = counter.transform(texts)
    num_texts_F = words.getnnz(axis=0)
    shared = words[:, num_texts_F >= min(2, num_texts_F.max())]
    return TfidfTransformer(sublinear_tf=True).fit_transform(shared)
