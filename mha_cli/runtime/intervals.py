"""Confidence intervals: of a share, and by bootstrap over texts."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from mha_cli.arrays import Array, Float64s, Int64s

DRAWS = 10_000
LEVELS = (0.025, 0.975)  # quantiles at the ends of a 95 % interval
CHUNK_NUMBERS = 1_000_000  # counts that are drawn at once, so that memory does not grow with the texts


def wilson_interval(num_correct: int, num_texts: int) -> tuple[float, float]:
    """95 % confidence interval of an accuracy, or of another share.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".
    """
    share, z = num_correct / num_texts, NormalDist().inv_cdf(LEVELS[1])
    shrunk = 1 + z**2 / num_texts
    centre = (share + z**2 / (2 * num_texts)) / shrunk
    reach = z * math.sqrt(share * (1 - share) / num_texts + z**2 / (4 * num_texts**2)) / shrunk
    return centre - reach if num_correct else 0.0, centre + reach if num_correct < num_texts else 1.0


def sign_test(num_first: int, num_second: int) -> float:
    """The exact two-sided binomial test: probability in [0, 1] of a split at least as uneven if both sides were equally probable."""
    number, fewer = num_first + num_second, min(num_first, num_second)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, number + 1)))])  # of the factorials
    choices = logs[number] - logs[: fewer + 1] - logs[number - fewer :][::-1]
    return min(1.0, 2 * float(np.exp(choices - number * np.log(2)).sum()))


def bootstrap(
    of_texts: Array, seed: int = 0, statistic: Callable[[Array, Int64s], Any] = lambda kinds, drawn: drawn @ kinds / drawn.sum(axis=1)
) -> Float64s:
    """A statistic, by default the mean, of texts that are drawn with replacement, ``DRAWS`` times.

    Args:
        of_texts: numbers of every text, (N,) or (N, F), such as the difference between two systems.
        statistic: function from the distinct rows of these, (K,) or (K, F), and their counts in D draws, (D, K), to figures, (D, …).

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3 (percentile interval).
    """
    kinds, counts = np.unique(of_texts, axis=0, return_counts=True)  # few: how often each is drawn says all about a draw of texts
    rng, shares, most = np.random.default_rng(seed), counts / len(of_texts), max(1, CHUNK_NUMBERS // len(kinds))
    sizes = [min(most, DRAWS - start) for start in range(0, DRAWS, most)]
    return np.concatenate([statistic(kinds, rng.multinomial(len(of_texts), shares, size=size)) for size in sizes])


def interval(draws: Float64s) -> tuple[float, float]:
    """The 95 % interval of a statistic, from its draws."""
    low, high = np.quantile(draws, LEVELS)
    return float(low), float(high)


def auc_error(auc: float, num_positive: float, num_negative: float) -> float:
    """Standard error of an area under the ROC curve.

    Source: Hanley and McNeil 1982, "The Meaning and Use of the Area under a Receiver Operating Characteristic (ROC) Curve".
    """
    variances = (num_positive - 1) * (auc / (2 - auc) - auc**2), (num_negative - 1) * (2 * auc**2 / (1 + auc) - auc**2)
    return math.sqrt((auc * (1 - auc) + sum(variances)) / (num_positive * num_negative))
