"""Which reviews make a step: batches of similar length, so that little is padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

POOL_BATCHES = 50
"""Batches whose reviews are sorted by length together: enough to leave little padding, few enough to keep chance in the order."""

SCORING_TOKENS = 16_384
"""Tokens of a batch, padding included, when only scoring."""


def training_batches(lengths: npt.NDArray[np.int64], batch_size: int, rng: np.random.Generator) -> list[Rows]:
    """Every review once, in batches of similar length, in random order.

    Args:
        lengths: tokens of each review, (N,).
        batch_size: reviews in a batch; the last ones of a pool may make a smaller one.
        rng: source of chance; same state, same batches.
    """
    order = rng.permutation(len(lengths))
    batches: list[Rows] = []
    for start in range(0, len(order), batch_size * POOL_BATCHES):
        pool = order[start : start + batch_size * POOL_BATCHES]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [batches[index] for index in rng.permutation(len(batches))]


def scoring_batches(lengths: npt.NDArray[np.int64]) -> Iterator[Rows]:
    """Every review once, the shortest first, about ``SCORING_TOKENS`` tokens a batch."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * max(1, int(lengths[order[stop]])) <= SCORING_TOKENS:
            stop += 1
        yield order[start:stop]
        start = stop
