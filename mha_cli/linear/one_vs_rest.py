"""A linear support vector machine per class, one against the rest, on weighted features.

It can also read the sum of a text's n-gram embeddings. The logit of that sum is the sum of the logits of the embeddings, so one table
holds both.

A feature's weight is its inverse document frequency times the square root of how far its log-odds ratio lies from zero, as the root
mean square over the classes, weighted by their texts. One matrix serves all classes, so that many of them cost no more than the solver
takes.

Source: Spärck Jones 1972, "A Statistical Interpretation of Term Specificity and Its Application in Retrieval"; Monroe, Colaresi and Quinn
2008, "Fightin' Words: Lexical Feature Selection and Evaluation for Identifying the Content of Political Conflict", eq. 15 (the ratio, with
a prior); weighing features by such ratios is NB-SVM's idea (Wang and Manning 2012, "Baselines and Bigrams", section 2.3). The solver: Hsieh
et al. 2008, "A Dual Coordinate Descent Method for Large-Scale Linear SVM", algorithm 1.

Axes: N texts, R buckets, F buckets that occur, C classes, U units of the logits, D width of an embedding.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from mha_cli.arrays import Bools, Float64s, Floats, Int64s
from mha_cli.config.parameters import num_outputs
from mha_cli.linear.dual_descent import dual_descent
from mha_cli.linear.features import NgramEmbeddings
from mha_cli.linear.stored_features import StoredFeatures, stored
from mha_cli.sources.targets import Labels, are_several, class_sizes, has_class, one_hot
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down

TOLERANCE = 1e-2  # tolerance of the solver; a smaller one changes only digits that do not generalize
LARGEST_DUAL_C = 30.0  # beyond it, dual coordinate descent converges slowly, and texts are few: the primal solver is quick
MOST_ONE_BY_ONE = 14_000  # features of a text × units × ∛C, since a large C takes passes, up to which a solver per unit is quicker
MOST_PRIOR_TEXTS = 3  # texts of the usual mix of classes that are added to those that have a feature: as many as classes, at most these
FOLDS = 5  # folds of the texts; each gets out-of-fold logits from a model of the others
FOLDS_OF_MANY = 2  # the same where the features are not in memory at once: half of so many texts suffice


class Coefficients(NamedTuple):
    """The table of logits, (R, U), and the bias, (U,). A unit is a class, or the second of two classes."""

    table: Floats
    bias: Floats

    def logits(self, features: Any) -> Floats:
        """The logits of texts, (N, U)."""
        logits_NU: Floats = features @ self.table
        logits_NU += self.bias
        return logits_NU


@dataclass(frozen=True)
class Examples:
    """What a linear model is fitted on."""

    features: Any  # sparse (N, R), from ``features.text_features``, or of any number of texts ``StoredFeatures``
    labels: Labels  # class ids, (N,), or the classes that each text has, (N, C)
    num_classes: int  # C
    weights: Floats  # weight of each text's loss, (N,)
    embeddings: NgramEmbeddings | None = None  # with them, the model also reads their sum over a text
    repeats: Floats | None = None  # how often each text counts, (N,), where ``weights`` balance classes as well; None for once each
    earlier: Coefficients | None = None  # model that the fit adds to and stays near, for ``StoredFeatures`` alone

    @property
    def units(self) -> int:
        """Units of the logits, U."""
        return num_outputs(self.num_classes, are_several(self.labels))

    @property
    def total(self) -> float:
        """Number of texts, by how often they count."""
        return len(self.labels) if self.repeats is None else float(self.repeats.sum(dtype=np.float64))

    def at(self, rows: Bools) -> Self:
        """The texts of some rows."""
        repeats = None if self.repeats is None else self.repeats[rows]
        return replace(self, features=self.features[rows], labels=self.labels[rows], weights=self.weights[rows], repeats=repeats)


class Regularization(NamedTuple):
    """Regularization of the solver, and scale of its output; see ``choose_regularization``."""

    c: float  # inverse strength, C of scikit-learn, for texts whose root mean square norm is 1
    scale: float  # logit of the solver's margin of 1


def fit_one_vs_rest(
    examples: Examples, regularization: Regularization, callbacks: Callbacks = SILENT, what: str = "fitting the linear model"
) -> Coefficients:
    """Fit a linear model per class. A class with no text, or with all, gets the margin alone; without any feature all is zero.

    One thread fits one class after another, or many classes at once: threads would share the generator that orders the texts. ``what``
    names the fit for progress.
    """
    features, labels, embeddings, units = examples.features, examples.labels, examples.embeddings, examples.units
    c, in_memory = regularization.c, not isinstance(features, StoredFeatures)
    if in_memory and features.nnz * units * np.cbrt(c) > MOST_ONE_BY_ONE * len(labels) and c <= LARGEST_DUAL_C:
        features = stored([features], embeddings)
    if isinstance(features, StoredFeatures):
        return _fit_stored(features, examples, regularization, callbacks, what)
    occurs = np.bincount(features.indices, minlength=features.shape[1]) > 0
    occurring, columns = np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - 1)[features.indices]
    compact = csr_matrix((features.data, columns, features.indptr), (len(labels), len(occurring)))
    scale_F = feature_weights(compact, labels, examples.num_classes, examples.repeats)
    weighed = csr_matrix((compact.data * scale_F[columns], columns, features.indptr), compact.shape)
    rms = float(np.sqrt(_repeated(np.square(weighed.data), weighed.indptr, examples.repeats).sum() / examples.total)) or 1.0
    weighed.data /= rms
    sums_ND = np.zeros((len(labels), 0)) if embeddings is None else compact @ embeddings.of(occurring)
    mean_D = sums_ND.mean(axis=0) if examples.repeats is None else examples.repeats @ sums_ND / examples.total
    squares_ND = np.square(sums_ND - mean_D)
    spread = float(np.sqrt((squares_ND if examples.repeats is None else examples.repeats @ squares_ND).sum() / examples.total)) or 1.0
    if embeddings is not None:
        spread /= embeddings.weight
    read = weighed if embeddings is None else hstack([weighed, csr_matrix((sums_ND - mean_D) / spread)], format="csr")

    def fit(class_id: int) -> tuple[Any, Any, float]:
        is_class = has_class(labels, class_id)
        if not len(occurring):
            return 0.0, 0.0 * mean_D, 0.0
        if is_class.all() or not is_class.any():
            return 0.0, 0.0 * mean_D, 1.0 if is_class.all() else -1.0
        solver = LinearSVC(C=c, dual=c <= LARGEST_DUAL_C, tol=TOLERANCE, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what a thousand passes leave does not generalize
            weights = examples.weights * _label_weights(is_class, examples.repeats) if are_several(labels) else examples.weights
            model = solver.fit(read, is_class, weights)
        weights_F, direction_D = np.split(model.coef_[0], [len(occurring)])
        return weights_F * scale_F / rms, direction_D / spread, float(model.intercept_[0])

    table, bias = np.zeros((features.shape[1], units), np.float32), np.zeros(units, np.float32)
    for unit in counted_down(range(units), f"{what}, class", callbacks):
        weights_F, direction_D, shift = fit(1 if units == 1 else unit)
        table[occurring, unit], bias[unit] = regularization.scale * weights_F, regularization.scale * (shift - mean_D @ direction_D)
        if embeddings is not None:
            table[embeddings.buckets, unit] += regularization.scale * (embeddings.table @ direction_D)
    return Coefficients(table, bias)


def _fit_stored(
    features: StoredFeatures, examples: Examples, regularization: Regularization, callbacks: Callbacks, what: str
) -> Coefficients:
    """``fit_one_vs_rest`` by ``dual_descent``."""
    labels, embeddings, num_classes = examples.labels, examples.embeddings, examples.num_classes
    shift_F, scale_F = _shift_and_scale(features, examples, callbacks, what)
    earlier = examples.earlier
    start_NU = None if earlier is None else earlier.logits(features) / regularization.scale
    c = regularization.c * examples.weights
    if are_several(labels):
        c = c[:, None] * _label_weights(labels, examples.repeats)
    weights_FU, bias_U = dual_descent(features, labels, num_classes, c, shift_F, scale_F, callbacks, what, start_NU)
    weights_FU *= regularization.scale * scale_F[:, None]
    bias = (regularization.scale * bias_U - shift_F @ weights_FU).astype(np.float32)
    table = weights_FU
    if embeddings is not None:
        table, direction_DU = np.split(weights_FU, [features.num_columns - embeddings.table.shape[1]])
        table[embeddings.buckets] += embeddings.table @ direction_DU
    if earlier is None:
        return Coefficients(table, bias)
    occurs_U = class_sizes(labels, num_classes)[-examples.units :] > 0  # texts of other classes say nothing new about a class that has none
    return Coefficients(table * occurs_U + earlier.table, bias * occurs_U + earlier.bias)


def _shift_and_scale(features: StoredFeatures, examples: Examples, callbacks: Callbacks, what: str) -> tuple[Floats, Floats]:
    """What is taken from every feature, (F,), and what it is then multiplied by, (F,), from one pass over all of them."""
    labels, embeddings, num_classes, total = examples.labels, examples.embeddings, examples.num_classes, examples.total
    width = 0 if embeddings is None else embeddings.table.shape[1]
    buckets = features.num_columns - width
    found_R, within_CR = np.zeros(buckets), np.zeros((num_classes, buckets), np.float32)
    sums_F, squares_F = np.zeros((2, features.num_columns))
    for rows, part in features.parts(f"{what}, counting n-grams, part", callbacks):
        repeats = None if examples.repeats is None else examples.repeats[rows]
        sums_F += np.bincount(part.indices, _repeated(part.data, part.indptr, repeats), features.num_columns)
        squares_F += np.bincount(part.indices, _repeated(np.square(part.data), part.indptr, repeats), features.num_columns)
        ngrams = part[:, :buckets]
        ngrams.data[:] = _repeated(np.ones_like(ngrams.data), ngrams.indptr, repeats)
        found_R += np.bincount(ngrams.indices, ngrams.data, minlength=buckets)
        counted = (csr_matrix(one_hot(labels[rows], num_classes)).T @ ngrams).tocoo()
        np.add.at(within_CR, (counted.row, counted.col), counted.data.astype(np.float32))
    shares = [float(np.average(has_class(labels, class_id), weights=examples.repeats)) for class_id in range(num_classes)]
    scale_R = _weights_by_counts(found_R, zip(shares, within_CR, strict=True), total, num_classes)
    rms = float(np.sqrt(np.square(scale_R) @ squares_F[:buckets] / total)) or 1.0
    mean_D = sums_F[buckets:] / total
    spread = float(np.sqrt((squares_F[buckets:] / total - np.square(mean_D)).sum())) or 1.0
    if embeddings is not None:
        spread /= embeddings.weight
    shift_F = np.concatenate([np.zeros(buckets), mean_D]).astype(np.float32)
    return shift_F, np.concatenate([scale_R / rms, np.full(width, 1.0 / spread)]).astype(np.float32)


def cross_fitted(
    examples: Examples, regularization: Regularization, folds: Int64s, callbacks: Callbacks
) -> Iterator[tuple[Bools, Coefficients]]:
    """For each fold, which texts are in it, (N,), and the model of all others; ``folds`` has the fold of each text, (N,)."""
    num_folds = int(folds.max()) + 1
    for fold in range(num_folds):
        what = f"fitting the linear model without fold {fold + 1} of {num_folds}"
        callbacks.log(what)
        yield folds == fold, fit_one_vs_rest(examples.at(folds != fold), regularization, callbacks, what)


def feature_weights(features: Any, labels: Labels, num_classes: int, repeats: Floats | None = None) -> Float64s:
    """The weight of each feature, (F,), for sparse features (N, F) that all occur; only which are stored counts.

    ``repeats``, (N,), is how often each text counts; None for once each.
    """
    num_features = features.shape[1]

    def counts(features: Any, repeats: Floats | None) -> Any:
        return np.bincount(features.indices, None if repeats is None else np.repeat(repeats, np.diff(features.indptr)), num_features)

    within = (
        (float(np.average(is_class, weights=repeats)), counts(features[is_class], None if repeats is None else repeats[is_class]))
        for is_class in (has_class(labels, class_id) for class_id in np.flatnonzero(class_sizes(labels, num_classes)).tolist())
    )
    total = len(labels) if repeats is None else float(repeats.sum(dtype=np.float64))
    return _weights_by_counts(counts(features, repeats), within, total, num_classes)


def _label_weights(labels: Bools, repeats: Floats | None) -> Floats:
    """Weight of each text's loss for labels, (N, C) or one, (N,): the root of what would give the texts with and without one the same."""
    shares = np.clip(np.average(labels, axis=0, weights=repeats), 1e-9, 1 - 1e-9)
    return np.sqrt(np.where(labels, 0.5 / shares, 0.5 / (1 - shares)), dtype=np.float32)


