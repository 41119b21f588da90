"""Figures of labels in levels."""

from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Floats, Int64s
from mha_cli.runtime.levels import Levels, hierarchical_scores


@dataclass(frozen=True)
class LevelScores:
    """How well a tree of labels is recognized; shares in [0, 1]."""

    accuracy: list[float]  # of each level, from the coarsest: share of texts whose most probable node there is the right one
    threshold: float  # probability that an answer needs; a coarser node is the answer where no finer one has it
    precision: float  # hierarchical precision, recall and F1 of these answers, see ``hierarchical_scores``
    recall: float
    f1: float
    f1_of_classes: float  # hierarchical F1 of the most probable classes
    num_within: int  # texts whose most probable class is wrong, but in the right branch
    num_across: int  # texts whose most probable class is in another branch


def level_scores(levels: Levels, probabilities_NC: Floats, labels: Int64s, threshold: float) -> LevelScores:
    """Score the answers to texts of these classes."""
    of_nodes_NM, truth_N = levels.probabilities(probabilities_NC), levels.node_of_class[labels]
    classes_N = levels.node_of_class[probabilities_NC.argmax(axis=1)]
    by_level = [(levels.at_level(of_nodes_NM, level), levels.ancestors(truth_N, level)) for level in range(1, levels.depth + 1)]
    num_wrong, num_across = (
        int((levels.ancestors(classes_N, level) != levels.ancestors(truth_N, level)).sum()) for level in (levels.depth, 1)
    )
    return LevelScores(
        [float(np.mean(answers_N == right_N)) for answers_N, right_N in by_level],
        threshold,
        *hierarchical_scores(levels, levels.finest(of_nodes_NM, threshold), truth_N),
        hierarchical_scores(levels, classes_N, truth_N)[2],
        num_wrong - num_across,
        num_across,
    )
