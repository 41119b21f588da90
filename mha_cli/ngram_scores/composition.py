"""An encoder and n-gram scores as one classifier: how much each counts is found on the validation part, anew for every encoder.

Axes: N reviews of the validation part, C classes, U units of the classifier, which are also the units of a score, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.model.classifier import build_scores
from mha_cli.model.scoring import compile_forward, predict_outputs
from mha_cli.ngram_scores.fit import FittedScores
from mha_cli.ngram_scores.stacking import Stack, fit_stack, logits_of, probabilities_of
from mha_cli.system.working_memory import ForwardPass

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, Floats]


class Composition:
    """Fitted n-gram scores, which an encoder is composed with.

    Args:
        config: settings of the run.
        data: reviews; those of the validation part say how much encoder and scores each count.
        fitted: table and salience.
    """

    def __init__(self, config: Config, data: PreparedData, fitted: FittedScores) -> None:
        self._fitted = fitted
        self._labels = data.validation.labels
        self.scores_NU = _score(config, data, fitted)
        self._stack = Stack(1.0, 0.0, np.zeros(fitted.table.shape[1], np.float32))

    def probabilities(self, encoder_NC: Floats) -> Floats:
        """Probabilities of both together on the validation part, (N, C), after finding how much each counts there.

        Args:
            encoder_NC: probabilities of the encoder alone.
        """
        encoder_NU = logits_of(encoder_NC)
        self._stack = fit_stack(encoder_NU, self.scores_NU, self._labels)
        return probabilities_of(self._stack.logits(encoder_NU, self.scores_NU))

    def weights(self, encoder: Weights) -> dict[str, Floats]:
        """The weights of the composed classifier, by path, with the stack that was found last.

        Args:
            encoder: weights of the encoder alone, by path.
        """
        stack, units = self._stack, len(self._stack.bias)
        kernel = np.concatenate([encoder["classifier/kernel"] * stack.encoder_weight, np.eye(units) * stack.score_weight])
        bias = encoder["classifier/bias"] * stack.encoder_weight + stack.bias
        composed = {**encoder, "classifier/kernel": kernel.astype(np.float32), "classifier/bias": bias.astype(np.float32)}
        salience = {} if self._fitted.salience is None else {"scores/salience": self._fitted.salience}
        return {**composed, "scores/table": self._fitted.table, **salience}


def decompose(weights: Weights) -> tuple[dict[str, Floats], FittedScores | None]:
    """The encoder's weights and the n-gram scores, if there are any, of a classifier's weights by path."""
    if "scores/table" not in weights:
        return dict(weights), None
    encoder = {path: weight for path, weight in weights.items() if not path.startswith("scores/")}
    encoder["classifier/kernel"] = encoder["classifier/kernel"][: -len(encoder["classifier/bias"])]
    return encoder, FittedScores(weights["scores/table"], weights.get("scores/salience"))


def _score(config: Config, data: PreparedData, fitted: FittedScores) -> Floats:
    """The n-gram scores of the validation part, (N, U)."""
    num_classes = len(data.class_names)
    layer = build_scores(config, len(data.vocabulary), num_classes)
    layer.build(None)
    layer.set_weights([fitted.table] if fitted.salience is None else [fitted.table, fitted.salience])
    return predict_outputs(compile_forward(layer), data.validation, ForwardPass(config.model, num_classes))
