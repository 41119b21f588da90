"""The model beside a labelling: a last layer on features that do not change.

Axes: N texts, D features, C classes, U units of the logits.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from mha_cli.arrays import Bools, Floats
from mha_cli.linear.last_layer import fit_last_layer
from mha_cli.linear.stacking import probabilities_of
from mha_cli.runtime.metrics import are_right
from mha_cli.sources.targets import Labels, are_several


class Model(NamedTuple):
    """A fitted last layer."""

    kernel_DU: Floats
    bias_U: Floats
    several: bool  # whether a text may have several labels

    def probabilities(self, features_ND: Any) -> Floats:
        """Probabilities of all classes, (N, C)."""
        return probabilities_of(np.asarray(features_ND @ self.kernel_DU + self.bias_U), self.several)

    def is_right(self, features_ND: Any, labels: Labels) -> Bools:
        """Whether the answers to texts are their labels, (N,)."""
        return are_right(self.probabilities(features_ND), labels)


def fit_model(features_ND: Any, labels: Labels, num_classes: int, weights: Floats | None = None) -> Model | None:
    """The model of labelled texts; None where they have a single class, or no features, so that there is nothing to learn."""
    several = are_several(labels)
    if len(labels) == 0 or (not several and len(np.unique(labels)) == 1):
        return None
    if not issparse(features_ND):
        return Model(*fit_last_layer(features_ND, labels, num_classes, weights), several)
    columns = np.unique(features_ND.indices)  # the others have no weight, and would take most of the time
    if len(columns) == 0:
        return None
    small_DU, bias_U = fit_last_layer(features_ND[:, columns], labels, num_classes, weights)
    kernel_DU = np.zeros((features_ND.shape[1], len(bias_U)), np.float32)
    kernel_DU[columns] = small_DU
    return Model(kernel_DU, bias_U, several)
