"""Learning from texts without labels: what a first model takes them for, a second one learns.

Source: Lee 2013, "Pseudo-Label"; with probabilities in place of the most probable class: Xie et al. 2020, "Self-training with Noisy Student
improves ImageNet classification", section 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config import Config
from mha_cli.data.corpus import EncodedReviews, join_reviews
from mha_cli.model import build_classifier
from mha_cli.progress import Watcher
from mha_cli.training.loop import Trainer, compile_forward, fit, predict_probabilities
from mha_cli.training.preparation import PreparedData

Floats = npt.NDArray[np.float32]


def pseudo_labels(config: Config, data: PreparedData, watcher: Watcher) -> Floats:
    """Probabilities of all classes for the unlabelled texts, (N, C), after as many rounds as the config asks for."""
    if data.unlabelled is None:
        raise ValueError("there are no unlabelled texts")
    labelled = data
    for round_number in range(1, config.training.pseudo_labels + 1):
        watcher.tell(f"pseudo-labels, round {round_number} of {config.training.pseudo_labels}")
        weights = _best_weights(config, labelled, watcher)
        targets = _predict(config, data, weights, data.unlabelled, watcher)
        labelled = with_pseudo_labels(data, targets)
    return targets


def with_pseudo_labels(data: PreparedData, targets: Floats) -> PreparedData:
    """The unlabelled texts among those to learn from, as the classes that ``targets`` (N, C) gives them."""
    if data.unlabelled is None:
        raise ValueError("there are no unlabelled texts")
    unlabelled = dataclasses.replace(data.unlabelled, labels=targets.argmax(axis=1).astype(np.int32))
    return dataclasses.replace(
        data, train=join_reviews(data.train, unlabelled), targets=np.concatenate([data.targets, targets]), unlabelled=None
    )


def _best_weights(config: Config, data: PreparedData, watcher: Watcher) -> Mapping[str, Floats]:
    trainer = Trainer(config, data, watcher.tell)
    best: Mapping[str, Floats] = {}
    for record in fit(trainer, watcher.on_step):
        if record.best:
            best = trainer.weights()
        watcher.tell(f"epoch {record.epoch}: validation accuracy {record.validation_accuracy:.4f}")
    return best


def _predict(config: Config, data: PreparedData, weights: Mapping[str, Any], reviews: EncodedReviews, watcher: Watcher) -> Floats:
    model = build_classifier(config, len(data.vocabulary), len(data.class_names))
    for weight in model.weights:
        weight.assign(weights[weight.path])
    tell = watcher.tell
    return predict_probabilities(
        compile_forward(model), reviews, len(data.class_names), lambda number: tell(f"labelling {number:,} of {len(reviews):,} texts")
    )
