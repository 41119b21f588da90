"""Scores against their formulas, and a checkpoint scored end to end."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from mha_cli.analysis.evaluation import accuracy_by, area_under_roc, class_scores, evaluate, most_frequent_confusions, top_3_accuracy
from mha_cli.arrays import Floats, Int32s
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.metrics import calibration_error
from mha_cli.system.callbacks import Callbacks
from tests.checkpoints import small_checkpoint
from tests.errors import error_of
from tests.reviews import encoded


def guesses(num_texts: int, num_classes: int) -> tuple[Floats, Int32s]:
    """Probabilities that have something to do with the labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_texts).astype(np.int32)
    scores = rng.normal(size=(num_texts, num_classes)) + np.eye(num_classes)[labels]
    return (np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("num_classes", [2, 7])
def test_figures_of_answers_with_equal_probabilities_are_those_of_scikit_learn(num_classes: int) -> None:
    probabilities, labels = guesses(211, num_classes)
    probabilities, names = probabilities.round(1), tuple(map(str, range(num_classes)))
    scores = probabilities[:, 1] if num_classes == 2 else np.eye(num_classes)[labels]
    theirs = metrics.roc_auc_score(*((labels, scores) if num_classes == 2 else (scores, probabilities)))
    assert area_under_roc(probabilities, labels) == pytest.approx(theirs)
    assert area_under_roc(probabilities, np.minimum(labels, num_classes - 2)) is None  # a class does not occur
    predicted = probabilities.argmax(axis=1)
    found = [dataclasses.astuple(one)[1:] for one in class_scores(predicted, labels, names)]
    np.testing.assert_allclose(np.transpose(found), metrics.precision_recall_fscore_support(labels, predicted))


@pytest.mark.parametrize("num_classes", [2, 3, 20])
def test_the_calibration_error_against_a_plain_loop(num_classes: int) -> None:
    probabilities, labels = guesses(211, num_classes)
    expected = 0.0
    for bin_number in range(15):
        low, high = bin_number / 15, (bin_number + 1) / 15
        members = [
            (float(row.max()), row.argmax() == label)
            for row, label in zip(probabilities, labels, strict=True)
            if low <= row.max() < high or (bin_number == 14 and row.max() >= 1)
        ]
        if members:
            confidence, correct = np.mean(members, axis=0)
            expected += len(members) / len(labels) * abs(confidence - correct)
    assert calibration_error(probabilities, labels) == pytest.approx(expected, abs=1e-7)


def test_accuracy_by_ranges_whose_upper_ends_belong_to_them() -> None:
    found = accuracy_by([0, 1, 2, 2.5, 7, 8, 9], (2, 4, 6, 8), np.array([True, False, True, False, True, True, False]))
    assert [(one.above, one.up_to, one.num_texts, one.accuracy) for one in found] == [
        (0, 2, 3, pytest.approx(2 / 3)),
        (2, 4, 1, 0),
        (4, 6, 0, None),
        (6, 8, 3, pytest.approx(2 / 3)),  # what lies beyond by a rounding error counts here
    ]


def test_what_would_divide_by_nothing_is_none() -> None:
    scores = class_scores(np.array([0, 0, 1]), np.array([0, 2, 2]), ("found", "answered", "there", "neither"))
    found = {score.name: (score.precision, score.recall, score.f1, score.num_texts) for score in scores}
    assert found == {
        "found": (0.5, 1.0, pytest.approx(2 / 3), 1),
        "answered": (0.0, None, 0.0, 0),
        "there": (None, 0.0, 0.0, 2),
        "neither": (None, None, None, 0),
    }


@pytest.mark.parametrize("num_classes", [6, 20])
def test_the_top_3_accuracy_against_a_plain_loop(num_classes: int) -> None:
    probabilities, labels = guesses(211, num_classes)
    within = [label in sorted(range(num_classes), key=row.__getitem__)[-3:] for row, label in zip(probabilities, labels, strict=True)]
    assert top_3_accuracy(probabilities, labels) == pytest.approx(np.mean(within))
    rare = np.zeros_like(labels)  # not every class has to occur
    assert top_3_accuracy(probabilities, rare) == pytest.approx(np.mean([(row > row[0]).sum() < 3 for row in probabilities]))
    assert top_3_accuracy(*guesses(20, 5)) is None  # three classes are most of them


def test_confusions_come_in_order_and_the_rarer_class_before() -> None:
    found = most_frequent_confusions(np.array([[90, 2, 5], [2, 6, 0], [0, 9, 1]]), ("a", "b", "c"))
    assert [dataclasses.astuple(one) for one in found] == [
        ("c", "b", 9, pytest.approx(9 / 10)),
        ("a", "c", 5, pytest.approx(5 / 97)),
        ("b", "a", 2, pytest.approx(2 / 8)),
        ("a", "b", 2, pytest.approx(2 / 97)),
    ]
    assert most_frequent_confusions(np.array([[3, 0], [0, 0]]), ("a", "b")) == []
    assert len(most_frequent_confusions(np.ones((5, 5), int), tuple("abcde"))) == 15


def test_unknown_words_count_among_those_read() -> None:
    assert evaluate(small_checkpoint(), LabelledTexts("films.csv", "test", encoded([[1, 2], [1]]))).unknown_share == 2 / 3


@pytest.mark.parametrize(("before", "labelled", "told"), [(0.99, 2000, True), (0.99, 200, True), (0.6, 2000, False), (0.99, 0, False)])
def test_an_accuracy_far_below_that_of_the_validation_part_is_told(before: float, labelled: int, told: bool) -> None:
    """The checkpoint is right on half of the texts, whatever it answers."""
    notes: list[str] = []
    checkpoint = dataclasses.replace(small_checkpoint(), metrics={"validation_accuracy": before, "labelled_texts": labelled})
    evaluate(checkpoint, LabelledTexts("films.csv", "test", encoded([[2]] * 40, [0, 1] * 20)), Callbacks(note=notes.append))
    reasons = "these texts may be of another kind or time, have labels by other rules, or the validation part repeats training texts"
    expected = f"films.csv, split test: accuracy 50.0%, and 99.0% on the validation part: {reasons}"
    assert [note for note in notes if "validation part" in note] == [expected] * told


def test_a_table_of_too_many_classes_is_refused() -> None:
    many = dataclasses.replace(small_checkpoint(), class_names=tuple(map(str, range(90_000))))
    labelled = LabelledTexts("films.csv", "test", encoded([[2]]))
    assert error_of(lambda: evaluate(many, labelled)) == (
        "a table of 90,000 by 90,000 classes would take about 194.4 GB of memory; mha takes 2 GB at most; use mha predict"
    )
