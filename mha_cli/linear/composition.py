"""A classifier's weights of its encoder and its linear model, and back.

Axes: D model width, R buckets, U units of the logits.
"""

from collections.abc import Mapping

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.parameters import num_outputs
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.linear.regularization import USUAL_SCALE
from mha_cli.linear.stacking import Stack


def compose(encoder: Mapping[str, Floats], fitted: LinearModel | None, stack: Stack) -> dict[str, Floats]:
    """The weights of a classifier, by path, from its encoder and its linear model, each scaled by the stack."""
    kernel = encoder["classifier/kernel"] * stack.encoder_weight
    bias = encoder["classifier/bias"] * stack.encoder_weight + stack.bias
    linear = {}
    if fitted is not None:
        kernel = np.concatenate([kernel, np.eye(len(bias)) * stack.linear_weight])
        bias = bias + fitted.bias * stack.linear_weight
        linear = {f"linear/{name}": weight for name, weight in fitted.weights.items()}
    return {**encoder, "classifier/kernel": kernel.astype(np.float32), "classifier/bias": bias.astype(np.float32), **linear}


def decompose(weights: Mapping[str, Floats]) -> tuple[dict[str, Floats], LinearModel | None]:
    """The encoder's weights and the linear model, if there is one, of a classifier's weights by path."""
    if "linear/table" not in weights:
        return dict(weights), None
    encoder = {path: weight for path, weight in weights.items() if not path.startswith("linear/")}
    encoder["classifier/kernel"] = encoder["classifier/kernel"][: -len(encoder["classifier/bias"])]
    no_bias = np.zeros_like(encoder["classifier/bias"])  # it has gone into the classifier's
    return encoder, LinearModel(weights["linear/table"], no_bias, weights.get("linear/context_weights"))


def encoder_of(base: Checkpoint, num_classes: int) -> dict[str, Floats]:
    """The encoder's weights of a checkpoint to train on, with a unit for each of two classes where there are more now."""
    encoder, _ = decompose(base.weights)
    head = {path: _units(encoder[path], base, num_classes) for path in ("classifier/kernel", "classifier/bias")}
    return encoder | head


def linear_of(base: Checkpoint, num_classes: int, context_words: int) -> LinearModel | None:
    """The linear model of a checkpoint to train on; a new class is never its answer, and it reads a new word like any rare word."""
    _, linear = decompose(base.weights)
    if linear is None:
        return None
    bias = base.weights["classifier/bias"] / base.weights["classifier/kernel"][-1, -1]  # the stack's weight of the linear model
    table, bias, context = _units(linear.table, base, num_classes), _units(bias, base, num_classes), linear.context_weights
    further = num_outputs(num_classes, base.config.is_multi_label) - len(bias)
    if context is not None:
        context = np.pad(context, ((0, context_words - len(context)), (0, 0)), "edge")
    return LinearModel(np.pad(table, ((0, 0), (0, further))), np.pad(bias, (0, further), constant_values=-USUAL_SCALE), context)


def _units(weights: Floats, base: Checkpoint, num_classes: int) -> Floats:
    """The unit of two classes, (…, 1), as two units, (…, 2), of the same probabilities, if there are more classes now."""
    if weights.shape[-1] == 1 < num_outputs(num_classes, base.config.is_multi_label):
        return np.concatenate([-0.5 * weights, 0.5 * weights], axis=-1)
    return weights
