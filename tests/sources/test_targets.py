"""Labels as numbers, of one class per text and of several."""

import numpy as np

from mha_cli.sources.held_out import drawn_for_testing
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.targets import class_sizes, has_class, names_in_labels, numbers_of_labels, one_hot, rarest_classes

LISTS = [("a", "b"), (), ("b",), ("b", "c"), ("b",)]
NAMES = ("a", "b", "c")


def test_labels_of_one_class_are_ids() -> None:
    labels = numbers_of_labels(["b", "a", "b"], NAMES)
    assert labels.tolist() == [1, 0, 1] == rarest_classes(labels).tolist()
    assert one_hot(labels, 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert class_sizes(labels, 3).tolist() == [1, 2, 0]
    assert has_class(labels, 1).tolist() == [True, False, True]


def test_lists_of_labels_are_memberships() -> None:
    labels = numbers_of_labels(LISTS, NAMES)
    assert labels.dtype == bool
    assert one_hot(labels, 3).tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 0]]
    assert class_sizes(labels, 3).tolist() == [1, 4, 1]
    assert has_class(labels, 0).tolist() == [True, False, False, False, False]
    assert names_in_labels(LISTS) == ["a", "b", "c"]


def test_a_text_is_dealt_out_by_its_rarest_label() -> None:
    assert rarest_classes(numbers_of_labels(LISTS, NAMES)).tolist() == [0, 3, 1, 2, 1]


def test_a_test_part_leaves_a_text_of_every_label_to_learn_from() -> None:
    rng = np.random.default_rng(0)
    texts = [LabelledText(f"text {number}", tuple(sorted(set(rng.choice(list("abcdefgh"), 2).tolist())))) for number in range(60)]
    texts.append(LabelledText("the only one", ("a", "rare")))
    drawn = drawn_for_testing(texts, 0.3, False, "x.csv")
    learnt = {name for one, tested in zip(texts, drawn, strict=True) if not tested for name in one.label}
    assert 10 < drawn.sum() < 25
    assert learnt == {*"abcdefgh", "rare"}
