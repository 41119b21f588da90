"""The regularization against a search by hand: scikit-learn's other solver, every C there is, folds dealt out one text at a time."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from sklearn.svm import LinearSVC

from mha_cli.arrays import Floats, Int32s
from mha_cli.linear import one_vs_rest, regularization
from mha_cli.linear.one_vs_rest import Examples, Regularization
from mha_cli.linear.regularization import CHOICE_FOLDS, STEP, USUAL_SCALE, choose_regularization, usual_c
from mha_cli.linear.stacking import SCALE_SPREAD
from mha_cli.sources.targets import one_hot
from tests.linear.test_one_vs_rest import counted_weights

BUCKETS = 40
SEED = 3


def texts_of(num_texts: int, num_classes: int, noise: float) -> tuple[Floats, Int32s]:
    """A feature of its class in each text, among some that are of none; four labels of ten are drawn anew where there is noise."""
    rng = np.random.default_rng(1)
    labels = rng.integers(num_classes, size=num_texts).astype(np.int32)
    features = np.where(rng.random((num_texts, BUCKETS)) < noise, rng.uniform(0.1, 1.0, (num_texts, BUCKETS)), 0)
    own = BUCKETS // num_classes
    features[np.arange(num_texts), labels * own + rng.integers(own, size=num_texts)] = 1.0
    wrong = rng.random(num_texts) < (0.4 if noise else 0.0)
    labels[wrong] = rng.integers(num_classes, size=wrong.sum())
    return features.astype(np.float32), labels


def choose(features: Any, labels: Int32s, num_classes: int) -> Regularization:
    return choose_regularization(Examples(csr_matrix(features), labels, num_classes, np.ones(len(labels), np.float32)), SEED)


def folds_by_hand(labels: Int32s, num_classes: int) -> list[int]:
    order = np.random.default_rng(SEED).permutation(len(labels)).tolist()
    dealt = [row for label in range(num_classes) for row in order if labels[row] == label]
    return [dealt.index(row) % CHOICE_FOLDS for row in range(len(labels))]


def judged_by_hand(features: Floats, labels: Int32s, num_classes: int, c: float) -> tuple[float, float]:
    """Loss and scale of a C on the folds that have not taught."""
    folds, logits = np.array(folds_by_hand(labels, num_classes)), np.zeros((len(labels), num_classes))
    for fold in range(CHOICE_FOLDS):
        own, others = folds == fold, folds != fold
        scale = counted_weights(features[others], one_hot(labels[others], num_classes))
        weighed = features * scale
        weighed /= np.sqrt((weighed[others] ** 2).sum(axis=1).mean())
        for class_id in [1] if num_classes == 2 else range(num_classes):
            theirs = LinearSVC(C=c, dual=False, tol=1e-8, max_iter=1_000_000).fit(weighed[others], labels[others] == class_id)
            logits[own, class_id] = theirs.decision_function(weighed[own])
    rows = np.arange(len(labels))

    def loss(x: float) -> float:
        said = -log_softmax(USUAL_SCALE * np.exp(x) * logits, axis=1)[rows, labels].mean()
        return float(said + 0.5 * (x / SCALE_SPREAD) ** 2 / len(labels))

    found = minimize_scalar(loss, bounds=(-3, 3), method="bounded")
    return float(found.fun), USUAL_SCALE * float(np.exp(found.x))


@pytest.mark.parametrize(
    ("num_texts", "num_classes", "noise", "steps"), [(150, 3, 0.5, {-2, -1}), (300, 4, 0.0, {1, 2}), (90, 2, 0.1, {-2, -1, 0, 1, 2})]
)
def test_what_other_folds_say_decides(
    num_texts: int, num_classes: int, noise: float, steps: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_vs_rest, "TOLERANCE", 1e-8)
    features, labels = texts_of(num_texts, num_classes, noise)
    found = choose(features, labels, num_classes)
    candidates = {step: judged_by_hand(features, labels, num_classes, usual_c(num_texts) * STEP**step) for step in range(-2, 3)}
    best = min(candidates, key=lambda step: candidates[step][0])
    assert best in steps
    assert found.c == pytest.approx(usual_c(num_texts) * STEP**best)
    assert found.scale == pytest.approx(candidates[best][1], rel=0.02)


def test_of_many_texts_three_folds_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regularization, "MOST_IN_FOLD", 20)
    features, labels = texts_of(90, 3, 0.1)
    order = np.random.default_rng(SEED).permutation(90)
    fold = dict(zip(order[np.argsort(labels[order], kind="stable")].tolist(), np.arange(90) % 5, strict=True))
    expected = choose(features, labels, 3)
    for seen in (False, True):
        changed = features.copy()
        changed[[row for row in range(90) if (fold[row] < CHOICE_FOLDS) == seen]] = 1.0
        assert (choose(changed, labels, 3) == expected) != seen


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2], [1, 1, 1, 1], [0, 0, 1, 2, 3, 4]])
def test_a_handful_of_texts_has_a_regularization_near_the_usual_one(labels: list[int]) -> None:
    found = choose(np.eye(len(labels), 7, dtype=np.float32), np.array(labels, np.int32), max(2, *labels) + 1)
    assert usual_c(len(labels)) / 10 < found.c < usual_c(len(labels)) * 10
    assert USUAL_SCALE / 5 < found.scale < USUAL_SCALE * 5


def test_some_of_many_labels_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    features, classes = texts_of(150, 3, 0.3)
    labels = classes[:, None] == np.arange(3)
    monkeypatch.setattr(regularization, "CHOICE_LABELS", 2)
    found = choose(features, labels, 3)
    assert found in [choose(features, labels[:, pair], 2) for pair in ([0, 1], [0, 2], [1, 2])]
    monkeypatch.undo()
    assert found != choose(features, labels, 3)
