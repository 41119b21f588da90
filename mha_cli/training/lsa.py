"""Embedding tables that start from what the texts have in common: latent semantic analysis.

Words and n-grams that stand in the same texts start out alike, so that those which are rare among the labelled texts say from the
beginning what their neighbours say. It needs no labels.

Source: Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; the singular vectors by Halko, Martinsson and Tropp 2011,
"Finding Structure with Randomness", algorithm 4.4.

Axes: P tokens of some texts, N texts, R rows of both tables (of words, then of n-grams), F of them that are common, D model width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array, vstack

from mha_cli.data.corpus import EncodedReviews
from mha_cli.text.encoding import ids_of
from mha_cli.text.ngrams import ngram_buckets
from mha_cli.text.vocabulary import PADDING_ID, UNKNOWN_ID

LEAST_TEXTS = 5
"""In which a word or n-gram has to stand for a start of its own."""
LARGEST_SHARE = 0.5
"""Of all texts in which it may stand: what stands everywhere tells no text from another."""
POWER_ITERATIONS = 4
CHUNK_TEXTS = 2_000

Floats = npt.NDArray[np.float32]


def start_from_lsa(words_VD: Floats, ngrams_BD: Floats, texts: EncodedReviews, max_ngram: int, seed: int) -> None:
    """Overwrite the rows of common words and n-grams by their singular vectors, with the length that a row has on average.

    Args:
        words_VD: table of words.
        ngrams_BD: table of n-grams by hash; no rows without n-grams.
        texts: all there are, with labels and without.
        max_ngram: longest n-gram.
        seed: of the random start of the singular vectors.
    """
    from sklearn.preprocessing import normalize  # takes a second
    from sklearn.utils.extmath import randomized_svd

    if not len(texts):
        return
    found_NR = _texts_by_rows(texts, len(words_VD), len(ngrams_BD), max_ngram)
    texts_with_R = np.bincount(found_NR.indices, minlength=found_NR.shape[1])
    texts_with_R[[PADDING_ID, UNKNOWN_ID]] = 0
    common_F = np.flatnonzero((texts_with_R >= LEAST_TEXTS) & (texts_with_R <= LARGEST_SHARE * len(texts)))
    width = min(words_VD.shape[1], len(common_F) - 2, len(texts) - 2)  # units beyond stay as they are
    if width < 1:
        return
    weighted_NF = found_NR[:, common_F] @ diags_array(np.log(len(texts) / texts_with_R[common_F]).astype(np.float32))
    _, singular, vectors = randomized_svd(normalize(weighted_NF), n_components=width + 1, n_iter=POWER_ITERATIONS, random_state=seed)
    found_FD = (vectors[1:] * np.sqrt(singular[1:, None])).T  # the first only says how common each is
    usual_length = np.sqrt(np.square(words_VD[:, :width]).sum(axis=1).mean())
    found_FD *= usual_length / np.maximum(np.linalg.norm(found_FD, axis=1, keepdims=True), 1e-9)
    is_word = common_F < len(words_VD)
    words_VD[common_F[is_word], :width] = found_FD[is_word]
    ngrams_BD[common_F[~is_word] - len(words_VD), :width] = found_FD[~is_word]


def _texts_by_rows(texts: EncodedReviews, num_words: int, buckets: int, max_ngram: int) -> Any:
    """Which rows of the two tables each text has, 1 where it does: sparse (N, R)."""
    parts = []
    for start in range(0, len(texts), CHUNK_TEXTS):
        lengths = texts.lengths[start : start + CHUNK_TEXTS]
        token_ids = ids_of(texts.tokens[texts.offsets[start] : texts.offsets[start + len(lengths)]])
        of_token_P = np.repeat(np.arange(len(lengths)), lengths)
        position_P = np.arange(len(token_ids)) - (np.cumsum(lengths) - lengths)[of_token_P]
        found_texts, found_rows = [of_token_P], [token_ids.astype(np.int64)]
        for n in range(2, max_ngram + 1):
            whole_P = position_P >= n - 1  # the others reach back into the text before
            found_texts.append(of_token_P[whole_P])
            found_rows.append(num_words + ngram_buckets(token_ids[None], n, buckets)[0][whole_P].astype(np.int64))
        cells = np.concatenate(found_texts), np.concatenate(found_rows)
        part_NR = csr_array((np.ones(len(cells[0]), np.float32), cells), shape=(len(lengths), num_words + buckets))
        part_NR.data[:] = 1.0  # once a text, however often
        parts.append(part_NR)
    return vstack(parts, format="csr")
