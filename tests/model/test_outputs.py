"""Losses by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.model.outputs import contrastive_loss, cross_entropy
from mha_cli.sources.targets import one_hot
from tests.runtime.test_metrics import random_probabilities, smoothed_cross_entropy


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_cross_entropy_with_label_smoothing_by_hand(num_classes: int, label_smoothing: float) -> None:
    probabilities, labels = random_probabilities(17, num_classes)
    outputs = probabilities[:, 1:] if num_classes == 2 else probabilities
    losses = cross_entropy(outputs, one_hot(labels, num_classes), label_smoothing).numpy()
    np.testing.assert_allclose(losses, smoothed_cross_entropy(probabilities, labels, label_smoothing), atol=1e-5, rtol=1e-5)


def test_contrastive_loss_by_hand() -> None:
    features, labels = np.random.default_rng(0).normal(size=(7, 5)), [0, 1, 1, 0, 2, 1, 0]  # the only text of class 2 has no loss
    losses = contrastive_loss(tf.constant(features, tf.float32), one_hot(np.array(labels, np.int32), 3)).numpy()
    for row, (own, loss) in enumerate(zip(features, losses, strict=True)):
        others = [other for other in range(7) if other != row]
        cosines = {other: own @ features[other] / np.linalg.norm(own) / np.linalg.norm(features[other]) for other in others}
        total = sum(math.exp(cosine / 0.1) for cosine in cosines.values())
        alike = [-math.log(math.exp(cosines[other] / 0.1) / total) for other in others if labels[other] == labels[row]]
        assert loss == pytest.approx(np.mean(alike) if alike else 0.0, abs=1e-4)
