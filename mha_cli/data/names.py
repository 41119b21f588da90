"""Groups of texts that speak of the same thing, by the rare names that they share.

Texts of one film name the same people. A model that has read some of them knows more about the others than it will know about films
that are new to it, so a validation part drawn at random flatters it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mha_cli.data.batches import Rows

SAME_SUBJECT = 0.25
"""Cosine similarity of names above which two texts are taken to speak of the same."""

COMMON = 60
"""Texts that a name may stand in; a more common one says nothing."""

MOST_TOGETHER = 60
LEAST_TOGETHER = 4
"""Texts of the smallest group that is held out: a smaller one may be part of a larger one unseen."""

CHUNK_TEXTS = 1_000

_NAME = re.compile(r"(?<![.!?]\s)\b[A-Z][a-zA-Z']{2,}\b")


def names_in(text: str) -> list[str]:
    """Capitalised words of three letters or more, all of A to Z, but those that follow ``.``, ``!`` or ``?`` and a space.

    So the first word of a text, or after a bracket, a quotation mark or ``<br />``, counts as a name; a name with an accent does not.
    """
    return _NAME.findall(text)


def groups_by_names(names: Sequence[Sequence[str]]) -> Rows:
    """A group number for every text, (N,): linked by similar names, the most similar first, in groups of limited size.

    Args:
        names: names in every text.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    groups, sizes = list(range(len(names))), [1] * len(names)

    def group_of(row: int) -> int:
        while groups[row] != row:
            groups[row] = groups[groups[row]]
            row = groups[row]
        return row

    num_texts = Counter(name for of_text in names for name in set(of_text))
    if not any(2 <= number <= COMMON for number in num_texts.values()):
        return np.arange(len(names))
    vectors = TfidfVectorizer(analyzer=list, min_df=2, max_df=COMMON, sublinear_tf=True).fit_transform(names)
    links = []
    for start in range(0, len(names), CHUNK_TEXTS):
        similar = (vectors[start : start + CHUNK_TEXTS] @ vectors.T).tocoo()
        strong = (similar.data > SAME_SUBJECT) & (similar.row + start < similar.col)
        links.append(np.stack([similar.data[strong], similar.row[strong] + start, similar.col[strong]]))
    _, first, second = (all_links := np.concatenate(links, axis=1))[:, np.argsort(-all_links[0], kind="stable")]
    for one, other in zip(first.astype(int), second.astype(int), strict=True):
        a, b = group_of(one), group_of(other)
        if a != b and sizes[a] + sizes[b] <= MOST_TOGETHER:
            groups[b] = a
            sizes[a] += sizes[b]
    return np.array([group_of(row) for row in range(len(names))])


def held_out_groups(groups: Rows, share: float, seed: int) -> Rows:
    """Rows of whole groups, drawn at random among those large enough, until they hold the given share of all texts; sorted."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(counts >= LEAST_TOGETHER))
    wanted = np.searchsorted(np.cumsum(counts[order]), share * len(groups)) + 1
    return np.flatnonzero(np.isin(inverse, order[:wanted]))
