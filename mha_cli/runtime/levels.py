"""Labels in levels, such as ``hardware > printer > paper``: a tree whose leaves are the classes.

The probability of a node is the sum of those of the classes at it and below it, so that answers of different levels do not contradict each
other.

Axes: N texts, C classes, M nodes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mha_cli.arrays import Array, Bools, Floats, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.sources.labels import levels_in

THRESHOLDS = tuple(number / 20 for number in range(20))  # that are tried; 0 answers with the most probable class
OWN = ""  # last part of a class that has others below it: it is a leaf of its own there


class Node(NamedTuple):
    """A node as the answer to a text."""

    number: int
    name: str  # the beginning of a label
    path: tuple[str, ...]  # the names of its levels
    probability: float


class Levels:
    """The nodes, from the coarsest to the finest, and sorted within a level.

    Args:
        class_names: labels with their levels, from coarse to fine.
        separator: what stands between levels; white space around it does not count.
    """

    def __init__(self, class_names: Sequence[str], separator: str) -> None:
        self.separator, spelt = separator, dict[tuple[str, ...], str]()
        paths = list(map(self.path_of, class_names))
        for name, path in zip(class_names, paths, strict=True):
            parts = name.split(separator)
            ends = [end for end, part in enumerate(parts, 1) if part.strip()]
            spelt |= {path[:depth]: separator.join(parts[:end]).strip() for depth, end in enumerate(ends, 1)}
        spelt |= dict(zip(paths, class_names, strict=True))
        inner = {path[:-1] for path in spelt}
        paths = [(*path, OWN) if path in inner else path for path in paths]
        spelt |= {path: spelt[path[:-1]] for path in paths if path[-1] == OWN}
        nodes = sorted(spelt, key=lambda node: (len(node), node))
        ids = {node: number for number, node in enumerate(nodes)}
        self.names, self.paths = tuple(map(spelt.__getitem__, nodes)), tuple(tuple(filter(None, node)) for node in nodes)
        self.node_of_class = np.array([ids[path] for path in paths])  # (C,)
        self.depths = np.array([len(node) for node in nodes])  # (M,), from 1
        self.depth = len(nodes[-1])  # number of levels
        self.parents = np.array([ids.get(node[:-1], -1) for node in nodes])  # (M,); -1 on the first level
        self._families = [self._families_at(depth) for depth in range(2, self.depth + 1)]

    def path_of(self, name: str) -> tuple[str, ...]:
        """The levels of a label or of its beginning."""
        return levels_in(name, self.separator)

    def probabilities(self, probabilities_NC: Floats) -> Floats:
        """Probabilities of all nodes, (N, M)."""
        of_nodes_NM = np.zeros((len(probabilities_NC), len(self.names)), np.float32)
        np.add.at(of_nodes_NM.T, self.node_of_class, probabilities_NC.T)
        for first, end, parents in reversed(self._families):
            of_nodes_NM[:, parents] += np.add.reduceat(of_nodes_NM[:, :end], first, axis=1)
        return np.minimum(of_nodes_NM, 1.0)

    def finest(self, of_nodes_NM: Floats, threshold: float) -> Int64s:
        """The node of each answer, (N,): of the nodes that reach a threshold and have none below them that does, the most probable.

        Where no node reaches it, the most probable one of the first level.
        """
        reach_NM = of_nodes_NM >= threshold
        reach_NM[:, self.depths == 1] |= ~reach_NM.any(axis=1, keepdims=True)
        finest_NM = reach_NM.copy()
        for first, end, parents in self._families:
            finest_NM[:, parents] &= ~np.logical_or.reduceat(reach_NM[:, :end], first, axis=1)
        return np.asarray(np.where(finest_NM, of_nodes_NM, -1.0).argmax(axis=1))

    def at_level(self, of_nodes_NM: Floats, level: int) -> Int64s:
        """The most probable node of each text at a level, from 1, or at a class that ends above it, (N,)."""
        ends = np.isin(np.arange(len(self.names)), self.parents, invert=True)
        fits = (self.depths == level) | (ends & (self.depths < level))
        return np.asarray(np.where(fits, of_nodes_NM, -1.0).argmax(axis=1))

    def within(self, paths: Sequence[tuple[str, ...]]) -> Bools:
        """Which nodes are at or below some of these, (M,)."""
        nodes = np.arange(len(self.names))
        below = [self.ancestors(nodes, self.depths[node]) == node for node in map(self.paths.index, paths)]
        return np.asarray(np.any(below, axis=0))

    def ancestors(self, nodes: Array, level: int) -> Int64s:
        """The node at a level of each of these nodes, or the node itself where it is coarser, (N,)."""
        nodes = np.array(nodes)
        while (finer := self.depths[nodes] > level).any():
            nodes[finer] = self.parents[nodes[finer]]
        return nodes

    def classes_at(self, node: int) -> list[int]:
        """The classes at a node and below it."""
        return [*np.flatnonzero(self.ancestors(self.node_of_class, self.depths[node]) == node)]

    @property
    def branches(self) -> list[str]:
        """The node of the first level of each class, by its name, (C,)."""
        return [self.names[node] for node in self.ancestors(self.node_of_class, 1)]

    def _families_at(self, depth: int) -> tuple[Array, int, Array]:
        """The first node of each family at a depth, the end of the last family, and their parents."""
        start, end = np.searchsorted(self.depths, [depth, depth + 1])
        parents, first = np.unique(self.parents[start:end], return_index=True)
        return first + start, int(end), parents


def levels_of(checkpoint: Checkpoint) -> Levels | None:
    """The tree of a checkpoint's classes; None where labels have no levels."""
    separator = checkpoint.config.label_levels
    return Levels(checkpoint.class_names, separator) if separator else None


def hierarchical_scores(levels: Levels, answers_N: Int64s, truth_N: Int64s) -> tuple[float, float, float]:
    """Hierarchical precision, recall and F1 of nodes as answers, in [0, 1].

    Precision is Σ |A ∩ T| / Σ |A| and recall Σ |A ∩ T| / Σ |T| over all texts, where A and T are the nodes of an answer and of the truth
    with all nodes above them.

    Source: Kiritchenko, Matwin and Famili 2005, "Functional Annotation of Genes Using Hierarchical Text Categorization".
    """
    sizes_M = np.array([len(path) for path in levels.paths])
    common = 0
    for level in range(1, int(sizes_M.max()) + 1):
        reach = np.minimum(sizes_M[answers_N], sizes_M[truth_N]) >= level
        common += int((reach & (levels.ancestors(answers_N, level) == levels.ancestors(truth_N, level))).sum())
    precision, recall = (common / max(1, int(sizes_M[nodes].sum())) for nodes in (answers_N, truth_N))
    return precision, recall, 2 * precision * recall / max(precision + recall, np.finfo(float).tiny)


def best_threshold(levels: Levels, probabilities_NC: Floats, labels: Int64s) -> float:
    """The threshold of ``finest`` whose answers to texts with these classes have the best hierarchical F1."""
    of_nodes_NM, truth_N = levels.probabilities(probabilities_NC), levels.node_of_class[labels]
    return max(THRESHOLDS, key=lambda threshold: hierarchical_scores(levels, levels.finest(of_nodes_NM, threshold), truth_N)[2])
