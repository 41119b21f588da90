"""How sure the linear model has to be to answer alone, from held-out texts.

Axes: N texts, C classes, U units of the logits.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from mha_cli.arrays import Floats
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.linear.stacking import probabilities_of

LEAST_TEXTS, LEAST_SHARE = 200, 0.2  # held-out texts that the margin needs, and their share that has to be answered alone to be worth it
SMALLEST = 1e-7  # probability


def fit_linear_alone(linear_NU: Floats, encoder_NU: Floats, thresholds_C: Floats | None) -> LinearAlone | None:
    """The margin beyond which the encoder has changed no answer; None where too few answers are that sure.

    Args:
        linear_NU: what the linear model adds to the logits of held-out texts.
        encoder_NU: what the encoder and all biases add.
        thresholds_C: thresholds of labels where a text may have several; else None.
    """
    shift_U = encoder_NU.mean(axis=0)
    alone_NU, moved_NU = linear_NU + shift_U, encoder_NU - shift_U
    if thresholds_C is not None:  # which may be changed later, so that both directions count
        against_NU = np.abs(moved_NU)
    elif alone_NU.shape[1] == 1:
        against_NU = -np.sign(alone_NU) * moved_NU
    else:
        answers = alone_NU.argmax(axis=1)[:, None]
        against_NU = moved_NU - np.take_along_axis(moved_NU, answers, axis=1)
        np.put_along_axis(against_NU, answers, 0.0, axis=1)
    rule = LinearAlone(max(0.0, float(against_NU.max(initial=0.0))), 1.0, tuple(shift_U.tolist()))
    is_sure_N = rule.is_sure(linear_NU, thresholds_C)
    if len(linear_NU) < LEAST_TEXTS or is_sure_N.mean() < LEAST_SHARE:
        return None
    several, sure_NU = thresholds_C is not None, linear_NU[is_sure_N]
    wanted_NC = probabilities_of(sure_NU + encoder_NU[is_sure_N], several)

    def cross_entropy(log_scale: float) -> float:
        given_NC = probabilities_of(LinearAlone(0.0, float(np.exp(log_scale)), rule.shift).logits(sure_NU, thresholds_C), several)
        losses_NC = wanted_NC * np.log(np.maximum(given_NC, SMALLEST))
        if several:
            losses_NC += (1.0 - wanted_NC) * np.log(np.maximum(1.0 - given_NC, SMALLEST))
        return -float(losses_NC.sum())

    log_scale = minimize_scalar(cross_entropy, bounds=(-2.0, 2.0), method="bounded").x
    return LinearAlone(rule.margin, float(np.exp(log_scale)), rule.shift)
