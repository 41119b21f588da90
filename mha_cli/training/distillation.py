"""Distillation: targets for labelled and unlabelled texts, from the answers of a teacher.

The teacher is the linear model, or a finished run. A linear model only repeats the labels of its own training texts, so its answers to
labelled texts are out-of-fold; context weights and stack have learnt from all labels.

Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2 (targets of both kinds); Wolpert 1992,
"Stacked Generalization" (answers from the other folds).

Axes: N labelled texts, M texts without a label, U units of the logits, C classes.
"""

import dataclasses
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.corpus import join_texts
from mha_cli.errors import plural
from mha_cli.linear.fit import linear_logits
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.stacking import answers_alone
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.metrics import answers_among
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.targets import are_several, one_hot
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.computed_once import computed_once

SHARE = 0.5  # share of the teacher in a labelled text's target


def answers_of_linear_model(config: Config, data: PreparedData, fitted: LinearModel, logits_NU: Floats, callbacks: Callbacks) -> Array:
    """The answers of the linear model to all texts, float16 (N + M, C): by its out-of-fold logits (N, U) for those with a label."""
    weights = loss_weights(config, data.train, len(data.class_names))
    if data.unlabelled is not None:
        callbacks.log(f"scoring {plural(len(data.unlabelled), 'text')} without labels")
        logits_NU = np.concatenate([logits_NU, linear_logits(config, data, data.unlabelled, fitted)])
    return answers_alone(logits_NU, data.train.labels, weights, np.float16)


def answers_of_run(data: PreparedData, path: Path, callbacks: Callbacks) -> Floats:
    """The answers of the run that teaches to all texts, (N + M, C), computed once and kept in a file."""
    assert data.teacher
    teacher, texts = data.teacher
    scorer, names = Scorer(teacher), teacher.class_names
    answers = computed_once(lambda rows: scorer(texts.subset(rows)), (len(texts), len(names)), path, "the teacher's answers", callbacks)
    return answers[:, [names.index(name) for name in data.class_names]]


def with_answers(data: PreparedData, answers: Array) -> PreparedData:
    """The data with a teacher's answers, (N + M, C); a text without a label has the class that is most probable by them.

    Where texts may have several labels, it gets those whose probability is above one half.
    """
    guessed = answers[len(data.train) :]
    data = dataclasses.replace(data, answers=answers.astype(np.float16, copy=False))
    if data.unlabelled is None:
        return data
    labels = answers_among(guessed, are_several(data.train.labels)).astype(data.train.labels.dtype)
    train = join_texts(data.train, dataclasses.replace(data.unlabelled, labels=labels))
    return dataclasses.replace(data, train=train, unlabelled=None, num_guessed=len(labels))


def targets_of(data: PreparedData, rows: Rows) -> Floats:
    """Target probabilities of the classes, (B, C), for some texts of the training part: by their labels, and by a teacher's answers."""
    targets = one_hot(data.train.labels[rows], len(data.class_names))
    if data.answers is None:
        return targets
    shares = np.where(rows < len(data.train) - data.num_guessed, SHARE, 1.0).astype(np.float32)
    return targets + shares[:, None] * (data.answers[rows].astype(np.float32) - targets)
