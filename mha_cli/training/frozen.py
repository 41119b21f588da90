"""A frozen pretrained encoder: its features are computed once, and a logistic regression on them is the last layer.

Fine-tuning starts from that layer, scaled down. From a random last layer, the first steps would spoil the features (Kumar et al. 2022,
"Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"); from one that is sure of all texts, gradients vanish.

Axes: N texts, D model width, U units of the logits.
"""

from collections.abc import Iterator
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import keras
import numpy as np

from mha_cli.arrays import Floats, Int32s
from mha_cli.config.parameters import encoder_shape
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import EncodedTexts, join_texts
from mha_cli.linear.last_layer import fit_last_layer
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
        train, num_classes = self.data.train, len(self.data.class_names)
        return fit_last_layer(self._features_ND[: len(train)], train.labels, num_classes, loss_weights(self.config, train, num_classes))
