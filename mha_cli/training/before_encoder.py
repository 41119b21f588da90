"""What is computed before the encoder: the teacher's answers and the linear model."""

import dataclasses
import time
from pathlib import Path

from mha_cli.arrays import Floats
from mha_cli.config.settings import Config
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, refit_linear_model
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.distillation import answers_of_linear_model, answers_of_run, with_answers
from mha_cli.training.distribution import Arrays, Distribution


def fit_before_encoder(
    config: Config, data: PreparedData, path: Path, callbacks: Callbacks, distribution: Distribution
) -> tuple[PreparedData, LinearModel | None, LinearModel | None, Floats | None]:
    """Ask the teacher, whose answers ``path`` keeps, and fit the linear model, with ``refit_linear`` twice; the chief does it for all.

    Returns:
        The data that the encoder learns from, the two models, and out-of-fold logits of the first; None for what the config does not ask
        for.
    """
    arrays = distribution.from_chief(lambda: _fitted(config, data, path, callbacks))
    linear = refitted = None
    if config.linear:
        linear = LinearModel(arrays["table"], arrays["bias"], arrays.get("context_weights"))
    if linear and config.refits_linear:
        refitted = dataclasses.replace(linear, table=arrays["refitted_table"], bias=arrays["refitted_bias"])
    to_learn = with_answers(data, arrays["answers"]) if "answers" in arrays else data
    return to_learn, linear, refitted, arrays.get("out_of_fold")


def _fitted(config: Config, data: PreparedData, path: Path, callbacks: Callbacks) -> Arrays:
    arrays, linear, num_labelled, teaches = {}, None, len(data.train), config.training.teacher == "linear"
    if data.teacher:
        arrays["answers"] = answers_of_run(data, path, callbacks)
        data = with_answers(data, arrays["answers"])  # the linear model learns from them as well
    if config.linear is None:
        return arrays
    chooses = config.is_multi_label and data.pretrained is None  # a pretrained encoder is much better, so its thresholds are others
    if teaches or chooses:
        started = time.monotonic()
        linear, logits_NU = cross_fit_linear_model(config, data, callbacks)
        if chooses:
            cost, size = (time.monotonic() - started) / len(data.class_names), 4e-6 * config.linear.buckets
            callbacks.note(f"the linear model takes {cost:.2f} s and {size:.1f} MB for each of {len(data.class_names):,} labels")
        if teaches:
            arrays["answers"] = answers_of_linear_model(config, data, linear, logits_NU, callbacks)
        if chooses:
            arrays["out_of_fold"] = logits_NU[:num_labelled]
    linear = linear or fit_linear_model(config, data, callbacks)
    arrays |= {**linear.weights, "bias": linear.bias}
    if config.refits_linear:
        refitted = refit_linear_model(config, data, linear, callbacks)
        arrays |= {"refitted_table": refitted.table, "refitted_bias": refitted.bias}
    return arrays
