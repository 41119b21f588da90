"""Distillation of the linear model into the encoder: targets for labelled and unlabelled texts.

A model only repeats the labels of its own training texts, so predictions for labelled texts are out-of-fold. Context weights and stack
have learnt from all labels.

Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2 (targets of both kinds); Wolpert 1992,
"Stacked Generalization" (answers from the other folds).

Axes: N labelled texts, M texts without a label, U units of the logits, C classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.corpus import EncodedTexts, join_texts
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import plural
from mha_cli.linear.fit import LinearModel, cross_fit_linear_model, linear_logits
from mha_cli.linear.stacking import fit_stack, probabilities_of
from mha_cli.training.distribution import Distribution

SHARE = 0.5
"""Share of the linear model in a labelled text's target."""


def distilled(
    config: Config, data: PreparedData, log: Callable[[str], None], distribution: Distribution
) -> tuple[PreparedData, LinearModel]:
    """The data with distilled targets, unlabelled texts included, and the linear model; the chief fits it for all workers."""
    labelled_NC, *arrays = distribution.from_chief(lambda: _targets(config, data, log))
    to_learn = dataclasses.replace(data, targets=labelled_NC)
    if data.unlabelled is not None:
        to_learn = with_guesses(to_learn, data.unlabelled, arrays.pop(0))
    return to_learn, LinearModel.from_arrays(arrays)


def _targets(config: Config, data: PreparedData, log: Callable[[str], None]) -> list[npt.NDArray[Any]]:
    """Targets of labelled texts, (N, C), those of unlabelled texts if there are any, (M, C), and the arrays of the linear model."""
    fitted, logits_NU = cross_fit_linear_model(config, data, log)
    weights = loss_weights(config.training.class_weights, data.targets)
    stack = fit_stack(np.zeros_like(logits_NU), logits_NU, data.train.labels, weights)
    labelled_NC = (1.0 - SHARE) * data.targets + SHARE * probabilities_of(stack.logits(0.0, logits_NU)).astype(np.float32)
    if data.unlabelled is None:
        return [labelled_NC, *fitted.arrays()]
    log(f"scoring {plural(len(data.unlabelled), 'text')} without labels")
    guesses_MU = linear_logits(config, data, data.unlabelled, fitted)
    return [labelled_NC, probabilities_of(stack.logits(0.0, guesses_MU)).astype(np.float32), *fitted.arrays()]


def with_guesses(data: PreparedData, texts: EncodedTexts, targets: npt.NDArray[np.float32]) -> PreparedData:
    """Texts without labels among those to learn from, as the classes that ``targets`` (M, C) gives them."""
    train = join_texts(data.train, dataclasses.replace(texts, labels=targets.argmax(axis=1).astype(np.int32)))
    targets = np.concatenate([data.targets, targets])
    return dataclasses.replace(data, train=train, targets=targets, unlabelled=None, num_guessed=len(texts))
