"""The test part of texts that come in one file: drawn from the texts themselves, so that every training leaves out the same."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from mha_cli.data.labelled_text import LocatedText
from mha_cli.data.names import groups_by_names, held_out_groups, names_in
from mha_cli.errors import MhaError, plural, shown_path


def drawn_for_testing(
    texts: Iterable[LocatedText], share: float, by_names: bool, name: str, by_groups: bool = False
) -> npt.NDArray[np.bool_]:
    """Whether each text belongs to the test part, (N,).

    Equal texts are on one side. Each class gives its share of distinct texts: those with the lowest digest. So neither a seed nor the order
    of the texts matters, and further texts move few of the others. Every class keeps a text to learn from.

    Args:
        texts: labelled texts, N.
        share: share of the distinct texts to draw, in (0, 1).
        by_names: True to draw whole groups of texts that share rare names, of any class.
        name: source in words, for messages.
        by_groups: True to draw whole groups, by ``part`` of the texts.
    """
    class_ids, names = dict[str, int](), dict[int, list[str]]()
    digests, label_numbers = array("Q"), array("i")
    for located in texts:
        one = located.labelled
        unit = str(located.part) if by_groups else one.text
        digests.append(int.from_bytes(blake2b(unit.encode(), digest_size=8).digest()))
        label_numbers.append(class_ids.setdefault(one.label, len(class_ids)))
        if by_names and not by_groups:
            names.setdefault(digests[-1], names_in(one.text))
    labels = np.frombuffer(label_numbers, np.int32) if label_numbers else np.zeros(0, np.int32)
    distinct, first, text_of = np.unique(np.array(digests, np.uint64), return_index=True, return_inverse=True)
    drawn_texts = np.zeros(len(distinct), bool)
    if by_groups:
        drawn_texts[: round(share * len(distinct))] = True  # those with the lowest digests
    elif by_names:
        drawn_texts[held_out_groups(groups_by_names([names[digest] for digest in distinct.tolist()]), share, seed=0)] = True
    else:
        order = np.argsort(labels[first], kind="stable")  # by class; within one, by digest
        sizes = np.bincount(labels[first], minlength=len(class_ids))
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
