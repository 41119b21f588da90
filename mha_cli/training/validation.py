"""Per-epoch validation and the best checkpoint: the encoder, stacked with the linear model if there is one.

Axes: N texts of the validation part, U units of the logits.
"""

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config
from mha_cli.data.class_weights import loss_weights, never_answered
from mha_cli.data.preparation import PreparedData
from mha_cli.data.targets import are_several
from mha_cli.linear.composition import LinearModel, compose
from mha_cli.linear.fit import linear_logits
from mha_cli.linear.stacking import Stack, answers_alone, fit_stack, probabilities_of
from mha_cli.model.classifier import build_classifier, keras_config
from mha_cli.runtime.metrics import are_right, calibration_error, mean_loss_and_accuracy
from mha_cli.system.callbacks import EpochRecord
from mha_cli.training.f1_thresholds import f1_thresholds
from mha_cli.training.frozen import FrozenEncoder
from mha_cli.training.trainer import Trainer


class Validation:
    """Evaluates an encoder on the validation part, stacked with the linear model if the checkpoint has one.

    Args:
        config: settings of the run.
        data: texts; the validation part also fits the weights of encoder and linear model.
        fitted: linear model that has not learnt from the validation part; None for none.
        kept: linear model of the checkpoint; None for the same.
        out_of_fold: logits of the training part by linear models that have not learnt from it, (N, U), where a text may have several
            labels: their thresholds are chosen by it as well.

    Attributes:
        warning: classes that the last evaluated model never answers, in words; empty for none.
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
        self._stack: Stack
        self._figures: dict[str, float] = {}
        self._thresholds: dict[str, float] = {}
        self._out_of_fold = np.zeros((0, len(data.class_names)), np.float32)
        if out_of_fold is not None and fitted is not None:
            self._out_of_fold = answers_alone(out_of_fold, data.train.labels, data.train.weights)
        self.warning = ""
        # At once: the trainer's model then takes over the memory of this one's tables.
        self._keras_config = keras_config(build_classifier(config, len(data.vocabulary), len(data.class_names)))

    def score(self, trainer: Trainer | FrozenEncoder) -> tuple[float, float]:
        """Loss in nats and accuracy in [0, 1] of the model that ``checkpoint`` would give."""
        texts, linear_NU = self._data.validation, self.linear_NU
        encoder_NU = trainer.logits(texts)
        self._stack = fit_stack(encoder_NU, linear_NU, texts.labels, self._loss_weights, self._is_pretrained)
        several, base, held_out_before = are_several(texts.labels), self._data.base, self._data.held_out_before
        probabilities = probabilities_of(self._stack.logits(encoder_NU, 0.0 if linear_NU is None else linear_NU), several)
        thresholds: float | Floats = 0.5
        if several:
            parts = [self._data.train, texts] if len(self._out_of_fold) else [texts]
            labels, weights = (np.concatenate(of) for of in ([one.labels for one in parts], [one.weights_or_ones for one in parts]))
            said, average = np.concatenate([self._out_of_fold, probabilities]), self._config.training.threshold_average
            thresholds = f1_thresholds(said, labels, weights, average)
            self._thresholds = dict(zip(self._data.class_names, thresholds.tolist(), strict=True))
        elif linear_NU is None:
            before, after = (calibration_error(answers, texts.labels) for answers in (probabilities_of(encoder_NU), probabilities))
            self._figures = {"calibration_error_before": before, "calibration_error_after": after}
        if base is not None and held_out_before.any():
            right = are_right(probabilities, texts.labels, thresholds)[held_out_before]
            self._figures["accuracy_of_base"] = base.metrics.get("validation_accuracy", 0.0)
            self._figures["accuracy_on_its_held_out_texts"] = float(np.average(right, weights=texts.weights_or_ones[held_out_before]))
        if not several:
            self.warning = never_answered(
                self._config.training.class_weights, self._data.class_names, texts.labels, probabilities.argmax(axis=1)
            )
        return mean_loss_and_accuracy(probabilities, texts.labels, thresholds, texts.weights)

    def checkpoint(self, trainer: Trainer | FrozenEncoder, record: EpochRecord) -> Checkpoint:
        """The model that was scored last, with the figures of its epoch."""
        metrics = {"epoch": record.epoch, "validation_accuracy": record.validation_accuracy, "validation_loss": record.validation_loss}
        metrics["labelled_texts"] = len(self._data.train) + len(self._data.validation)
        return Checkpoint(
            config=self._config,
            class_names=self._data.class_names,
            vocabulary=self._data.vocabulary,
            metrics=metrics | self._figures,
            weights=compose(trainer.weights(), self._kept, self._stack),
            keras_config=self._keras_config,
            thresholds=self._thresholds,
            tokenizer=None if self._data.pretrained is None else self._data.pretrained.tokenizer,
        )
