"""What an epoch is judged by, and what is kept of it if it is the best."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.model.classifier import build_classifier, keras_config
from mha_cli.model.scoring import mean_loss_and_accuracy
from mha_cli.ngram_scores.composition import Composition
from mha_cli.ngram_scores.fit import FittedScores

if TYPE_CHECKING:
    from mha_cli.system.watcher import EpochRecord
    from mha_cli.training.trainer import Trainer


class Validation:
    """Scores an encoder on the validation part, composed with n-gram scores where there are any.

    Args:
        config: settings of the run.
        data: reviews, of which the validation part is scored.
        scores: fitted n-gram scores; None for a model without.
    """

    def __init__(self, config: Config, data: PreparedData, scores: FittedScores | None) -> None:
        self._config, self._data = config, data
        self.composition = None if scores is None else Composition(config, data, scores)

    def score(self, trainer: Trainer) -> tuple[float, float]:
        """Loss in nats and accuracy in [0, 1] of what ``checkpoint`` would hold."""
        reviews = self._data.validation
        probabilities = trainer.predict(reviews)
        if self.composition:
            probabilities = self.composition.probabilities(probabilities)
        return mean_loss_and_accuracy(probabilities, reviews.labels)

    def checkpoint(self, trainer: Trainer, record: EpochRecord) -> Checkpoint:
        """What was scored last, with the figures of its epoch."""
        weights = trainer.weights()
        return Checkpoint(
            config=self._config,
            class_names=self._data.class_names,
            vocabulary=self._data.vocabulary,
            metrics={"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss},
            weights=self.composition.weights(weights) if self.composition else weights,
            keras_config=self._keras_config,
        )

    @cached_property
    def _keras_config(self) -> str:
        return keras_config(build_classifier(self._config, len(self._data.vocabulary), len(self._data.class_names)))
