"""Groups of reviews that speak of the same thing, by the rare names that they share.

Reviews of one film name the same people. A model that has read some of them knows more about the others than it will know about films
that are new to it, so a validation part drawn at random flatters it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mha_cli.data.batches import Rows

SAME_SUBJECT = 0.25
"""Cosine similarity of names above which two reviews are taken to speak of the same."""

COMMON = 60
"""Reviews that a name may stand in; a more common one says nothing."""

MOST_TOGETHER = 60
LEAST_TOGETHER = 4
"""Reviews of the smallest group that is held out: a smaller one may be part of a larger one unseen."""

CHUNK_REVIEWS = 1_000

_NAME = re.compile(r"(?<![.!?]\s)\b[A-Z][a-zA-Z']{2,}\b")


def names_in(text: str) -> list[str]:
    """Capitalised words of three letters or more, all of A to Z, but those that follow ``.``, ``!`` or ``?`` and a space.

    So the first word of a text, or after a bracket, a quotation mark or ``<br />``, counts as a name; a name with an accent does not.
    """
    return _NAME.findall(text)


def groups_by_names(names: Sequence[Sequence[str]]) -> Rows:
    """A group number for every review, (N,): linked by similar names, the most similar first, in groups of limited size.

    Args:
        names: names in every review.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    groups, sizes = list(range(len(names))), [1] * len(names)

    def group_of(review: int) -> int:
        while groups[review] != review:
            groups[review] = groups[groups[review]]
            review = groups[review]
        return review

    num_texts = Counter(name for of_review in names for name in set(of_review))
    if not any(2 <= number <= COMMON for number in num_texts.values()):
        return np.arange(len(names))
    vectors = TfidfVectorizer(analyzer=list, min_df=2, max_df=COMMON, sublinear_tf=True).fit_transform(names)
    links = []
    for start in range(0, len(names), CHUNK_REVIEWS):
        similar = (vectors[start : start + CHUNK_REVIEWS] @ vectors.T).tocoo()
        strong = (similar.data > SAME_SUBJECT) & (similar.row + start < similar.col)
        links.append(np.stack([similar.data[strong], similar.row[strong] + start, similar.col[strong]]))
    _, first, second = (all_links := np.concatenate(links, axis=1))[:, np.argsort(-all_links[0], kind="stable")]
    for one, other in zip(first.astype(int), second.astype(int), strict=True):
        a, b = group_of(one), group_of(other)
        if a != b and sizes[a] + sizes[b] <= MOST_TOGETHER:
            groups[b] = a
            sizes[a] += sizes[b]
    return np.array([group_of(review) for review in range(len(names))])


def held_out_groups(groups: Rows, share: float, seed: int) -> Rows:
    """Rows of whole groups, drawn at random among those large enough, until they hold the given share of all reviews; sorted."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(counts >= LEAST_TOGETHER))
    wanted = np.searchsorted(np.cumsum(counts[order]), share * len(groups)) + 1
    return np.flatnonzero(np.isin(inverse, order[:wanted]))
