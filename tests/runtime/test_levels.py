"""Labels in levels, against sets of nodes that are made and counted one by one."""

import numpy as np
import pytest

from mha_cli.arrays import Floats
from mha_cli.runtime.levels import Levels, best_threshold, hierarchical_scores

TREES = {
    "even": ["a > b", "a > c", "d>e", "d > f", "d > g"],
    "of one level": ["a", "b", "c"],
    "deep, with classes that have others below them": ["a", "a > b", "a > b > c", "a > d", "e", "f > g > h > i", "f > g"],
    "names that come again": ["x > x", "x > y", "y > x", "y > y > x", "x > x > x"],
}


def random_probabilities(number: int, num_texts: int = 40) -> Floats:
    return np.random.default_rng(number).dirichlet(np.full(number, 0.3), num_texts).astype(np.float32)


def prefixes(name: str) -> list[tuple[str, ...]]:
    path = tuple(part.strip() for part in name.split(">"))
    return [path[:depth] for depth in range(1, len(path) + 1)]


@pytest.mark.parametrize("names", TREES.values(), ids=TREES)
def test_a_node_has_the_probability_of_what_is_below_it(names: list[str]) -> None:
    levels, probabilities = Levels(names, ">"), random_probabilities(len(names))
    found = levels.probabilities(probabilities)
    for number, path in enumerate(levels.paths):
        is_class_alone = levels.depths[number] > len(path)  # a class that has others below it, without these
        below = [prefixes(name)[-1] == path if is_class_alone else path in prefixes(name) for name in names]
        np.testing.assert_allclose(found[:, number], probabilities[:, below].sum(axis=1), atol=1e-6)
    assert {prefix for name in names for prefix in prefixes(name)} == {*levels.paths}
    assert [levels.names[number] for number in levels.node_of_class] == names


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 0.7, 0.95])
@pytest.mark.parametrize("names", TREES.values(), ids=TREES)
def test_the_finest_node_that_is_sure_enough(names: list[str], threshold: float) -> None:
    levels, probabilities = Levels(names, ">"), random_probabilities(len(names))
    of_nodes = levels.probabilities(probabilities)
    for row, found in zip(of_nodes, levels.finest(of_nodes, threshold), strict=True):
        reach = {number for number in range(len(row)) if row[number] >= threshold} or {int(row[levels.depths == 1].argmax())}
        finest = {number for number in reach if not any(levels.parents[other] == number for other in reach)}
        assert found in finest
        assert row[found] == max(row[number] for number in finest)
    if threshold == 0.0:
        np.testing.assert_array_equal(levels.finest(of_nodes, 0.0), levels.node_of_class[probabilities.argmax(axis=1)])


@pytest.mark.parametrize("names", TREES.values(), ids=TREES)
def test_one_level(names: list[str]) -> None:
    levels, probabilities = Levels(names, ">"), random_probabilities(len(names))
    of_nodes = levels.probabilities(probabilities)
    for level in range(1, levels.depth + 1):
        sums = dict[tuple[str, ...], Floats]()
        for name, column in zip(names, probabilities.T, strict=True):
            sums[prefixes(name)[:level][-1]] = sums.get(prefixes(name)[:level][-1], 0.0) + column
        if level == 1:
            best = [list(sums)[row] for row in np.argmax([*sums.values()], axis=0)]
            assert [levels.paths[node] for node in levels.at_level(of_nodes, 1)] == best
        assert (levels.depths[levels.at_level(of_nodes, level)] <= level).all()
    np.testing.assert_array_equal(levels.at_level(of_nodes, levels.depth), levels.node_of_class[probabilities.argmax(axis=1)])


@pytest.mark.parametrize("names", TREES.values(), ids=TREES)
def test_hierarchical_scores(names: list[str]) -> None:
    levels, rng = Levels(names, ">"), np.random.default_rng(1)
    answers, truth = (rng.integers(0, len(levels.names), 50) for _ in range(2))
    sets = [[{*prefixes(levels.names[node])} for node in nodes] for nodes in (answers, truth)]
    common = sum(len(one & other) for one, other in zip(*sets, strict=True))
    precision, recall = (common / sum(map(len, of_texts)) for of_texts in sets)
    np.testing.assert_allclose(
        hierarchical_scores(levels, answers, truth), (precision, recall, 2 * precision * recall / (precision + recall))
    )


def test_the_best_threshold() -> None:
    """Classes below one node that the model confuses are worth less than the node."""
    levels = Levels(["a > b", "a > c", "d > e", "d > f"], ">")
    labels = np.random.default_rng(0).integers(0, 4, 400).astype(np.int32)
    probabilities = np.full((400, 4), 0.02, np.float32)
    probabilities[np.arange(400), labels] = probabilities[np.arange(400), labels ^ 1] = 0.48
    probabilities[np.arange(400), labels ^ 1] += 0.01
    assert best_threshold(levels, probabilities, labels) > 0.49
    probabilities[np.arange(400), labels] += 0.5
    assert best_threshold(levels, probabilities, labels) == 0.0


def test_empty_levels_are_none() -> None:
    levels = Levels(["/a/b", "/a/c/", "d//e", "f"], "/")
    assert [*zip(levels.names, levels.paths, strict=True)] == [
        ("/a", ("a",)),
        ("d", ("d",)),
        ("f", ("f",)),
        ("/a/b", ("a", "b")),
        ("/a/c/", ("a", "c")),
        ("d//e", ("d", "e")),
    ]
