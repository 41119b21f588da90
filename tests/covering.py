"""Covering arrays: of a product of factors, few rows in which every pair of values meets; the other rows are marked ``exhaustive``."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*factors: Sequence[Any], valid: Callable[..., bool] = lambda *_: True) -> list[Any]:
    """Every valid row of the product of two factors or more, for ``parametrize``.

    The cover is greedy: the row with most pairs that are still missing, the first of equals, until none is missing.
    """
    rows = [row for row in product(*map(enumerate, factors)) if valid(*(value for _, value in row))]
    pairs = [set(combinations(enumerate(number for number, _ in row), 2)) for row in rows]
    missing, cover = set().union(*pairs), set()
    while missing:
        best = max(range(len(rows)), key=lambda number: len(pairs[number] & missing))
        missing -= pairs[best]
        cover.add(best)
    return [
        pytest.param(*(value for _, value in row), marks=() if number in cover else pytest.mark.exhaustive)
        for number, row in enumerate(rows)
    ]
