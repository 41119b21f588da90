"""What is computed before the encoder trains: the teacher's probabilities and the linear model."""

import dataclasses
import time
from pathlib import Path

from mha_cli.arrays import Floats
from mha_cli.config.settings import Config
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, refit_linear_model
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.distillation import taught_by_linear_model, taught_by_run, with_taught
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
