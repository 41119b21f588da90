"""Learning from n-gram scores: what they say of a text is part of its target, and of a text without a label all of it.

Of a text that they have learnt from, scores only repeat the label. So what they say of a labelled text comes from tables that were
fitted on others. The salience, and what makes logits of scores, have learnt from all labels.

Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2 (targets of both kinds); Wolpert 1992,
"Stacked Generalization" (answers from the other folds).

Axes: N labelled texts, M texts without a label, U units of a score, C classes.
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
"""Of a labelled text's target that the scores give."""


def distilled(
    config: Config, data: PreparedData, log: Callable[[str], None], distribution: Distribution
) -> tuple[PreparedData, LinearModel]:
    """The data with targets from n-gram scores, the texts without labels among those to learn from; and the scores.

    Args:
        config: settings of the run; the model's scores are those that teach.
        data: texts to learn from, and those without labels, if there are any.
    """

    def targets() -> list[npt.NDArray[Any]]:
        fitted, scores_NU = cross_fit_linear_model(config, data, log)
        weights = loss_weights(config.training.class_weights, data.targets)
        stack = fit_stack(np.zeros_like(scores_NU), scores_NU, data.train.labels, weights)

        def said(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            return probabilities_of(stack.logits(np.zeros_like(scores), scores)).astype(np.float32)

        labelled_NC = (1.0 - SHARE) * data.targets + SHARE * said(scores_NU)
        if data.unlabelled is None:
            return [labelled_NC, *fitted.arrays()]
        log(f"scoring {plural(len(data.unlabelled), 'text')} without labels")
        return [labelled_NC, said(linear_logits(config, data, data.unlabelled, fitted)), *fitted.arrays()]

    labelled_NC, *arrays = distribution.from_chief(targets)
    taught = dataclasses.replace(data, targets=labelled_NC)
    if data.unlabelled is not None:
        taught = with_guesses(taught, data.unlabelled, arrays.pop(0))
    return taught, LinearModel.from_arrays(arrays)


def with_guesses(data: PreparedData, texts: EncodedTexts, targets: npt.NDArray[np.float32]) -> PreparedData:
    """Texts without labels among those to learn from, as the classes that ``targets`` (M, C) gives them."""
    train = join_texts(data.train, dataclasses.replace(texts, labels=targets.argmax(axis=1).astype(np.int32)))
    targets = np.concatenate([data.targets, targets])
    return dataclasses.replace(data, train=train, targets=targets, unlabelled=None, num_guessed=len(texts))
