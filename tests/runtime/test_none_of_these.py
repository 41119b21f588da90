from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.runtime.none_of_these import none_of_these
from tests.checkpoints import small_checkpoint
from tests.errors import error_of

CLASSES = ("card", "oos", "rate")


def checkpoint(class_names: tuple[str, ...], held_out: HeldOut | None, **data: object) -> Checkpoint:
    made = small_checkpoint(class_names)
    return replace(made, config=made.config.changed(data={"none_label": "oos", **data}), held_out=held_out)


def held_out_texts(number: int, num_classes: int = 3) -> HeldOut:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([0.3] * num_classes, number).astype(np.float32)
    return HeldOut.of(probabilities, rng.integers(0, num_classes, number).astype(np.int32))


@pytest.mark.parametrize(("number", "answered"), [(211, 0.95), (211, 0.8), (19, 0.95), (18, 0.95)])
def test_the_stated_share_of_new_texts_is_answered(number: int, answered: float) -> None:
    held_out = held_out_texts(number)
    rule = none_of_these(checkpoint(("card", "lost", "rate"), held_out, none_answered=answered))
    assert rule
    num_none = int(rule.are_none(held_out.probabilities).sum())
    assert num_none == max(0, int((number + 1) * (1 - answered) + 1e-9) - 1)
    assert (num_none + 1) / (number + 1) <= 1 - answered or num_none == 0  # of a further text like these, the probability of none


def test_scores_are_entropies() -> None:
    held_out = held_out_texts(31)
    rule = none_of_these(checkpoint(("card", "lost", "rate"), held_out))
    assert rule
    np.testing.assert_allclose(rule.scores(held_out.probabilities), -entropy(held_out.probabilities, axis=1), atol=2e-3)


def test_with_a_class_of_such_texts_the_most_probable_class_decides_as_well() -> None:
    held_out = held_out_texts(211)
    rule = none_of_these(checkpoint(CLASSES, held_out, none_answered=0.5))
    assert rule
    likeliest, of_classes = held_out.probabilities.argmax(axis=1), rule.are_of_classes(held_out.labels)
    assert np.array_equal(of_classes, held_out.labels != 1)
    are_none = rule.are_none(held_out.probabilities)
    assert are_none[likeliest == 1].all()
    assert not are_none[likeliest != 1].all()
    assert are_none[of_classes].mean() == pytest.approx(0.5, abs=0.02)
    assert np.array_equal(rule.are_of_classes(np.array([0, 1, 2, 3])), [True, False, True, False])  # 3: a model without this class


def test_without_held_out_texts_there_is_no_threshold() -> None:
    fault = "this model: data.none_label needs the probabilities of held-out texts, which it does not carry"
    assert error_of(none_of_these, checkpoint(CLASSES, None)).startswith(fault)
    assert none_of_these(small_checkpoint()) is None
