import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.runtime import intervals
from mha_cli.runtime.intervals import auc_error, bootstrap, interval, wilson_interval

SHARES = [0.06, 0.04, 0.7, 0.12, 0.08]  # of texts by the difference between two systems on them

DIFFERENCES = np.array([-1.0, -1 / 3, 0.0, 1 / 3, 1.0])


def test_the_interval_is_that_of_drawing_texts() -> None:
    ahead = np.random.default_rng(1).choice(DIFFERENCES, size=397, p=SHARES)
    theirs = scipy.stats.bootstrap((ahead,), np.mean, n_resamples=10_000, method="percentile", rng=2).confidence_interval
    assert interval(bootstrap(ahead)) == pytest.approx(theirs, abs=0.003)


def test_the_draws_are_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = np.random.default_rng(1).choice(DIFFERENCES, size=101, p=SHARES)
    whole = bootstrap(ahead, seed=5)
    assert len(whole) == intervals.DRAWS
    monkeypatch.setattr(intervals, "CHUNK_NUMBERS", 5 * 37)
    np.testing.assert_array_equal(bootstrap(ahead, seed=5), whole)
    assert not np.array_equal(bootstrap(ahead, seed=6), whole)


@given(st.integers(1, 30_000), st.floats(0, 1))
def test_the_accuracy_interval_by_hand(num_texts: int, share: float) -> None:
    num_correct = round(share * num_texts)
    accuracy, z = num_correct / num_texts, 1.959963984540054
    centre = (accuracy + z * z / (2 * num_texts)) / (1 + z * z / num_texts)
    half = z / (1 + z * z / num_texts) * math.sqrt(accuracy * (1 - accuracy) / num_texts + z * z / (4 * num_texts**2))
    low, high = wilson_interval(num_correct, num_texts)
    assert (low, high) == (pytest.approx(centre - half, abs=1e-9), pytest.approx(centre + half, abs=1e-9))
    assert 0 <= low <= accuracy <= high <= 1


def test_the_error_of_an_area_is_that_of_exponential_scores() -> None:
    """For which the formula is exact; by chance it is that of Mann and Whitney's test."""
    rng, auc = np.random.default_rng(0), 0.83
    positive, negative = rng.exponential(auc / (1 - auc), (5_000, 23, 1)), rng.exponential(1, (5_000, 1, 31))
    areas = (positive > negative).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(auc, abs=0.003)
    assert auc_error(auc, 23, 31) == pytest.approx(areas.std(), rel=0.03)
    assert auc_error(0.5, 13, 7) == pytest.approx(math.sqrt((13 + 7 + 1) / (12 * 13 * 7)))
