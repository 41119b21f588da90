"""Per-epoch validation and the best checkpoint: the encoder, stacked with the linear model if there is one.

Axes: N texts of the validation part, U units of the logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.config.settings import Config
from mha_cli.corpus.class_weights import loss_weights, never_answered
from mha_cli.linear.alone import fit_linear_alone
from mha_cli.linear.composition import compose
from mha_cli.linear.fit import linear_logits
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.stacking import Stack, answers_alone, fit_stack, probabilities_of
from mha_cli.model.classifier import build_classifier, keras_config
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.levels import Levels, best_threshold
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
    thresholds: dict[str, float]  # threshold of each label, if texts may have several; otherwise empty
    level_threshold: float  # probability that an answer in levels needs; 0 where labels have none
    linear_alone: LinearAlone | None  # where the linear model answers alone; None for nowhere
    held_out: HeldOut  # the probabilities, for the checkpoint
    warning: str  # names the classes that the model never predicts; empty if there are none


class Validation:
    """Evaluates an encoder on the validation part, stacked with the linear model if the checkpoint has one.

    Args:
        config: settings of the run.
        data: texts; the validation part also fits the weights of encoder and linear model.
        fitted: linear model that has not learnt from the validation part; None for none.
        kept: linear model of the checkpoint; None for the same.
        out_of_fold: out-of-fold logits of the training part, (N, U), by which thresholds of labels are chosen as well; None for none.
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
        self._out_of_fold: Floats | None = None
        if out_of_fold is not None and fitted is not None:
            self._out_of_fold = answers_alone(out_of_fold, data.train.labels, data.train.weights)
        # Before the trainer's model is built, which then takes over the memory of this one's tables.
        self._keras_config = keras_config(build_classifier(config, len(data.vocabulary), len(data.class_names)))

    def score(self, learner: Learner) -> Score:
        """Evaluate the model that ``checkpoint`` would give."""
        data, texts, linear_NU = self._data, self._data.validation, self.linear_NU
        encoder_NU = learner.logits(texts)
        stack = fit_stack(encoder_NU, linear_NU, texts.labels, self._loss_weights, self._is_pretrained)
        is_multi_label = are_several(texts.labels)
        probabilities = probabilities_of(stack.logits(encoder_NU, 0.0 if linear_NU is None else linear_NU), is_multi_label)
        thresholds = self._label_thresholds(probabilities) if is_multi_label else 0.5
        by_label = dict(zip(data.class_names, thresholds.tolist(), strict=True)) if isinstance(thresholds, np.ndarray) else {}
        figures, warning, level_threshold = dict[str, float](), "", 0.0
        if separator := self._config.label_levels:
            level_threshold = best_threshold(Levels(data.class_names, separator), probabilities, texts.labels)
        if not is_multi_label:
            predicted = probabilities.argmax(axis=1)
            warning = never_answered(self._config.training.class_weights, data.class_names, texts.labels, predicted)
            if linear_NU is None:
                figures["calibration_error_before"] = calibration_error(probabilities_of(encoder_NU), texts.labels)
                figures["calibration_error_after"] = calibration_error(probabilities, texts.labels)
        if data.base is not None and data.held_out_before.any():
            right = are_right(probabilities, texts.labels, thresholds)[data.held_out_before]
            figures["accuracy_of_base"] = data.base.metrics.get("validation_accuracy", 0.0)
            figures["accuracy_on_its_held_out_texts"] = float(np.average(right, weights=texts.weights_or_ones[data.held_out_before]))
        loss, accuracy = mean_loss_and_accuracy(probabilities, texts.labels, thresholds, texts.weights)
        alone = None
        # An encoder that is trained again would add something else to the logits.
        if self._kept and linear_NU is not None and not (is_multi_label or self._config.training.refits_encoder):
            weighted_NU = stack.linear_weight * linear_NU
            if alone := fit_linear_alone(weighted_NU, stack.encoder_weight * encoder_NU + stack.bias):
                is_sure_N = alone.is_sure(weighted_NU)
                probabilities[is_sure_N] = probabilities_of(alone.logits(weighted_NU[is_sure_N]))
                alone = alone.shifted(stack.linear_weight * self._kept.bias)  # the classifier's bias, which a linear part lacks
        held_out = HeldOut.of(probabilities, texts.labels)
        return Score(loss, accuracy, stack, figures, by_label, level_threshold, alone, held_out, warning)

    def _label_thresholds(self, probabilities: Floats) -> Floats:
        """The threshold of each label, chosen by the validation part and, if they are known, by out-of-fold probabilities."""
        labels, weights = self._data.validation.labels, self._data.validation.weights_or_ones
        if self._out_of_fold is not None:
            train = self._data.train
            probabilities = np.concatenate([self._out_of_fold, probabilities])
            labels, weights = np.concatenate([train.labels, labels]), np.concatenate([train.weights_or_ones, weights])
        return f1_thresholds(probabilities, labels, weights)

    def checkpoint(self, encoder: Mapping[str, Floats], record: EpochRecord, score: Score) -> Checkpoint:
        """The checkpoint of an encoder's weights, with the stack and thresholds of their score and the metrics of their epoch."""
        metrics: dict[str, float] = {"epoch": record.epoch}
        if self._data.are_guessed:
            metrics["guessed_texts"] = self._data.num_labelled
        else:
            metrics |= {"validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss} | score.figures
            metrics["labelled_texts"] = self._data.num_labelled
        return Checkpoint(
            config=self._config,
            class_names=self._data.class_names,
            vocabulary=self._data.vocabulary,
            metrics=metrics,
            weights=compose(encoder, self._kept, score.stack),
            keras_config=self._keras_config,
            thresholds=score.thresholds,
            level_threshold=score.level_threshold,
            linear_alone=score.linear_alone,
            tokenizer=None if self._data.pretrained is None else self._data.pretrained.tokenizer,
            held_out=None if self._data.are_guessed else score.held_out,
        )
