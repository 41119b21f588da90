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

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.corpus import join_texts
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import plural
from mha_cli.linear.fit import LinearModel, cross_fit_linear_model, linear_logits
from mha_cli.linear.stacking import fit_stack, probabilities_of

SHARE = 0.5
"""Share of the linear model in a labelled text's target."""

Floats = npt.NDArray[np.float32]


def distilled_targets(config: Config, data: PreparedData, log: Callable[[str], None]) -> tuple[LinearModel, Floats]:
    """The linear model, and the targets of all texts, those without labels last, (N + M, C)."""
    fitted, logits_NU = cross_fit_linear_model(config, data, log)
    weights = loss_weights(config.training.class_weights, data.targets)
    stack = fit_stack(np.zeros_like(logits_NU), logits_NU, data.train.labels, weights)
    targets_NC = (1.0 - SHARE) * data.targets + SHARE * probabilities_of(stack.logits(0.0, logits_NU)).astype(np.float32)
    if data.unlabelled is None:
        return fitted, targets_NC
    log(f"scoring {plural(len(data.unlabelled), 'text')} without labels")
    logits_MU = linear_logits(config, data, data.unlabelled, fitted)
    return fitted, np.concatenate([targets_NC, probabilities_of(stack.logits(0.0, logits_MU)).astype(np.float32)])


def with_targets(data: PreparedData, targets: Floats) -> PreparedData:
    """The data with these targets, (N + M, C); a text without a label has the class that is most probable by them."""
    if data.unlabelled is None:
        return dataclasses.replace(data, targets=targets)
    labels = targets[len(data.train) :].argmax(axis=1).astype(np.int32)
    train = join_texts(data.train, dataclasses.replace(data.unlabelled, labels=labels))
    return dataclasses.replace(data, train=train, targets=targets, unlabelled=None, num_guessed=len(labels))
