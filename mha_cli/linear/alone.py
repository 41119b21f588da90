"""How sure the linear model has to be to answer alone, from held-out texts with one label each.

Axes: N texts, U units of the logits.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from mha_cli.arrays import Floats
from mha_cli.checkpoint.linear_alone import LinearAlone, distances
from mha_cli.linear.stacking import probabilities_of

LEAST_SHARE = 0.2  # of the held-out texts that has to be answered alone to be worth it
LEAST_OF_MOVES, LEAST_OF_LEADS = 100, 250  # held-out texts that a margin needs: by moves, by leads that were overcome
SAFETY = 1.5  # factor of the largest lead that was overcome: of other answers, fewer than one in a thousand change
SMALLEST = 1e-7  # probability


def fit_linear_alone(linear_NU: Floats, encoder_NU: Floats) -> LinearAlone | None:
    """The margin beyond which the encoder changes no answer; None where too few answers are that sure.

    It is the largest move of an answer against another one. Where that is too much, it is more than the largest lead that was overcome.

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
    for margin, least_texts in ((against_NU.max(initial=0.0), LEAST_OF_MOVES), (SAFETY * overcome, LEAST_OF_LEADS)):
        rule = LinearAlone(float(margin), 1.0, tuple(shift_U.tolist()))
        is_sure_N = rule.is_sure(linear_NU)
        if len(linear_NU) >= least_texts and is_sure_N.mean() >= LEAST_SHARE:
            break
    else:
        return None
    wanted_NC = probabilities_of((linear_NU + encoder_NU)[is_sure_N])

    def cross_entropy(log_scale: float) -> float:
        given_NC = probabilities_of(np.exp(log_scale) * alone_NU[is_sure_N])
        return -float((wanted_NC * np.log(np.maximum(given_NC, SMALLEST))).sum())

    log_scale = minimize_scalar(cross_entropy, bounds=(-2.0, 2.0), method="bounded").x
    return LinearAlone(rule.margin, float(np.exp(log_scale)), rule.shift)
