"""A logistic regression on features that do not change, such as those of a frozen encoder: the last layer of a classifier.

Axes: N texts, D features, U units of the logits.
"""

from typing import Any

import numpy as np

from mha_cli.arrays import Array, Bools, Floats
from mha_cli.config.parameters import num_outputs
from mha_cli.sources.targets import are_several

STRENGTHS = (0.1, 1.0, 10.0)  # candidates for scikit-learn's C; cross-validation chooses
FOLDS = 3
ABSENT_LOGIT = -10.0  # logit of a class that has no text


def fit_last_layer(features_ND: Any, labels: Array, num_classes: int, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Kernel (D, U) and bias (U,) of the logistic regression; ``features_ND`` may be sparse, and a class may lack texts.

    ``labels`` are numbers of classes, (N,), or where a text may have several, (N, C) of bools.
    """
    if are_several(labels):
        kernels, biases = zip(*(_fit_label(features_ND, is_label, weights) for is_label in labels.T), strict=True)
        return np.stack(kernels, axis=1).astype(np.float32), np.array(biases, np.float32)
    folds = min(FOLDS, int(np.bincount(labels)[np.unique(labels)].min()))
    fitted = _regression(features_ND, labels, folds, weights)
    if len(fitted.classes_) == num_classes:
        return fitted.coef_.T.astype(np.float32), fitted.intercept_.astype(np.float32)
    kernel_DU = np.zeros((features_ND.shape[1], num_outputs(num_classes)), np.float32)
    bias_U = np.full(num_outputs(num_classes), ABSENT_LOGIT, np.float32)
    bias_U[fitted.classes_] = 0.0
    class_ids = fitted.classes_[-len(fitted.intercept_) :]  # of two classes the second one
    kernel_DU[:, class_ids], bias_U[class_ids] = fitted.coef_.T, fitted.intercept_
    return kernel_DU, bias_U


def _fit_label(features_ND: Any, is_label: Bools, weights: Floats | None) -> tuple[Floats, float]:
    """Kernel (D,) and bias of one label, of texts that may have several."""
    num_with, num_without = is_label.sum(), (~is_label).sum()
    if min(num_with, num_without) < FOLDS:  # too few to cross-validate: the label's share of the texts alone
        return np.zeros(features_ND.shape[1], np.float32), float(np.log((num_with + 0.5) / (num_without + 0.5)))
    fitted = _regression(features_ND, is_label, FOLDS, weights)
    return fitted.coef_[0], float(fitted.intercept_[0])


def _regression(features_ND: Any, labels: Array, folds: int, weights: Floats | None = None) -> Any:
    """A fitted logistic regression; cross-validation chooses its strength, if there are at least two ``folds``."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    def model(strength: float) -> Any:
        return LogisticRegression(C=strength, max_iter=1_000)

    def score(strength: float) -> float:
        params = {} if weights is None else {"sample_weight": weights}
        scores = cross_val_score(model(strength), features_ND, labels, scoring="neg_log_loss", cv=folds, params=params)
        return float(scores.mean())

    best = max(STRENGTHS, key=score) if folds > 1 else STRENGTHS[-1]  # a class with a single text cannot be left out
    return model(best).fit(features_ND, labels, weights)
