"""The linear model against plain Python, and against scikit-learn's other solver."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from mha_cli.arrays import Bools, Float64s, Floats, Int32s, Int64s
from mha_cli.linear import dual_descent, one_vs_rest
from mha_cli.linear.features import NgramEmbeddings
from mha_cli.linear.one_vs_rest import Examples, LinearModel, Regularization, feature_weights, fit_one_vs_rest, log_odds_ratios
from mha_cli.sources.targets import one_hot
from tests.linear.test_dual_descent import stored

NUM_TEXTS, BUCKETS = 61, 23
REGULARIZATION = Regularization(c=2.5, scale=1.7)
UNUSED = 11  # a bucket that no text has


def random_features(num_classes: int, num_texts: int = NUM_TEXTS) -> tuple[Floats, Int32s]:
    """Few n-grams a text, of which the first tell its class, mostly; every seventh text has none."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_texts).astype(np.int32)
    features = np.where(rng.random((num_texts, BUCKETS)) < 0.2, rng.uniform(0.1, 1, (num_texts, BUCKETS)), 0)
    said = np.where(rng.random(num_texts) < 0.2, rng.integers(0, num_classes, num_texts), labels)
    features[np.arange(num_texts), said] = 0.9
    features[:, UNUSED], features[::7] = 0, 0
    return features.astype(np.float32), labels


def fit(
    features: Any, labels: Int32s, num_classes: int, weights: Floats | None = None, embeddings: NgramEmbeddings | None = None
) -> LinearModel:
    weights = np.ones(len(labels), np.float32) if weights is None else weights
    return fit_one_vs_rest(Examples(csr_matrix(features), labels, num_classes, weights, embeddings), REGULARIZATION)


def ratios_by_hand(features: Floats, labels: Int32s, class_id: int, num_classes: int) -> list[float]:
    """As many texts of the usual mix as there are classes, three at most, are added to those that have a feature."""
    prior = min(num_classes, 3)
    share = sum(label == class_id for label in labels) / len(labels)
    ratios = []
    for column in features.T:
        within = prior * share + sum(1 for x, label in zip(column, labels, strict=True) if x and label == class_id)
        others = prior * (1 - share) + sum(1 for x, label in zip(column, labels, strict=True) if x and label != class_id)
        ratios.append(math.log((within / others) / (share / (1 - share))))
    return ratios


def weights_by_hand(features: Floats, labels: Int32s, num_classes: int) -> list[float]:
    ratios = [ratios_by_hand(features, labels, class_id, num_classes) for class_id in range(num_classes)]
    shares = [sum(label == class_id for label in labels) / len(labels) for class_id in range(num_classes)]
    weights = []
    for bucket, column in enumerate(features.T):
        frequency = math.log((1 + len(labels)) / (1 + np.count_nonzero(column))) + 1
        distance = math.sqrt(sum(share * of_class[bucket] ** 2 for share, of_class in zip(shares, ratios, strict=True)))
        weights.append(frequency * math.sqrt(distance))
    return weights


def counted_weights(features: Floats, has_class: Any) -> Float64s:
    """The module's weights of features, (F,), by the classes of each text, (N, C)."""
    has_feature = (features > 0).astype(float)
    return feature_weights(has_feature.sum(axis=0), has_class.T @ has_feature, has_class.mean(axis=0), len(features))


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_weights_and_ratios_are_those_of_the_formulas(num_classes: int) -> None:
    features, labels = random_features(num_classes)
    features = np.delete(features, UNUSED, axis=1)
    presence = features > 0
    for class_id in range(num_classes):
        of_class = labels == class_id
        found = log_odds_ratios(presence[of_class].sum(axis=0), presence.sum(axis=0), of_class.mean(), min(num_classes, 3))
        np.testing.assert_allclose(found, ratios_by_hand(features, labels, class_id, num_classes), rtol=1e-12)
    found = counted_weights(features, one_hot(labels, num_classes))
    np.testing.assert_allclose(found, weights_by_hand(features, labels, num_classes), rtol=1e-6)