def _repeated(values: Any, indptr: Any, repeats: Floats | None) -> Any:
    """The values stored of each row times how often the row counts."""
    return values if repeats is None else values * np.repeat(repeats, np.diff(indptr))


def _weights_by_counts(found_F: Any, within: Iterable[tuple[float, Any]], num_texts: float, num_classes: int) -> Float64s:
    """``feature_weights`` from the texts that have each feature, in all, (F,), and in each class, with the share of the class."""
    squares_F = np.zeros(len(found_F))
    for share, within_F in within:
        if share:
            squares_F += share * np.square(log_odds_ratios(within_F, found_F, share, min(num_classes, MOST_PRIOR_TEXTS)))
    frequency_F = np.log((1.0 + num_texts) / (1.0 + found_F)) + 1.0
    return frequency_F * squares_F**0.25


def log_odds_ratios(within_F: Any, found_F: Any, share: float, prior: float) -> Float64s:
    """The log of the odds of a class among texts with a feature, over its odds among all texts, (F,).

    Args:
        within_F: texts of the class that have the feature.
        found_F: texts that have it.
        share: share of the class in all texts, above 0; for 1 the ratios are zero.
        prior: texts of the usual mix of classes that are added to those that have the feature.
    """
    if share == 1.0:
        return np.zeros(len(found_F))
    p_F, q_F = within_F + prior * share, found_F - within_F + prior * (1.0 - share)
    return np.log(p_F / q_F) - np.log(share / (1.0 - share))
