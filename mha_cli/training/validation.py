"""Per-epoch validation and the best checkpoint: the encoder, stacked with the linear model if there is one.

Axes: N texts of the validation part, U units of the logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config
from mha_cli.corpus.class_weights import loss_weights, never_answered
from mha_cli.linear.composition import compose
from mha_cli.linear.fit import linear_logits
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.stacking import Stack, answers_alone, fit_stack, probabilities_of
from mha_cli.model.classifier import build_classifier, keras_config
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.metrics import are_right, calibration_error, mean_loss_and_accuracy
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import EpochRecord
from mha_cli.training.f1_thresholds import f1_thresholds
from mha_cli.training.learner import Learner


@dataclass(frozen=True)
class Score:
    """The result of a validation: an encoder, stacked with the linear model if there is one."""

    loss: float  # in nats
    accuracy: float  # in [0, 1]
    stack: Stack  # weights of encoder and linear model
    figures: dict[str, float]  # further metrics of the checkpoint
    thresholds: dict[str, float]  # of each label, where a text may have several
    warning: str  # classes that the model never answers, in words; empty for none


class Validation:
    """Evaluates an encoder on the validation part, stacked with the linear model if the checkpoint has one.

    Args:
        config: settings of the run.
        data: texts; the validation part also fits the weights of encoder and linear model.
        fitted: linear model that has not learnt from the validation part; None for none.
        kept: linear model of the checkpoint; None for the same.
        out_of_fold: logits of the training part by linear models that have not learnt from it, (N, U), where a text may have several
            labels: their thresholds are chosen by it as well.
    """

    def __init__(
        self,
        config: Config,
        data: PreparedData,
        fitted: LinearModel | None,
        kept: LinearModel | None = None,
        out_of_fold: Floats | None = None,
    ) -> None:
        config = config.of_checkpoint()
        fitted = fitted if config.linear else None
        self._config, self._data, self._kept = config, data, None if fitted is None else kept or fitted
        self.linear_NU = None if fitted is None else linear_logits(config, data, data.validation, fitted)
        self._loss_weights = loss_weights(config, data.validation, len(data.class_names))
        self._is_pretrained = data.pretrained is not None or data.teacher is not None
        self._out_of_fold = np.zeros((0, len(data.class_names)), np.float32)
        if out_of_fold is not None and fitted is not None:
            self._out_of_fold = answers_alone(out_of_fold, data.train.labels, data.train.weights)
        # At once: the trainer's model then takes over the memory of this one's tables.
        self._keras_config = keras_config(build_classifier(config, len(data.vocabulary), len(data.class_names)))

    def score(self, learner: Learner) -> Score:
        """Evaluate the model that ``checkpoint`` would give."""
        texts, linear_NU, class_names = self._data.validation, self.linear_NU, self._data.class_names
        encoder_NU = learner.logits(texts)
        stack = fit_stack(encoder_NU, linear_NU, texts.labels, self._loss_weights, self._is_pretrained)
        several, base, held_out_before = are_several(texts.labels), self._data.base, self._data.held_out_before
        probabilities = probabilities_of(stack.logits(encoder_NU, 0.0 if linear_NU is None else linear_NU), several)
        thresholds: float | Floats = 0.5
        of_labels, figures, warning = dict[str, float](), dict[str, float](), ""
        if several:
            parts = [self._data.train, texts] if len(self._out_of_fold) else [texts]
            labels, weights = (np.concatenate(of) for of in ([one.labels for one in parts], [one.weights_or_ones for one in parts]))
            said, average = np.concatenate([self._out_of_fold, probabilities]), self._config.training.threshold_average
            thresholds = f1_thresholds(said, labels, weights, average)
            of_labels = dict(zip(class_names, thresholds.tolist(), strict=True))
        else:
            warning = never_answered(self._config.training.class_weights, class_names, texts.labels, probabilities.argmax(axis=1))
            if linear_NU is None:
                before, after = (calibration_error(answers, texts.labels) for answers in (probabilities_of(encoder_NU), probabilities))
                figures = {"calibration_error_before": before, "calibration_error_after": after}
        if base is not None and held_out_before.any():
            right = are_right(probabilities, texts.labels, thresholds)[held_out_before]
            figures["accuracy_of_base"] = base.metrics.get("validation_accuracy", 0.0)
            figures["accuracy_on_its_held_out_texts"] = float(np.average(right, weights=texts.weights_or_ones[held_out_before]))
        loss, accuracy = mean_loss_and_accuracy(probabilities, texts.labels, thresholds, texts.weights)
        return Score(loss, accuracy, stack, figures, of_labels, warning)

    def checkpoint(self, encoder: Mapping[str, Floats], record: EpochRecord, score: Score) -> Checkpoint:
        """The model of an encoder's weights that has a score, with the figures of its epoch."""
        metrics = {"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss}
        metrics["labelled_texts"] = len(self._data.train) + len(self._data.validation)
        return Checkpoint(
            config=self._config,
            class_names=self._data.class_names,
            vocabulary=self._data.vocabulary,
            metrics=metrics | score.figures,
            weights=compose(encoder, self._kept, score.stack),
            keras_config=self._keras_config,
            thresholds=score.thresholds,
            tokenizer=None if self._data.pretrained is None else self._data.pretrained.tokenizer,
        )
