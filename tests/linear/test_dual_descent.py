"""Dual coordinate descent of all classes at once, against LIBLINEAR and against plain Python."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from mha_cli.arrays import Array, Float64s, Floats, Int32s
from mha_cli.corpus.token_store import TokenStore
from mha_cli.linear import dual_descent as module
from mha_cli.linear.dual_descent import dual_descent
from mha_cli.linear.stored_features import StoredFeatures
from mha_cli.system.callbacks import SILENT

NUM_TEXTS, FEATURES, UNITS = 53, 17, 3


def stored(features: Floats, width: int = 0) -> StoredFeatures:
    """Dense features, (N, F), as they are on disk; of the last ``width`` columns zeros are stored as well."""
    rows, columns = np.nonzero((features != 0) | (np.arange(features.shape[1]) >= features.shape[1] - width))
    offsets = np.searchsorted(rows, np.arange(len(features) + 1))
    store = TokenStore([np.stack([columns.astype(np.int32), features[rows, columns].view(np.int32)], axis=1)])
    return StoredFeatures(store, offsets[:-1], offsets[1:], features.shape[1])


def examples() -> tuple[Floats, Int32s, Floats, Floats, Floats]:
    """Features, of which the first tell the class, labels, C of each text, and shift and scale of each feature; text 7 has no feature."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, UNITS, NUM_TEXTS)
    features = np.where(rng.random((NUM_TEXTS, FEATURES)) < 0.3, rng.uniform(0.1, 1, (NUM_TEXTS, FEATURES)), 0)
    features[np.arange(NUM_TEXTS), labels] += rng.random(NUM_TEXTS) < 0.7
    features[7] = 0
    features[:, -1] = np.where(np.arange(NUM_TEXTS) == 7, 0, rng.normal(size=NUM_TEXTS))
    shift = np.where(np.arange(FEATURES) == FEATURES - 1, 0.4, 0)
    c, scale = rng.uniform(0.5, 3, NUM_TEXTS), rng.uniform(0.3, 2, FEATURES)
    return features.astype(np.float32), labels.astype(np.int32), *(values.astype(np.float32) for values in (c, shift, scale))


def test_many_passes_reach_the_optimum_of_another_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PASSES", 250)
    features, labels, c, shift, scale = examples()
    weights, bias = dual_descent(stored(features), labels, UNITS, c, shift, scale, SILENT, "fitting")
    assert (weights.shape, weights.dtype, bias.dtype) == ((FEATURES, UNITS), np.float32, np.float32)
    read = np.where(features != 0, (features - shift) * scale, 0)
    for unit in range(UNITS):
        theirs = LinearSVC(C=1.0, dual=False, tol=1e-10, max_iter=100_000).fit(read, labels == unit, c)
        np.testing.assert_allclose(weights[:, unit], theirs.coef_[0], atol=2e-4)
        np.testing.assert_allclose(bias[unit], theirs.intercept_[0], atol=2e-4)


def test_weights_are_added_to_earlier_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum of a general solver: half the squared norm, and c times the squared hinge of earlier and new margins together."""
    monkeypatch.setattr(module, "PASSES", 500)
    features, labels, c, shift, scale = examples()
    start = np.random.default_rng(4).normal(size=(NUM_TEXTS, UNITS)).astype(np.float32)
    weights, bias = dual_descent(stored(features), labels, UNITS, c, shift, scale, SILENT, "fitting", start)
    read = np.hstack([np.where(features != 0, (features - shift) * scale, 0), np.ones((NUM_TEXTS, 1))])
    for unit in range(UNITS):
        sign, earlier = np.where(labels == unit, 1, -1), start[:, unit]

        def objective(x: Float64s, sign: Array = sign, earlier: Floats = earlier) -> float:
            return float(0.5 * x @ x + c @ np.square(np.maximum(0, 1 - sign * (earlier + read @ x))))

        found = minimize(objective, np.zeros(FEATURES + 1), method="BFGS", options={"gtol": 1e-6}).x
        np.testing.assert_allclose(np.append(weights[:, unit], bias[unit]), found, atol=5e-4)
