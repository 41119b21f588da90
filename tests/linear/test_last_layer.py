"""The last layer on features that do not change."""

import numpy as np

from mha_cli.linear.last_layer import fit_last_layer


def test_classes_with_a_single_text_are_not_lost_beside_a_frequent_one() -> None:
    """Such a class cannot be left out to choose C; with C = 1, all texts went to the frequent class."""
    rng = np.random.default_rng(5)
    centres = np.eye(7, 11)
    labels = np.array([0] * 17 + [1, 2, 3, 4, 5, 6], np.int32)
    features = centres[labels] + rng.normal(0, 0.3, (23, 11))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    kernel, bias = fit_last_layer(features, labels, 7)
    answers = (features @ kernel + bias).argmax(axis=1)
    assert (answers == labels).all()