@pytest.mark.parametrize(("weighted", "embedded"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_scores_are_those_of_another_solver(num_classes: int, weighted: bool, embedded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_vs_rest, "TOLERANCE", 1e-8)
    features, labels = random_features(num_classes)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 3, NUM_TEXTS).astype(np.float32) if weighted else None
    known = NgramEmbeddings(np.array([0, 2, 3, UNUSED, 17]), rng.normal(size=(5, 7)).astype(np.float32)) if embedded else None
    model = fit(features, labels, num_classes, weights, known)
    units = [1] if num_classes == 2 else range(num_classes)
    assert (model.table.shape, model.table.dtype, model.bias.dtype) == ((BUCKETS, len(units)), np.float32, np.float32)
    scale = np.insert(weights_by_hand(np.delete(features, UNUSED, axis=1), labels, num_classes), UNUSED, 0.0)
    weighed = features * scale
    weighed /= np.sqrt((weighed**2).sum(axis=1).mean())
    if known:
        sums = features[:, known.buckets] @ known.table
        sums -= sums.mean(axis=0)
        weighed = np.hstack([weighed, sums / np.sqrt((sums**2).sum(axis=1).mean())])
    for unit, class_id in enumerate(units):
        theirs = LinearSVC(C=REGULARIZATION.c, dual=False, tol=1e-10, max_iter=1_000_000)
        theirs.fit(weighed, labels == class_id, weights)
        ours = features @ model.table[:, unit] + model.bias[unit]
        np.testing.assert_allclose(ours, REGULARIZATION.scale * theirs.decision_function(weighed), atol=2e-4)
    assert model.table[UNUSED].any() == embedded  # its embedding, learnt from texts without labels, tells its weight


@pytest.mark.parametrize(
    ("num_classes", "weighted", "embedded", "several"),
    [(2, False, False, False), (3, True, False, False), (2, False, True, False), (3, False, False, True)],
)
def test_features_on_disk_give_the_same_model(
    num_classes: int, weighted: bool, embedded: bool, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_vs_rest, "TOLERANCE", 1e-8)
    monkeypatch.setattr(dual_descent, "PASSES", 150)
    features, labels = random_features(num_classes)
    labels = labels[:, None] != np.arange(num_classes) if several else labels
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 3, NUM_TEXTS).astype(np.float32) if weighted else np.ones(NUM_TEXTS, np.float32)
    known = NgramEmbeddings(np.array([0, 2, 3, UNUSED, 17]), rng.normal(size=(5, 7)).astype(np.float32), 0.3) if embedded else None
    expected = fit(features, labels, num_classes, weights, known)
    read = features if known is None else np.hstack([features, features[:, known.buckets] @ known.table])
    on_disk = Examples(stored(read, read.shape[1] - BUCKETS), labels, num_classes, weights, known)
    found = fit_one_vs_rest(on_disk, REGULARIZATION)
    np.testing.assert_allclose(found.table, expected.table, atol=1e-3)
    np.testing.assert_allclose(found.bias, expected.bias, atol=1e-3)
    rows = np.arange(NUM_TEXTS) % 3 > 0
    expected = fit(features[rows], labels[rows], num_classes, weights[rows], known)
    np.testing.assert_allclose(fit_one_vs_rest(on_disk.at(rows), REGULARIZATION).table, expected.table, atol=1e-3)


def test_another_fit_gives_the_same_bits_whatever_was_drawn_before() -> None:
    features, labels = random_features(7, 300)
    first = fit(features, labels, 7)
    np.random.default_rng().random()
    LinearSVC(dual=True, random_state=5).fit(features, labels)
    again = fit(features, labels, 7)
    np.testing.assert_array_equal(again.table, first.table)
    np.testing.assert_array_equal(again.bias, first.bias)


@pytest.mark.parametrize("present", [(0, 2), (1,)])
def test_a_class_of_no_text_or_of_every_text_scores_the_margin(present: tuple[int, ...]) -> None:
    features, labels = random_features(3)
    rows = np.isin(labels, present)
    model = fit(features[rows], labels[rows], 3)
    for class_id in range(3):
        learnt = class_id in present and len(present) > 1
        margin = np.float32(REGULARIZATION.scale * (1 if class_id in present else -1))
        assert (model.table[:, class_id].any(), model.bias[class_id] == margin) == (learnt, not learnt)


