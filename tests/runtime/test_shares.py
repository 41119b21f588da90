"""Shares of classes: against the maximum of the likelihood, and on made-up mixtures whose shares are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from mha_cli.arrays import Floats, Int32s
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.runtime import shares
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.shares import Grouping, ShareEstimator, fit_shares
from tests.checkpoints import small_checkpoint
from tests.errors import error_of

PRIOR = np.array([0.5, 0.3, 0.2])


def drawn(rng: np.random.Generator, number: int, of_classes: Floats) -> tuple[Floats, Int32s]:
    """Texts of three overlapping classes, as the exact probabilities under ``PRIOR`` and labels drawn with other shares."""
    labels = rng.choice(3, number, p=of_classes).astype(np.int32)
    points = rng.normal(labels[:, None] == np.arange(3), 0.7)
    densities = np.exp(-0.5 * (((points[:, None] - np.eye(3)) / 0.7) ** 2).sum(axis=2))
    return (densities * PRIOR / (densities * PRIOR).sum(axis=1, keepdims=True)).astype(np.float32), labels


def test_the_shares_have_the_largest_likelihood() -> None:
    probabilities, _ = drawn(np.random.default_rng(0), 500, np.array([0.1, 0.2, 0.7]))
    ratios = probabilities.astype(np.float64) / PRIOR
    best = minimize(lambda logits: -np.log(ratios @ softmax(logits)).sum(), np.zeros(3), tol=1e-12)
    assert fit_shares(probabilities.astype(np.float64), PRIOR) == pytest.approx(softmax(best.x), abs=1e-4)


@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_intervals_hold_the_true_shares_and_counting_does_not(class_weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "DRAWS", 60)
    rng = np.random.default_rng(1)
    model = small_checkpoint(("a", "b", "c"))
    known, labels = drawn(rng, 400, PRIOR)
    if class_weights == "balanced":  # such a model's probabilities are those of equal shares
        model = replace(model, config=model.config.changed(training={"class_weights": "balanced"}))
        known = (known / PRIOR / (known / PRIOR).sum(axis=1, keepdims=True)).astype(np.float32)
    held, wrong, counted_wrong = [], [], []
    for _ in range(20):
        truth = rng.dirichlet((1, 1, 1))
        new, of_new = drawn(rng, 300, truth)
        if class_weights == "balanced":
            new = new / PRIOR / (new / PRIOR).sum(axis=1, keepdims=True)
        estimator = ShareEstimator(replace(model, held_out=HeldOut.of(known, labels)))
        estimator.add(new.tolist())
        (group,) = estimator.groups()
        assert (group.group, group.num_texts) == (None, 300)
        for each in group.classes:
            real = float((of_new == "abc".index(each.name)).mean())
            held.append(each.interval[0] <= real <= each.interval[1])
            wrong.append(abs(each.share - real))
            counted_wrong.append(abs(each.counted / 300 - real))
    assert np.mean(held) > 0.85
    assert np.mean(wrong) < 0.6 * np.mean(counted_wrong)


def test_several_labels_are_estimated_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "DRAWS", 30)
    rng = np.random.default_rng(2)
    (one, of_one), (two, of_two) = (drawn(rng, 500, PRIOR) for _ in range(2))
    known, labels = np.stack([one[:, 0], two[:, 1]], axis=1), np.stack([of_one == 0, of_two == 1], axis=1)
    model = replace(small_checkpoint(("x", "y"), task="multi-label"), held_out=HeldOut.of(known, labels))
    (one, of_one), (two, of_two) = drawn(rng, 400, np.array([0.9, 0.05, 0.05])), drawn(rng, 400, np.array([0.8, 0.1, 0.1]))
    estimator = ShareEstimator(model)
    estimator.add(np.stack([one[:, 0], two[:, 1]], axis=1).tolist())
    found = {each.name: each for each in estimator.groups()[0].classes}
    assert found["x"].share == pytest.approx((of_one == 0).mean(), abs=0.05)
    assert found["y"].share == pytest.approx((of_two == 1).mean(), abs=0.05)


def test_groups_are_estimated_alone_and_in_order() -> None:
    model = replace(small_checkpoint(), held_out=HeldOut.of(np.array([[0.9, 0.1], [0.2, 0.8]], np.float32), np.array([0, 1], np.int32)))
    estimator = ShareEstimator(model)
    for group, probability in (("b", 0.9), ("a", 0.1), ("b", 0.9)):
        estimator.add([[1 - probability, probability]], group)
    assert [(each.group, each.num_texts, each.classes[0].name) for each in estimator.groups()] == [("a", 1, "neg"), ("b", 2, "pos")]


def test_a_class_that_no_held_out_text_looks_like() -> None:
    held_out = HeldOut.of(np.array([[0.7, 0.3, 0], [0.2, 0.8, 0]], np.float32), np.array([0, 1], np.int32))
    estimator = ShareEstimator(replace(small_checkpoint(("a", "b", "c")), held_out=held_out))
    estimator.add([[0.0, 0.0, 1.0]] * 5 + [[1.0, 0.0, 0.0]] * 5)
    found = {each.name: each.share for each in estimator.groups()[0].classes}
    assert found == pytest.approx({"a": 0.5, "b": 0, "c": 0.5}, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "period", "group"),
    [
        ("2026-11-29", "day", "2026-11-29"),
        (" 2026-11-29T23:59:00Z", "month", "2026-11"),
        ("2027-01-01", "week", "2026-W53"),
        ("2026-11-29 10:00", "year", "2026"),
    ],
)
def test_periods(value: str, period: shares.Period, group: str) -> None:
    assert Grouping.parse(f"seen:at:{period}") == ("seen:at", period)
    assert Grouping("seen:at", period).group_of(value, 1) == group
    assert Grouping.parse("seen:at").group_of(value, 1) == value.strip()


def test_no_date_and_no_text() -> None:
    for value in ("29.11.2026", "2026-11-291", "2026-11-29garbage"):
        message = f'record 3, column "at": "{value}" is no date; write dates like 2026-11-29, or group by the values without :month'
        assert error_of(Grouping("at", "month").group_of, value, 3) == message
    assert Grouping("at", "month").group_of(None, 3) == "(empty)"
    model = replace(small_checkpoint(), held_out=HeldOut.of(np.array([[0.9, 0.1]], np.float32), np.array([0], np.int32)))
    assert error_of(Classifier(model).shares, []) == "no text; give some"
    assert sum(each.share for each in Classifier(model).shares(["the film", "superb"])) == pytest.approx(1)
    problem = "this model: holds no probabilities of held-out texts; name labelled texts that it has not learnt from with --data FILE"
    assert error_of(Classifier(small_checkpoint()).shares, ["a"]) == problem
