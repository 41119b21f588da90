"""Guesses from the words of classes."""

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from mha_cli.preparation.class_texts import guessed_labels, nearest_classes, surest


def test_the_nearest_class_is_that_of_the_mean_line() -> None:
    rng = np.random.default_rng(0)
    features, lines = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (rng.normal(size=(9, 4)), rng.normal(size=(5, 4))))
    classes = np.array([0, 2, 1, 2, 2])
    means = [lines[[0]].mean(0), lines[[2]].mean(0), lines[[1, 3, 4]].mean(0)]
    np.testing.assert_allclose(nearest_classes(features, lines, classes), cosine_similarity(features, means), atol=1e-12)


def test_the_surest_half_of_each_class() -> None:
    scores = np.array([[9, 1, 0], [5, 4, 0], [8, 1, 0], [0, 1, 2], [3, 2, 1]])  # three rows of class 0, one of class 2
    assert sorted(surest(scores[:4])) == [0, 2, 3]
    assert sorted(surest(scores)) == [0, 2, 3]


def test_self_training_finds_groups_that_words_only_hint_at() -> None:
    """Two groups along one direction; the words lie askew, so that the nearest class is often wrong."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], (300, 100))
    features = rng.normal(scale=0.2, size=(400, 10))
    features[:, 0] += np.where(truth, 1.0, -1.0)
    features[:, 1] += rng.normal(scale=0.7, size=400)  # differs among the texts of a group, and the words differ in it as well
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    lines = np.zeros((2, 10))
    lines[0, :2], lines[1, :2] = (-0.74, -0.67), (0.74, 0.67)
    nearest = (nearest_classes(features, lines, np.array([0, 1])).argmax(1) == truth).mean()
    trained = (guessed_labels(features, lines, np.array([0, 1]), worth=8.0) == truth).mean()
    assert nearest < 0.95 < 0.99 < trained