def test_of_two_classes_one_alone_scores_the_margin() -> None:
    for class_id, side in ((0, -1), (1, 1)):
        model = fit(random_features(2)[0], np.full(NUM_TEXTS, class_id, np.int32), 2)
        assert (model.table.any(), model.bias) == (False, np.float32(REGULARIZATION.scale * side))


def test_texts_without_a_feature_teach_nothing() -> None:
    model = fit(np.zeros((5, BUCKETS), np.float32), np.array([0, 1, 1, 1, 2], np.int32), 3)
    assert not (model.table.any() or model.bias.any())


def test_of_several_labels_each_has_the_model_of_its_own_two_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_vs_rest, "TOLERANCE", 1e-8)
    features, classes = random_features(3)
    labels = np.stack([classes == 0, classes != 1, classes == 2], axis=1)
    fitted = fit(features, labels, 3)
    weights = counted_weights(features, labels)
    weighed = features * np.nan_to_num(weights)  # one bucket never occurs
    weighed /= np.sqrt(np.square(weighed).sum() / NUM_TEXTS)
    assert fitted.table.shape == (BUCKETS, 3)
    for label, is_label in enumerate(labels.T):
        root = np.sqrt(compute_sample_weight("balanced", is_label))
        own = LinearSVC(C=REGULARIZATION.c, tol=1e-8, max_iter=100_000, random_state=1).fit(weighed, is_label, root)
        np.testing.assert_allclose(fitted.logits(features)[:, label], REGULARIZATION.scale * own.decision_function(weighed), atol=1e-3)
    # The feature weights are those of one class per text, but for the two labels that a text may have at once.
    squares = [is_label.mean() * np.square(log_odds_ratios(*counted(features, is_label), is_label.mean(), 3)) for is_label in labels.T]
    frequencies = np.log((1 + NUM_TEXTS) / (1 + (features != 0).sum(axis=0))) + 1
    np.testing.assert_allclose(weights, frequencies * np.sum(squares, axis=0) ** 0.25, rtol=1e-6)


def counted(features: Floats, is_label: Bools) -> tuple[Int64s, Int64s]:
    return (features[is_label] != 0).sum(axis=0), (features != 0).sum(axis=0)


@pytest.mark.parametrize(("num_classes", "on_disk"), [(2, True), (3, False)])
def test_a_text_of_weight_two_is_the_text_twice(num_classes: int, on_disk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_vs_rest, "TOLERANCE", 1e-9)
    monkeypatch.setattr(dual_descent, "PASSES", 50)
    features, labels = random_features(num_classes)
    rng = np.random.default_rng(1)
    times = rng.integers(1, 4, NUM_TEXTS)
    known = NgramEmbeddings(np.array([0, 2, 3, UNUSED, 17]), rng.normal(size=(5, 7)).astype(np.float32), 0.3)

    def fitted(times: Int64s, weights: Floats, repeats: Floats | None) -> LinearModel:
        rows = np.repeat(np.arange(NUM_TEXTS), times)
        read = np.hstack([features, features[:, known.buckets] @ known.table])[rows]
        given = stored(read, 7) if on_disk else csr_matrix(features[rows])
        return fit_one_vs_rest(Examples(given, labels[rows], num_classes, weights, known, repeats), REGULARIZATION)

    weights = times.astype(np.float32)
    weighted = fitted(np.ones_like(times), weights, weights)
    repeated = fitted(times, np.ones(times.sum(), np.float32), None)
    np.testing.assert_allclose(weighted.table, repeated.table, atol=0.02)
    np.testing.assert_allclose(weighted.bias, repeated.bias, atol=0.02)
    alike = fitted(np.ones_like(times), np.ones(NUM_TEXTS, np.float32), None)
    assert np.abs(weighted.table - alike.table).max() > 0.1
