"""A frozen pretrained encoder: its features are computed once, and a logistic regression on them is the last layer.

Fine-tuning starts from that layer, scaled down. From a random last layer, the first steps would spoil the features (Kumar et al. 2022,
"Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"); from one that is sure of all texts, gradients vanish.

Axes: N texts, D model width, U units of the logits.
"""

from collections.abc import Iterator
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from mha_cli.arrays import Array, Bools, Floats, Int32s
from mha_cli.config.parameters import encoder_shape
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import EncodedTexts, join_texts
from mha_cli.linear.stacking import probabilities_of
from mha_cli.model.classifier import build_classifier, start_from
from mha_cli.model.outputs import compile_forward, predict_outputs
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.metrics import mean_loss_and_accuracy
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import MemoryEstimate
from mha_cli.training.computed_once import computed_once
from mha_cli.training.learner import Learner

STRENGTHS = (0.1, 1.0, 10.0)  # candidates for scikit-learn's C; cross-validation chooses
FOLDS = 3
ABSENT_LOGIT = -10.0  # logit of a class that has no text
START_SCALE = 0.3  # factor of the last layer that fine-tuning starts from


class FrozenEncoder(Learner):
    """A pretrained encoder and a logistic regression on its pooled features: a learner with a single step, on all texts.

    The file ``path`` keeps the features, so that an interrupted run does not compute them again.
    """

    def __init__(self, config: Config, data: PreparedData, path: Path, callbacks: Callbacks = SILENT) -> None:
        assert data.pretrained is not None
        set_seed(config.seed)
        super().__init__(config, data)
        self.precision, self.num_epochs, self._path, self._callbacks = "float32", 1, path, callbacks
        self.model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_linear=False)
        start_from(self.model, data.pretrained.weights)
        pooled = keras.Model(self.model.input, self.model.get_layer("pooling").output)
        self._features_of = partial(
            predict_outputs,
            compile_forward(pooled, encoder_shape(config)),
            MemoryEstimate(config.model, len(data.class_names)),
            width=config.model.embed_dim,
        )
        self._labelled = join_texts(data.train.for_encoder, data.validation.for_encoder)
        self.variables = self.model.get_layer("classifier").weights

    @cached_property
    def _features_ND(self) -> Floats:
        """The features of the training part, then of the validation part."""
        shape = len(self._labelled), self.config.model.embed_dim
        return computed_once(lambda rows: self._features_of(self._labelled.subset(rows)), shape, self._path, "features", self._callbacks)

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of all texts as one batch."""
        return [np.arange(len(self.data.train))]

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, Int32s]]:
        """The rows of the step, without tokens: it reads features."""
        return ((rows, np.zeros((len(rows), 0), np.int32)) for rows in batches)

    def step(self, rows: Rows, tokens: Int32s) -> tuple[float, int]:
        """Fit the last layer to all texts; the sum of their losses, in nats, and the number of right answers."""
        self.set_arrays(self._fit())
        texts = self.data.train
        loss, accuracy = mean_loss_and_accuracy(probabilities_of(self.logits(texts), are_several(texts.labels)), texts.labels)
        return loss * len(texts), round(accuracy * len(texts))

    def logits(self, texts: EncodedTexts) -> Floats:
        """The logits of texts, (N, U); features of the training part and the validation part are not computed again."""
        if texts is self.data.train:
            features_ND = self._features_ND[: len(texts)]
        elif texts is self.data.validation:
            features_ND = self._features_ND[len(self.data.train) :]
        else:
            features_ND = self._features_of(texts.for_encoder)
        kernel_DU, bias_U = self.arrays()
        return features_ND @ kernel_DU + bias_U

    def with_validation(self) -> Self:
        """The same encoder and features, with a last layer that learns from the validation part as well."""
        learner = copy(self)
        learner.data = self.data.with_validation()
        return learner

    def start(self) -> dict[str, Floats]:
        """The last layer that fine-tuning starts from, by variable path."""
        kernel_DU, bias_U = self._fit()
        return {"classifier/kernel": START_SCALE * kernel_DU, "classifier/bias": START_SCALE * bias_U}

    def _fit(self) -> tuple[Floats, Floats]:
        """Kernel (D, U) and bias (U,) of the logistic regression."""
        data = self.data
        features_ND, labels = self._features_ND[: len(data.train)], data.train.labels
        if are_several(labels):
            kernels, biases = zip(*(_fit_label(features_ND, is_label, data.train.weights) for is_label in labels.T), strict=True)
            return np.stack(kernels, axis=1).astype(np.float32), np.array(biases, np.float32)
        weights = loss_weights(self.config, data.train, len(data.class_names))
        folds = min(FOLDS, int(np.bincount(labels)[np.unique(labels)].min()))
        fitted = _regression(features_ND, labels, folds, weights)
        if len(fitted.classes_) == len(data.class_names):
            return fitted.coef_.T.astype(np.float32), fitted.intercept_.astype(np.float32)
        kernel_DU = np.zeros((features_ND.shape[1], len(data.class_names)), np.float32)
        bias_U = np.full(len(data.class_names), ABSENT_LOGIT, np.float32)
        bias_U[fitted.classes_] = 0.0
        class_ids = fitted.classes_[-len(fitted.intercept_) :]  # of two classes the second one
        kernel_DU[:, class_ids], bias_U[class_ids] = fitted.coef_.T, fitted.intercept_
        return kernel_DU, bias_U


def _fit_label(features_ND: Floats, is_label: Bools, weights: Floats | None) -> tuple[Floats, float]:
    """Kernel (D,) and bias of one label, of texts that may have several."""
    num_with, num_without = is_label.sum(), (~is_label).sum()
    if min(num_with, num_without) < FOLDS:  # too few to cross-validate: the label's share of the texts alone
        return np.zeros(features_ND.shape[1], np.float32), float(np.log((num_with + 0.5) / (num_without + 0.5)))
    fitted = _regression(features_ND, is_label, FOLDS, weights)
    return fitted.coef_[0], float(fitted.intercept_[0])


def _regression(features_ND: Floats, labels: Array, folds: int, weights: Floats | None = None) -> Any:
    """A fitted logistic regression; cross-validation chooses its strength, if there are at least two ``folds``."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    def model(strength: float) -> Any:
        return LogisticRegression(C=strength, max_iter=1_000)

    def score(strength: float) -> float:
        params = {} if weights is None else {"sample_weight": weights}
        scores = cross_val_score(model(strength), features_ND, labels, scoring="neg_log_loss", cv=folds, params=params)
        return float(scores.mean())

    best = max(STRENGTHS, key=score) if folds > 1 else 1.0  # a class with a single text cannot be left out
    return model(best).fit(features_ND, labels, weights)
