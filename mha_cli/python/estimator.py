"""mha as a scikit-learn classifier."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import InputTags, Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from mha_cli.arrays import Array, Floats
from mha_cli.config.loading import section_of
from mha_cli.errors import MhaError, printable
from mha_cli.python.api import train
from mha_cli.sources.in_memory import texts_in
from mha_cli.sources.labels import class_name, is_missing


class MHAClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of texts with scikit-learn's interface.

    Args:
        recipe: recipe by its name, path of a YAML config, or its content as a dict; as of ``mha_cli.train``.
        settings: settings by their names, as of ``mha_cli.train``; ``GridSearchCV`` may search any.

    Attributes:
        classes_: distinct labels in their order, (C,); where a text may have several, the numbers of the columns of ``y``.
        model_: ``mha_cli.Classifier`` that was trained.
    """

    def __init__(self, recipe: Any = "text", **settings: Any) -> None:
        self.recipe = recipe
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The recipe, and the settings that take the place of its own; ``deep`` has no meaning."""
        return {"recipe": self.recipe, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Change the recipe, or settings by their names.

        Raises:
            ValueError: there is no such setting.
        """
        for name in params.keys() - {"recipe"}:
            try:
                section_of(name)
            except MhaError as error:
                raise ValueError(str(error)) from None
        self.recipe = params.pop("recipe", self.recipe)
        self.settings = {**self.settings, **params}
        return self

    def fit(self, X: Sequence[str], y: Any = None, sample_weight: Any = None) -> Self:
        """Train on texts and their labels, N each, or where a text may have several, on a matrix (N, C) of 0 and 1.

        With the setting ``classes``, the classes in words, texts need no labels.

        ``sample_weight`` is how much each text counts, (N,): 2 as if it were there twice, 0 not at all. The recipe holds a part of
        the texts out for validation.

        Raises:
            ValueError: there is not one label for every text, or scikit-learn takes the labels for no classes.
        """
        for name in self.settings:
            section_of(name)  # refuses other arguments of train()
        texts, targets = _texts_of(X), np.asarray(y, dtype=object)
        if y is None:
            if not self.settings.get("classes"):
                raise ValueError("MHAClassifier requires y to be passed, but the target y is None, and there is no setting classes.")
            self.model_ = train(self.recipe, texts, **self.settings)
            self.classes_ = np.array(self.model_.classes)
            return self
        weights = None if sample_weight is None else column_or_1d(sample_weight).tolist()
        check_consistent_length(texts, weights)
        if weights is not None and not any(weights):
            raise ValueError("Every weight in sample_weight is zero.")
        if targets.ndim == 1 and any(map(is_missing, targets)):
            raise ValueError("Input y contains NaN.")  # scikit-learn's message, which it gives for some objects only
        check_classification_targets(y)
        if type_of_target(y) == "multilabel-indicator":
            check_consistent_length(texts, y)
            given = y.toarray() if issparse(y) else np.asarray(y)
            self.model_ = train(self.recipe, texts, [np.flatnonzero(row).tolist() for row in given], weights=weights, **self.settings)
            self.classes_ = np.arange(given.shape[1])
            return self
        labels = column_or_1d(y, warn=True)
        check_consistent_length(texts, labels)
        classes, names = np.unique(labels), dict[str, Any]()
        for label in classes.tolist():
            name = class_name(label, "y")
            if name in names:
                spellings = f"{printable(repr(names[name]))} and {printable(repr(label))}"
                raise MhaError(f"y: {spellings} are both the class {printable(name)}", "spell each class in one way")
            names[name] = label
        self.model_ = train(self.recipe, texts, labels.tolist(), weights=weights, **self.settings)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Sequence[str]) -> Floats:
        """Probabilities of all classes, (N, C), in the order of ``classes_``."""
        check_is_fitted(self)
        names = [class_name(label, "classes_") for label in self.classes_.tolist()]
        rows = [[prediction.probabilities.get(name, 0.0) for name in names] for prediction in self.model_.predict(_texts_of(X))]
        return np.array(rows, np.float32).reshape(-1, len(names))

    def predict(self, X: Sequence[str]) -> Array:
        """The most probable class of every text, (N,), or where a text may have several, a matrix (N, C) of 0 and 1."""
        check_is_fitted(self)
        if self.model_.checkpoint.config.is_multi_label:
            thresholds = dict(zip(self.model_.classes, self.model_.checkpoint.label_thresholds, strict=True))
            return (self.predict_proba(X) >= [thresholds.get(str(label), 1.0) for label in self.classes_]).astype(int)
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def __sklearn_tags__(self) -> Tags:
        """scikit-learn's tags of an estimator that reads texts."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags = InputTags(one_d_array=True, two_d_array=False, string=True)
        return tags


def _texts_of(X: Any) -> list[str]:
    """The texts of a sequence, an array or the columns of a table: several columns are one text."""
    texts = np.asarray(X, dtype=object)
    if texts.ndim == 2 and texts.shape[1] == 1:
        texts = texts[:, 0]
    if texts.ndim == 0:
        return texts_in(X)
    if texts.ndim > 2 or (texts.ndim == 2 and not all(isinstance(part, str) or is_missing(part) for part in texts.flat)):
        raise ValueError(f"Expected a sequence of texts, got an array of shape {texts.shape} instead")
    return texts_in(texts.tolist())
