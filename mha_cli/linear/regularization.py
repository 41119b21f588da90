"""Regularization and scale of the linear model, chosen by cross-validation.

Source: Stone 1974, "Cross-Validatory Choice and Assessment of Statistical Predictions"; the factor: Platt 1999, "Probabilistic Outputs
for Support Vector Machines", section 2.1.

Axes: N texts, R buckets, U units of the logits.
"""

from dataclasses import replace

import numpy as np

from mha_cli.linear.one_vs_rest import Examples, Regularization, fit_one_vs_rest
from mha_cli.linear.stacking import fit_scale
from mha_cli.sources.targets import are_several, rarest_classes
from mha_cli.system.callbacks import SILENT, Callbacks

CHOICE_FOLDS = 3  # folds of the texts; two are fitted on, and one is held out
MOST_IN_FOLD = 3_000  # texts; others are left out of the choice, since the best C no longer depends on their number
CHOICE_TEXTS = CHOICE_FOLDS * MOST_IN_FOLD
CHOICE_LABELS = 100  # labels that take part in the choice, where texts may have several
ENOUGH = 1_000  # held-out texts that suffice; further folds are skipped
STEP = 3.0  # between one C and the next
MOST_STEPS = 2  # away from the usual C
USUAL_SCALE = 3.3  # mean scale over many data sets, the prior for few texts (`docs/experiments.md`)


def choose_regularization(examples: Examples, seed: int, callbacks: Callbacks = SILENT) -> Regularization:
    """The regularization with the least cross-entropy on texts that a linear model has not learnt from; ``seed`` deals out the folds."""
    if are_several(examples.labels):
        chosen = np.sort(np.random.default_rng(seed).permutation(examples.num_classes)[:CHOICE_LABELS])
        examples = replace(examples, labels=examples.labels[:, chosen], num_classes=len(chosen))
    labels = examples.labels
    order = np.random.default_rng(seed).permutation(len(labels))
    folds = np.empty(len(labels), np.int64)
    folds[order[np.argsort(rarest_classes(labels)[order], kind="stable")]] = np.arange(len(labels)) % max(
        CHOICE_FOLDS, -(-len(labels) // MOST_IN_FOLD)
    )
    held_out = range(min(CHOICE_FOLDS, -(-ENOUGH * CHOICE_FOLDS // len(labels))))
    labels_of_held_out = np.concatenate([labels[folds == fold] for fold in held_out])
    weights = None if examples.repeats is None else np.concatenate([examples.repeats[folds == fold] for fold in held_out])

    def judge(c: float) -> tuple[float, Regularization]:
        usual = Regularization(c, USUAL_SCALE)
        what = f"choosing the regularization of the linear model, C {c:.3g}"
        models = [fit_one_vs_rest(examples.at((folds != fold) & (folds < CHOICE_FOLDS)), usual, callbacks, what) for fold in held_out]
        logits = [model.logits(examples.features[folds == fold]) for fold, model in zip(held_out, models, strict=True)]
        scale, loss = fit_scale(np.concatenate(logits), labels_of_held_out, weights)
        return loss, Regularization(c, scale * USUAL_SCALE)

    start_loss, best = judge(usual_c(examples.total))
    least = start_loss
    for step in (STEP, 1.0 / STEP):
        for _ in range(MOST_STEPS):
            loss, other = judge(best.c * step)
            if loss >= least:
                break
            least, best = loss, other
        if least < start_loss:
            break
    return best


def usual_c(num_texts: float) -> float:
    """C to start with; with few texts it is larger."""
    return max(1.25, 4_500 / num_texts)
