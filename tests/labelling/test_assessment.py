"""What the random texts tell, and no more."""

import numpy as np
import pytest

from mha_cli.labelling.model import FOLDS, LEAST_TEXTS, LEAST_TO_PREDICT, MORE, Assessment, Model, assess, at_more, fit_model, predicted
from mha_cli.runtime.intervals import wilson_interval

RNG = np.random.default_rng(3)


def example(num_texts: int, every: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of three overlapping classes, labels, and which texts are random."""
    labels = np.arange(num_texts, dtype=np.int32) % 3
    features = (np.eye(3, 7)[labels] + RNG.normal(0, 0.6, (num_texts, 7))).astype(np.float32)
    return features, labels, np.arange(num_texts) % every == every - 1


def test_each_random_text_is_judged_by_a_model_of_the_others() -> None:
    features, labels, is_random = example(76, 4)
    known = list[set[int]]()

    def fit(rows: np.ndarray) -> Model | None:
        known.append({*rows.tolist()})
        return fit_model(features[rows], labels[rows], 3)

    found = assess(fit, features, labels, is_random)
    random = np.flatnonzero(is_random)
    expected = 0
    for fold in range(FOLDS):
        held = random[fold::FOLDS]
        others = np.setdiff1d(np.arange(76), held)
        model = fit_model(features[others], labels[others], 3)
        assert model is not None
        expected += int((model.probabilities(features[held]).argmax(axis=1) == labels[held]).sum())
    assert found.accuracy is not None
    assert found.accuracy.accuracy == found.curve[-1][1] == expected / 19
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx(wilson_interval(expected, 19))
    assert ([size for size, _ in found.curve], found.num_labels, found.next_hundred) == ([15, 30, 45, 60, 76], 76, None)
    assert known[-1] == {*range(76)} - {*random[FOLDS - 1 :: FOLDS].tolist()}
    assert max(map(max, known[:FOLDS])) < 15


def test_texts_that_were_chosen_are_not_judged() -> None:
    """All their labels are wrong here, and the model learns nothing of them that matters."""
    features, labels, is_random = example(60, 2)
    labels[~is_random] = (labels[~is_random] + 1) % 3
    found = assess(lambda rows: fit_model(features[rows[is_random[rows]]], labels[rows[is_random[rows]]], 3), features, labels, is_random)
    assert found.accuracy is not None
    assert found.accuracy.accuracy > 0.6


def test_few_random_texts_tell_nothing() -> None:
    features, labels, is_random = example(4 * LEAST_TEXTS - 1, 4)
    assert assess(lambda rows: fit_model(features[rows], labels[rows], 3), features, labels, is_random) == Assessment(num_labels=39)
    one_class = np.zeros_like(labels)
    alone = assess(lambda rows: fit_model(features[rows], one_class[rows], 3), features, one_class, np.ones(39, bool))
    assert alone == Assessment(num_labels=39)


def test_an_answer_with_several_labels_is_right_if_all_are() -> None:
    model = Model(np.eye(2, dtype=np.float32), np.zeros(2, np.float32), several=True)
    features = np.array([[1, 1], [1, -1], [-1, -1]], np.float32)
    assert model.is_right(features, np.array([[1, 1], [1, 1], [0, 0]], bool)).tolist() == [True, False, True]


def test_the_curve_is_an_inverse_power_law() -> None:
    sizes = [40, 80, 120, 160, 200]
    for a, b, c in ((0.9, 0.2, 0.5), (0.75, 0.1, 1.0), (0.6, 0.0, 1.0)):
        accuracies = a - b * (np.array(sizes) / 200) ** -c
        assert at_more(sizes, accuracies) == pytest.approx(a - b * ((200 + MORE) / 200) ** -c, abs=2e-3)


def test_a_prediction_says_how_unsure_it_is() -> None:
    sizes = [40, 80, 120, 160, 200]
    widths = list[float]()
    for num_random in (LEAST_TO_PREDICT, 40 * LEAST_TO_PREDICT):
        right = RNG.random(num_random) < np.array([0.5, 0.6, 0.65, 0.68, 0.7])[:, None]
        found = predicted(sizes, right)
        assert found is not None
        assert found.low <= found.accuracy <= found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 3
    assert predicted(sizes, right[:, : LEAST_TO_PREDICT - 1]) is None
    assert predicted(sizes[1:], right[1:]) is None
