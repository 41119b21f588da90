"""What an epoch is judged by, and what is kept of it if it is the best: the encoder, composed with n-gram scores where there are any.

Axes: N reviews of the validation part, U units of the classifier, which are also the units of a score.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.model.classifier import build_classifier, keras_config
from mha_cli.ngram_scores.fit import FittedScores, score_reviews
from mha_cli.ngram_scores.stacking import Stack, fit_stack, logits_of, probabilities_of
from mha_cli.runtime.metrics import calibration_error, mean_loss_and_accuracy
from mha_cli.system.watcher import EpochRecord
from mha_cli.training.calibration import fit_temperature, tempered, with_temperature
from mha_cli.training.trainer import Trainer

Floats = npt.NDArray[np.float32]


class Validation:
    """Scores an encoder on the validation part, composed with n-gram scores where there are any.

    Args:
        config: settings of the run.
        data: reviews, of which the validation part is scored; it also says how much encoder and n-gram scores each count.
        fitted: n-gram scores that have not learnt from the validation part; None for a model without.
        kept: those that a checkpoint is given instead; None for the same.
    """

    def __init__(self, config: Config, data: PreparedData, fitted: FittedScores | None, kept: FittedScores | None = None) -> None:
        self._config, self._data, self._kept = config, data, kept or fitted
        self.scores_NU = None if fitted is None else score_reviews(config, data, data.validation, fitted)
        self._stack: Stack | None = None
        self._of_encoder = np.zeros((0, len(data.class_names)), np.float32)

    @classmethod
    def of_run(cls, config: Config, data: PreparedData, fitted: FittedScores | None, kept: FittedScores | None = None) -> Self:
        """The judge of what a run keeps: without the n-gram scores if they were only to teach the encoder."""
        config = config.of_checkpoint()
        return cls(config, data, fitted if config.model.score_ngrams else None, kept)

    def score(self, trainer: Trainer) -> tuple[float, float]:
        """Loss in nats and accuracy in [0, 1] of what ``checkpoint`` would hold, but for a temperature."""
        reviews = self._data.validation
        probabilities = trainer.predict(reviews)
        if self.scores_NU is not None:
            encoder_NU = logits_of(probabilities)
            self._stack = fit_stack(encoder_NU, self.scores_NU, reviews.labels)
            probabilities = probabilities_of(self._stack.logits(encoder_NU, self.scores_NU))
        else:
            self._of_encoder = probabilities
        return mean_loss_and_accuracy(probabilities, reviews.labels)

    def checkpoint(self, trainer: Trainer, record: EpochRecord) -> Checkpoint:
        """What was scored last, with the figures of its epoch.

        An encoder alone is given a temperature. Beside n-gram scores, the weights of both are fitted to the same loss on the same reviews.
        """
        weights = trainer.weights()
        metrics = {"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss}
        if self._kept and self._stack:
            weights = compose(weights, self._kept, self._stack)
        else:
            labels = self._data.validation.labels
            temperature = fit_temperature(self._of_encoder, labels)
            weights, probabilities = with_temperature(weights, temperature), tempered(self._of_encoder, temperature)
            metrics |= {
                "validation_loss": mean_loss_and_accuracy(probabilities, labels)[0],
                "temperature": temperature,
                "calibration_error_before": calibration_error(self._of_encoder, labels),
                "calibration_error_after": calibration_error(probabilities, labels),
            }
        return Checkpoint(
            config=self._config,
            class_names=self._data.class_names,
            vocabulary=self._data.vocabulary,
            metrics=metrics,
            weights=weights,
            keras_config=self._keras_config,
        )

    @cached_property
    def _keras_config(self) -> str:
        return keras_config(build_classifier(self._config, len(self._data.vocabulary), len(self._data.class_names)))


def compose(encoder: Mapping[str, Floats], fitted: FittedScores, stack: Stack) -> dict[str, Floats]:
    """The weights of a classifier, by path, from those of its encoder and its n-gram scores, which count as much as a stack says."""
    kernel = np.concatenate([encoder["classifier/kernel"] * stack.encoder_weight, np.eye(len(stack.bias)) * stack.score_weight])
    bias = encoder["classifier/bias"] * stack.encoder_weight + fitted.bias * stack.score_weight + stack.bias
    composed = {**encoder, "classifier/kernel": kernel.astype(np.float32), "classifier/bias": bias.astype(np.float32)}
    salience = {} if fitted.salience is None else {"scores/salience": fitted.salience}
    return {**composed, "scores/table": fitted.table, **salience}


def decompose(weights: Mapping[str, Floats]) -> tuple[dict[str, Floats], FittedScores | None]:
    """The encoder's weights and the n-gram scores, if there are any, of a classifier's weights by path."""
    if "scores/table" not in weights:
        return dict(weights), None
    encoder = {path: weight for path, weight in weights.items() if not path.startswith("scores/")}
    encoder["classifier/kernel"] = encoder["classifier/kernel"][: -len(encoder["classifier/bias"])]
    no_bias = np.zeros_like(encoder["classifier/bias"])  # it has gone into the classifier's
    return encoder, FittedScores(weights["scores/table"], no_bias, weights.get("scores/salience"))
