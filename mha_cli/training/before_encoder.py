"""What is computed before the encoder trains: the linear model, and a teacher's probabilities for labelled and unlabelled texts.

The teacher is the linear model, or a finished run. A linear model only repeats the labels of its own training texts, so labelled texts
get out-of-fold probabilities; context weights and stack have learnt from all labels.

Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2; Wolpert 1992, "Stacked Generalization"
(out-of-fold predictions).

Axes: N labelled texts, M texts without a label, U units of the logits, C classes.
"""

import dataclasses
import time
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array, Floats
from mha_cli.config.settings import Config
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import join_texts
from mha_cli.errors import plural
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, linear_logits, refit_linear_model
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.stacking import answers_alone
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.metrics import answers_among
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.computed_once import computed_once
from mha_cli.training.distribution import Arrays, Distribution


def fit_before_encoder(
    config: Config, data: PreparedData, path: Path, callbacks: Callbacks, distribution: Distribution
) -> tuple[PreparedData, LinearModel | None, LinearModel | None, Floats | None]:
    """Score all texts with the teacher, and fit the linear model; the chief does it for all workers.

    The file ``path`` keeps the probabilities of a run that teaches.

    Returns:
        The data that the encoder learns from; the linear model; with ``refit_linear``, the linear model that has learnt from the validation
        part as well; the out-of-fold logits of the first one, if thresholds of labels need them. What the config does not ask for is None.
    """
    arrays = distribution.from_chief(lambda: _fitted_arrays(config, data, path, callbacks))
    linear = refitted = None
    if config.linear:
        linear = LinearModel(arrays["table"], arrays["bias"], arrays.get("context_weights"))
    if linear and config.refits_linear:
        refitted = dataclasses.replace(linear, table=arrays["refitted_table"], bias=arrays["refitted_bias"])
    to_learn = with_taught(data, arrays["taught"]) if "taught" in arrays else data
    return to_learn, linear, refitted, arrays.get("out_of_fold")


def _fitted_arrays(config: Config, data: PreparedData, path: Path, callbacks: Callbacks) -> Arrays:
    arrays, linear, num_labelled = {}, None, len(data.train)
    if data.teacher:
        arrays["taught"] = taught_by_run(data, path, callbacks)
        data = with_taught(data, arrays["taught"])  # the linear model learns from it as well
    if config.linear is None:
        return arrays
    teaches = config.training.teacher == "linear"
    chooses_thresholds = config.is_multi_label and data.pretrained is None  # a pretrained encoder is much better: it needs other thresholds
    if teaches or chooses_thresholds:
        started = time.monotonic()
        linear, logits_NU = cross_fit_linear_model(config, data, callbacks)
        if chooses_thresholds:
            seconds, size = (time.monotonic() - started) / len(data.class_names), 4e-6 * config.linear.buckets
            callbacks.note(f"the linear model takes {seconds:.2f} s and {size:.1f} MB for each of {len(data.class_names):,} labels")
            arrays["out_of_fold"] = logits_NU[:num_labelled]
        if teaches:
            arrays["taught"] = taught_by_linear_model(config, data, linear, logits_NU, callbacks)
    linear = linear or fit_linear_model(config, data, callbacks)
    arrays |= {**linear.weights, "bias": linear.bias}
    if config.refits_linear:
        refitted = refit_linear_model(config, data, linear, callbacks)
        arrays |= {"refitted_table": refitted.table, "refitted_bias": refitted.bias}
    return arrays


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
    score, names = Scorer(teacher.always_encoding), teacher.class_names
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
