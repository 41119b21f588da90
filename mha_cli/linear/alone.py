"""How sure the linear model has to be to answer alone, from held-out texts with one label each.

Axes: N texts, U units of the logits.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from mha_cli.arrays import Floats
from mha_cli.checkpoint.linear_alone import LinearAlone, distances
from mha_cli.linear.stacking import probabilities_of

LEAST_TEXTS, LEAST_SHARE = 250, 0.2  # held-out texts that the margin needs, and their share that has to be answered alone to be worth it
SAFETY = 1.25  # factor of the largest lead that the encoder has overcome: other texts change in fewer than one of a thousand answers
SMALLEST = 1e-7  # probability


def fit_linear_alone(linear_NU: Floats, encoder_NU: Floats) -> LinearAlone | None:
    """The margin beyond which the encoder changes no answer; None where too few answers are that sure.

    It is the largest move of an answer against another one or, where that is less, a little more than the largest lead that was overcome.

    Args:
        linear_NU: what the linear model adds to the logits of held-out texts.
        encoder_NU: what the encoder and all biases add.
    """
    shift_U = encoder_NU.mean(axis=0)
    alone_NU, moved_NU = linear_NU + shift_U, encoder_NU - shift_U
    if len(shift_U) == 1:
        against_NU = -np.sign(alone_NU) * moved_NU
        is_overcome_N = against_NU[:, 0] > np.abs(alone_NU[:, 0])
    else:
        answers_N = alone_NU.argmax(axis=1)
        against_NU = moved_NU - np.take_along_axis(moved_NU, answers_N[:, None], axis=1)
        is_overcome_N = (linear_NU + encoder_NU).argmax(axis=1) != answers_N
    overcome = distances(alone_NU)[is_overcome_N].max(initial=0.0)
    rule = LinearAlone(float(min(against_NU.max(initial=0.0), SAFETY * overcome)), 1.0, tuple(shift_U.tolist()))
    is_sure_N = rule.is_sure(linear_NU)
    if len(linear_NU) < LEAST_TEXTS or is_sure_N.mean() < LEAST_SHARE:
        return None
    wanted_NC = probabilities_of((linear_NU + encoder_NU)[is_sure_N])

    def cross_entropy(log_scale: float) -> float:
        given_NC = probabilities_of(np.exp(log_scale) * alone_NU[is_sure_N])
        return -float((wanted_NC * np.log(np.maximum(given_NC, SMALLEST))).sum())

    log_scale = minimize_scalar(cross_entropy, bounds=(-2.0, 2.0), method="bounded").x
    return LinearAlone(rule.margin, float(np.exp(log_scale)), rule.shift)
