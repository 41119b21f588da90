"""Texts that are held out: the test part of a single file, and groups of texts that share rare names.

The test part is drawn from the texts themselves, so that every training leaves out the same. Texts of one film name the same people; a
validation part drawn at random flatters a model, which has learnt of these from other texts.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from mha_cli.arrays import Bools, Int64s
from mha_cli.errors import MhaError, plural, shown_path
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.targets import names_in_labels, numbers_of_labels, rarest_classes

SAME_SUBJECT = 0.25  # cosine similarity of names above which two texts are taken to be about the same
COMMON = 60  # most texts that a name may occur in; a more common name links nothing
MOST_TOGETHER = 60
LEAST_TOGETHER = 4  # texts of the smallest group that is held out; a smaller one may belong to a larger one, unnoticed
CHUNK_TEXTS = 1_000
_NAME = re.compile(r"(?<![.!?]\s)\b[A-Z][a-zA-Z']{2,}\b")


def drawn_for_testing(texts: Iterable[LabelledText], share: float, by_names: bool, name: str, by_groups: bool = False) -> Bools:
    """Whether each text belongs to the test part, (N,).

    Equal texts are on one side. Each class gives its share of distinct texts: those with the lowest digest. So neither a seed nor the order
    of the texts matters, and further texts move few of the others. Every class keeps a text to learn from.

    Args:
        share: share of the distinct texts to draw, in (0, 1).
        by_names: True to draw whole groups of texts that share rare names, of any class.
        by_groups: True to draw whole groups, by ``group`` of the texts.
    """
    label_ids, names = dict[str | tuple[str, ...], int](), dict[int, list[str]]()
    digests, label_numbers = array("Q"), array("i")
    for text in texts:
        unit = str(text.group) if by_groups else text.text
        digests.append(int.from_bytes(blake2b(unit.encode(), digest_size=8).digest()))
        label_numbers.append(label_ids.setdefault(text.label, len(label_ids)))
        if by_names and not by_groups:
            names.setdefault(digests[-1], names_in(text.text))
    labels = rarest_classes(numbers_of_labels(list(label_ids), names_in_labels(label_ids))[np.array(label_numbers, np.int32)])
    distinct, first, text_of = np.unique(np.array(digests, np.uint64), return_index=True, return_inverse=True)
    drawn_texts = np.zeros(len(distinct), bool)
    if by_groups:
        drawn_texts[: round(share * len(distinct))] = True  # those with the lowest digests
    elif by_names:
        drawn_texts[held_out_groups(groups_by_names([names[digest] for digest in distinct.tolist()]), share, seed=0)] = True
    else:
        order = np.argsort(labels[first], kind="stable")  # by class; within one, by digest
        sizes = np.bincount(labels[first])
        of_class = labels[first][order]
        rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[of_class]
        drawn_texts[order] = rank < np.rint(share * sizes)[of_class]
    drawn = drawn_texts[text_of]
    unlearnt = np.setdiff1d(labels, labels[~drawn])
    drawn &= ~np.isin(text_of, text_of[np.isin(labels, unlearnt)])
    if not drawn.any():
        way_out = "take data.validation=random" if by_names else "raise it, or name data.test"
        raise MhaError(f"{shown_path(name)}: data.test_share={share} comes to none of {plural(len(drawn), 'text')}", way_out)
    return drawn


def names_in(text: str) -> list[str]:
    """Capitalised words of three letters or more, all of A to Z, but those that follow ``.``, ``!`` or ``?`` and a space.

    So the first word of a text, or after a bracket, a quotation mark or ``<br />``, counts as a name; a name with an accent does not.
    """
    return _NAME.findall(text)


def groups_by_names(names: Sequence[Sequence[str]]) -> Int64s:
    """A group number for every text, (N,), from its names: linked by similar names, the most similar first, in groups of limited size."""
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
    for row, other in zip(first.astype(int), second.astype(int), strict=True):
        a, b = group_of(row), group_of(other)
        if a != b and sizes[a] + sizes[b] <= MOST_TOGETHER:
            groups[b] = a
            sizes[a] += sizes[b]
    return np.array([group_of(row) for row in range(len(names))])


def held_out_groups(groups: Int64s, share: float, seed: int) -> Int64s:
    """Rows of whole groups, drawn at random among those large enough, until they hold the given share of all texts; sorted."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(counts >= LEAST_TOGETHER))
    wanted = np.searchsorted(np.cumsum(counts[order]), share * len(groups)) + 1
    return np.flatnonzero(np.isin(inverse, order[:wanted]))
