"""Thresholds against a search by hand over everything that a class's answers could be cut to."""

from typing import Literal

import numpy as np
import pytest

from mha_cli.analysis.thresholds import find_thresholds, score_thresholds
from mha_cli.arrays import Floats, Int32s
from mha_cli.runtime.intervals import wilson_interval

NAMES = ("bad", "mixed", "good")


def guesses(num_texts: int, seed: int) -> tuple[Floats, Int32s]:
    """Probabilities that have something to do with the labels, in steps, so that many are equal."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, num_texts).astype(np.int32)
    scores = np.exp(np.round(rng.normal(size=(num_texts, 3)) + 1.5 * np.eye(3)[labels], 1))
    return (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("measure", "share"), [("precision", 0.7), ("precision", 0.9), ("recall", 0.5), ("recall", 0.75)])
def test_the_most_answers_of_a_precision_and_the_fewest_of_a_recall(
    measure: Literal["precision", "recall"], share: float, seed: int
) -> None:
    probabilities, labels = guesses(97, seed)
    scores = find_thresholds(probabilities, labels, NAMES, measure, share)
    assert [score.name for score in scores] == list(NAMES)
    for class_id, score in enumerate(scores):
        answers = [
            (float(row[class_id]), label == class_id) for row, label in zip(probabilities, labels, strict=True) if row.argmax() == class_id
        ]
        of_class = sum(label == class_id for label in labels)
        good: dict[int, float] = {}  # by number of answers, the smallest probability among them
        for least in {size for size, _ in answers}:
            right = [is_right for size, is_right in answers if size >= least]
            if sum(right) / (len(right) if measure == "precision" else of_class) >= share:
                good[len(right)] = least
        assert score.reached == bool(good)
        if not good:
            assert score.threshold == (1 if measure == "precision" else 0)
            continue
        number = max(good) if measure == "precision" else min(good)
        below = max((size for size, _ in answers if size < good[number]), default=0.0)
        between = 0.5 if below < 0.5 < good[number] else (good[number] + below) / 2
        assert score.threshold == pytest.approx(between if below else 0.0)
        kept = [is_right for size, is_right in answers if size >= good[number]]
        assert (score.num_answers, score.num_right, score.num_texts) == (len(kept), sum(kept), of_class)
        assert (score.precision, score.recall) == (sum(kept) / len(kept), sum(kept) / of_class)
        assert score.precision_interval == wilson_interval(sum(kept), len(kept))
        assert score.recall_interval == wilson_interval(sum(kept), of_class)


def test_thresholds_by_hand() -> None:
    sure = np.array([0.9, 0.8, 0.8, 0.7, 0.6], np.float32)
    probabilities, labels = np.stack([sure, 1 - sure, 0 * sure], axis=1), np.array([0, 0, 1, 0, 1], np.int32)
    bad, mixed, good = find_thresholds(probabilities, labels, NAMES, "precision", 0.75)
    assert (bad.threshold, bad.num_answers, bad.num_right, bad.recall) == (pytest.approx(0.65), 4, 3, 1)  # not 1 of 1: that finds less
    assert (mixed.reached, mixed.threshold, mixed.precision, mixed.precision_interval, mixed.recall) == (False, 1, None, None, 0)
    assert (good.reached, good.threshold, good.recall, good.recall_interval) == (False, 1, None, None)
    bad, mixed, good = find_thresholds(probabilities, labels, NAMES, "recall", 0.3)
    assert (bad.threshold, bad.num_answers, bad.precision) == (pytest.approx(0.85), 1, 1)
    assert [(one.reached, one.threshold) for one in (mixed, good)] == [(False, 0), (False, 0)]
    assert find_thresholds(probabilities, labels, NAMES, "precision", 0.6)[0].threshold == 0  # all answers are good enough


def test_what_thresholds_come_to_elsewhere() -> None:
    sure = np.array([0.9, 0.8, 0.75, 0.6], np.float32)
    probabilities, labels = np.stack([sure, 1 - sure], axis=1), np.array([0, 1, 0, 0], np.int32)
    first, second = score_thresholds(probabilities, labels, ("a", "b"), {"a": 0.75})
    assert (first.threshold, first.reached, first.num_answers, first.num_right, first.recall) == (0.75, None, 3, 2, pytest.approx(2 / 3))
    assert (second.threshold, second.num_answers, second.recall) == (0, 0, 0)


def test_a_probability_of_0_may_be_needed() -> None:
    probabilities, labels = np.array([[0.9, 0.2], [0.0, 0.4], [0.0, 0.0]], np.float32), np.array([[1, 1], [1, 1], [0, 0]], bool)
    for score in find_thresholds(probabilities, labels, ("a", "b"), "recall", 1.0):
        assert (score.reached, score.recall, score.threshold) == (True, 1.0, 0.0 if score.name == "a" else pytest.approx(0.1))
    assert find_thresholds(probabilities, labels, ("a", "b"), "recall", 0.5)[0].threshold == 0.5  # as good as every one up to 0.9


def test_rounding_moves_no_text_over_a_threshold() -> None:
    """In float32 the threshold between two neighbours would be one of them."""
    upper, lower = np.float32(0.75), np.nextafter(np.float32(0.75), np.float32(0))
    probabilities = np.array([[upper, 1 - upper], [lower, 1 - lower]], np.float32)
    found = find_thresholds(probabilities, np.array([0, 1], np.int32), ("a", "b"), "precision", 0.95)[0]
    assert float(lower) < found.threshold < float(upper)
    assert found.num_answers == 1
