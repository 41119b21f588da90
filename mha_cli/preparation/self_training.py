"""Labels for texts that have none, from the words of the classes: the nearest class, and then self-training.

Source: Yarowsky 1995, "Unsupervised Word Sense Disambiguation Rivaling Supervised Methods" (learn from the surest guesses, guess again).

Axes: N texts, L lines of words, D features, C classes.
"""

from typing import Any

import numpy as np

from mha_cli.arrays import Floats, Int64s

ROUNDS, SUREST = 3, 0.5  # rounds of self-training, and the share of each class that a round learns from
STRENGTH = 10.0  # scikit-learn's C


def nearest_classes(features_ND: Floats, lines_LD: Floats, line_classes: Int64s) -> Floats:
    """The cosine of every text and the mean of each class's lines, (N, C); features have norm 1."""
    means_CD = np.stack([lines_LD[line_classes == class_id].mean(axis=0) for class_id in range(line_classes.max() + 1)])
    cosines: Floats = features_ND @ (means_CD / np.linalg.norm(means_CD, axis=1, keepdims=True)).T
    return cosines


def guessed_labels(features_ND: Floats, lines_LD: Floats, line_classes: Int64s, worth: float) -> Int64s:
    """The class of each text, (N,).

    At first it is the class of the nearest words. Then a logistic regression learns from the surest half of each class and from the words
    themselves, which count as ``worth`` texts of their class, and guesses again. All classes weigh the same: they would otherwise grow
    and shrink by their own errors.
    """
    from sklearn.linear_model import LogisticRegression

    scores_NC = nearest_classes(features_ND, lines_LD, line_classes)
    word_weights = worth / np.bincount(line_classes)[line_classes]
    for _ in range(ROUNDS):
        rows, labels = surest(scores_NC), scores_NC.argmax(axis=1)
        sizes = np.bincount(labels[rows], minlength=scores_NC.shape[1])
        weights = (len(rows) / len(sizes) / np.maximum(sizes, 1))[labels[rows]]
        model = LogisticRegression(C=STRENGTH, max_iter=300, tol=1e-3)
        model.fit(np.concatenate([features_ND[rows], lines_LD]), [*labels[rows], *line_classes], [*weights, *word_weights])
        scores_NC = model.predict_proba(features_ND)
    guesses: Int64s = scores_NC.argmax(axis=1)
    return guesses


def surest(scores_NC: Any) -> Int64s:
    """Rows of the surest half of each guessed class, by the distance of its score to the second one."""
    labels, ordered_NC = scores_NC.argmax(axis=1), np.sort(scores_NC, axis=1)
    margins = ordered_NC[:, -1] - ordered_NC[:, -2]
    of_classes = (np.flatnonzero(labels == class_id) for class_id in range(scores_NC.shape[1]))
    return np.concatenate([rows[np.argsort(-margins[rows], kind="stable")[: int(np.ceil(SUREST * len(rows)))]] for rows in of_classes])
