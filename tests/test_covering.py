from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest

from tests.covering import pairwise


def by_default(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [row.values for row in rows if not row.marks]


@pytest.mark.parametrize("sizes", [(4, 5, 2, 6), (3, 3, 3, 3), (2, 7), (1, 1, 1)])
def test_every_pair_meets_in_few_rows_and_the_others_are_exhaustive(sizes: tuple[int, ...]) -> None:
    factors = [[f"{factor}{value}" for value in range(size)] for factor, size in enumerate(sizes)]
    rows = pairwise(*factors)
    assert [row.values for row in rows] == list(product(*factors))
    pairs = {pair for row in by_default(rows) for pair in combinations(row, 2)}
    assert pairs == {pair for one, other in combinations(factors, 2) for pair in product(one, other)}
    *_, second, largest = sorted(sizes)
    assert len(by_default(rows)) <= 1.4 * second * largest


def test_rows_that_are_not_valid_are_left_out() -> None:
    rows = pairwise("abc", [1, 2, 3], [True, False], valid=lambda letter, number, _: letter != "a" or number == 1)
    assert [row.values for row in rows] == [row for row in product("abc", [1, 2, 3], [True, False]) if row[0] != "a" or row[1] == 1]
    assert {row[:2] for row in by_default(rows)} == {("a", 1), *product("bc", [1, 2, 3])}
