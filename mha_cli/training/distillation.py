"""Distillation: targets for labelled and unlabelled texts, from the probabilities that a teacher predicts.

The teacher is the linear model, or a finished run. A linear model only repeats the labels of its own training texts, so labelled texts
get out-of-fold probabilities; context weights and stack have learnt from all labels.

Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2 (both kinds of targets); Wolpert 1992,
"Stacked Generalization" (out-of-fold predictions).

Axes: N labelled texts, M texts without a label, U units of the logits, C classes.
"""

import dataclasses
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import join_texts
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

TEACHER_SHARE = 0.5  # share of the teacher in a labelled text's target


def taught_by_linear_model(config: Config, data: PreparedData, linear: LinearModel, logits_NU: Floats, callbacks: Callbacks) -> Array:
    """The linear model's probabilities for all texts, float16 (N + M, C); ``logits_NU`` are its out-of-fold logits of labelled texts."""
    weights = loss_weights(config, data.train, len(data.class_names))
    if data.unlabelled is not None:
        callbacks.log(f"scoring {plural(len(data.unlabelled), 'text')} without labels")
        logits_NU = np.concatenate([logits_NU, linear_logits(config, data, data.unlabelled, linear)])
    return answers_alone(logits_NU, data.train.labels, weights, np.float16)


def taught_by_run(data: PreparedData, path: Path, callbacks: Callbacks) -> Floats:
    """The probabilities of a run that teaches for all texts, (N + M, C), computed once and kept in a file."""
    assert data.teacher
    teacher, texts = data.teacher
    score, names = Scorer(teacher), teacher.class_names
    taught = computed_once(lambda rows: score(texts.subset(rows)), (len(texts), len(names)), path, "the teacher's answers", callbacks)
    return taught[:, [names.index(name) for name in data.class_names]]


def with_taught(data: PreparedData, taught: Array) -> PreparedData:
    """The data with a teacher's probabilities, (N + M, C), which also label the unlabelled texts.

    The label is the most probable class. If texts may have several labels, it is every label with a probability above one half.
    """
    data = dataclasses.replace(data, taught=taught.astype(np.float16, copy=False))
    if data.unlabelled is None:
        return data
    labels = answers_among(taught[len(data.train) :], are_several(data.train.labels)).astype(data.train.labels.dtype)
    train = join_texts(data.train, dataclasses.replace(data.unlabelled, labels=labels))
    return dataclasses.replace(data, train=train, unlabelled=None, num_guessed=len(labels))


def targets_of(data: PreparedData, rows: Rows) -> Floats:
    """Target probabilities of the classes, (B, C), for texts of the training part, by their labels and by the teacher, if there is one."""
    targets = one_hot(data.train.labels[rows], len(data.class_names))
    if data.taught is None:
        return targets
    shares = np.where(rows < len(data.train) - data.num_guessed, TEACHER_SHARE, 1.0).astype(np.float32)
    return targets + shares[:, None] * (data.taught[rows].astype(np.float32) - targets)
