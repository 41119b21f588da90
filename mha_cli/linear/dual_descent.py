"""Linear support vector machines for any number of texts: all classes at once, one text after another.

Few passes come close to the optimum of some hundred texts or more. Below 100 texts, six passes are far from it. Such texts rarely come
here: their usual C is above ``LARGEST_DUAL_C`` of `one_vs_rest.py`. The last pass leaves noise from the texts that came last; the mean of
the weights over that pass has less of it.

Source: Hsieh et al. 2008, "A Dual Coordinate Descent Method for Large-Scale Linear SVM", algorithm 1, with the squared hinge loss and a
feature of 1 as bias, as in LIBLINEAR; the mean: Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging".

Axes: N texts, F features, f those of one text, C classes, U units of the logits, K kinds of texts.
"""

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.config.parameters import num_outputs
from mha_cli.linear.stored_features import StoredFeatures
from mha_cli.sources.targets import Labels, are_several
from mha_cli.system.callbacks import Callbacks, counted_down

PASSES = 3  # over the texts; twice as many over few texts, unless they add to an earlier model
FEW_TEXTS = 50_000


def dual_descent(
    features: StoredFeatures,
    labels: Labels,
    num_classes: int,
    c: Floats,
    shift_F: Floats,
    scale_F: Floats,
    callbacks: Callbacks,
    what: str,
    start_NU: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Weights, (F, U), and bias, (U,), of (features - ``shift_F``) · ``scale_F``.

    Args:
        labels: class ids, (N,), or the classes that each text has, (N, C).
        c: inverse strength of the regularization for each text, (N,), or text and unit, (N, U): C of scikit-learn times the weight.
        what: name of the fit, for progress.
        start_NU: margins that the weights add to, as of earlier weights from which few steps lead away; None for none.
    """
    units = num_outputs(num_classes, are_several(labels))
    # 1 where a text is of the unit's class, else -1: a row for each text that may have several, else for each class
    signs_KU = 2 * (labels.astype(np.int8) if are_several(labels) else np.eye(num_classes, dtype=np.int8)[:, -units:]) - 1
    row_of_N = np.arange(len(labels)) if are_several(labels) else labels
    weights_FU, moved_FU = (np.zeros((features.num_columns, units), np.float32) for _ in range(2))
    bias_U, moved_U = np.zeros(units, np.float32), np.zeros(units, np.float32)
    duals_NU = np.zeros((len(labels), units), np.float32)  # each with the sign of its text
    softness = 0.5 / c
    rng = np.random.default_rng(0)
    passes = 2 * PASSES if start_NU is None and len(c) < FEW_TEXTS else PASSES
    for number in range(1, passes + 1):
        order = rng.permutation(len(c))
        for done in counted_down(range(len(order)), f"{what}, pass {number} of {passes}, text", callbacks):
            row = order[done]
            columns_f, values_f = features.row(row)
            x_f = (values_f - shift_F[columns_f]) * scale_F[columns_f]
            weights_fU, sign_U, dual_U = weights_FU[columns_f], signs_KU[row_of_N[row]], duals_NU[row]
            slack_U = sign_U - x_f @ weights_fU - bias_U - softness[row] * dual_U
            if start_NU is not None:
                slack_U -= start_NU[row]
            step_U = sign_U * np.maximum(sign_U * (dual_U + slack_U / (x_f @ x_f + 1.0 + softness[row])), 0.0) - dual_U
            duals_NU[row] += step_U
            step_fU = x_f[:, None] * step_U
            weights_FU[columns_f] = weights_fU + step_fU
            bias_U += step_U
            if number == passes:  # the mean lacks a step in as many of the texts as came before it
                before = np.float32(done / len(order))
                moved_FU[columns_f] += before * step_fU
                moved_U += before * step_U
    weights_FU -= moved_FU
    return weights_FU, bias_U - moved_U
