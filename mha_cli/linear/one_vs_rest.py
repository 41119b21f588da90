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

Axes: N texts, R buckets, D width of an embedding, F columns of the features (buckets, then D), C classes, U units of the logits.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from mha_cli.arrays import Array, Bools, Float64s, Floats, Int64s
from mha_cli.config.parameters import num_outputs
from mha_cli.linear.dual_descent import FEW_TEXTS, dual_descent
from mha_cli.linear.features import NgramEmbeddings
from mha_cli.linear.stored_features import StoredFeatures, stored, with_sums
from mha_cli.sources.targets import Labels, are_several, class_sizes, has_class, one_hot
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down

TOLERANCE = 1e-2  # tolerance of the solver; a smaller one changes only digits that do not generalize
PASSES, PASSES_OVER_MANY = 1_000, 8  # most passes of the solver, and over ``FEW_TEXTS`` or more, where later ones gain nothing
LARGEST_DUAL_C = 30.0  # beyond it, dual coordinate descent converges slowly, and texts are few: the primal solver is quick
MOST_ONE_BY_ONE = 14_000  # features of a text × units × ∛C, since a large C takes passes, up to which a solver per unit is quicker
MOST_PRIOR_TEXTS = 3  # texts of the usual mix of classes that are added to those that have a feature: as many as classes, at most these
FOLDS = 5  # folds of the texts; each gets out-of-fold logits from a model of the others
FOLDS_OF_MANY = 2  # folds where the features are not in memory at once: half of so many texts suffice


Fitted: TypeAlias = tuple[Floats, Array, Array]
"""Weights of the columns, (F, U), the bias of features whose sums of embeddings are centred, (U,), and the mean of these sums, (D,)."""


class Regularization(NamedTuple):
    """Regularization of the solver, and scale of its output; see ``choose_regularization``."""

    c: float  # inverse strength, C of scikit-learn, for texts whose root mean square norm is 1
    scale: float  # logit of the solver's margin of 1


@dataclass(frozen=True)
class LinearModel:
    """The weights of the layer `linear`, and the bias that the classifier adds. A unit is a class, or the second of two classes."""

    table: Floats  # logits of the n-grams, (R, U)
    bias: Floats  # logits of every text, (U,)
    context_weights: Floats | None = None  # how much n-grams count near a word, (W, K); None without windows
    regularization: Regularization | None = None  # regularization of the table, where it is known

    @property
    def weights(self) -> dict[str, Floats]:
        """The weights of the layer `linear` by name, in its order."""
        return {"table": self.table, **({} if self.context_weights is None else {"context_weights": self.context_weights})}

    def logits(self, features: Any) -> Floats:
        """The logits of texts by their features, (N, U), without context weights."""
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
    earlier: LinearModel | None = None  # model that the fit adds to and stays near, for ``StoredFeatures`` alone

    @property
    def units(self) -> int:
        """Units of the logits, U."""
        return num_outputs(self.num_classes, are_several(self.labels))

    @property
    def embedding_width(self) -> int:
        """Width of an embedding, D; 0 without embeddings."""
        return 0 if self.embeddings is None else self.embeddings.table.shape[1]

    @property
    def times(self) -> Floats:
        """How often each text counts, (N,)."""
        return np.ones(len(self.labels), np.float32) if self.repeats is None else self.repeats

    @property
    def total(self) -> float:
        """Number of texts, by how often they count."""
        return float(self.times.sum(dtype=np.float64))

    def at(self, rows: Bools) -> Self:
        """The texts of some rows."""
        repeats = None if self.repeats is None else self.repeats[rows]
        return replace(self, features=self.features[rows], labels=self.labels[rows], weights=self.weights[rows], repeats=repeats)


def fit_one_vs_rest(
    examples: Examples, regularization: Regularization, callbacks: Callbacks = SILENT, what: str = "fitting the linear model"
) -> LinearModel:
    """Fit a linear model per class. A class with no text, or with all, gets the margin alone; without any feature all is zero.

    One thread fits one class after another, or many classes at once: threads would share the generator that orders the texts. ``what``
    names the fit for progress.
    """
    features, embeddings, earlier, solve = examples.features, examples.embeddings, examples.earlier, _one_by_one
    is_stored, c = isinstance(features, StoredFeatures), regularization.c
    if is_stored or (c <= LARGEST_DUAL_C and features.nnz * examples.units * np.cbrt(c) > MOST_ONE_BY_ONE * len(examples.labels)):
        solve = _all_at_once
    weights_FU, bias_U, mean_D = solve(examples, regularization, callbacks, what)
    table, direction_DU = np.split(weights_FU, [len(weights_FU) - len(mean_D)])
    bias = (bias_U - mean_D @ direction_DU).astype(np.float32)
    if embeddings is not None:
        table[embeddings.buckets] += embeddings.table @ direction_DU
    if earlier is not None:  # texts of other classes say nothing new about a class that has none
        occurs_U = class_sizes(examples.labels, examples.num_classes)[-examples.units :] > 0
        table, bias = table * occurs_U + earlier.table, bias * occurs_U + earlier.bias
    return LinearModel(table, bias, regularization=regularization)


def _one_by_one(examples: Examples, regularization: Regularization, callbacks: Callbacks, what: str) -> Fitted:
    """A solver for each unit, one after another."""
    labels, units, c = examples.labels, examples.units, regularization.c
    features = examples.features if examples.embeddings is None else with_sums(examples.features, examples.embeddings)
    occurs = np.bincount(features.indices, minlength=features.shape[1]) > 0
    occurring, columns = np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - 1)[features.indices]
    read = csr_matrix((features.data.astype(np.float64), columns, features.indptr), (len(labels), len(occurring)))
    mean_F, weight_F, norm_F = _statistics([(slice(None), read)], len(occurring), examples, np.float64)
    read.data = (read.data - mean_F[columns]) * weight_F[columns]
    buckets, squares = len(occurring) - examples.embedding_width, np.square(read.data) * np.repeat(examples.times, np.diff(read.indptr))
    norm_F[:buckets] = np.sqrt(squares[columns < buckets].sum() / examples.total) or 1.0  # not from rounded sums
    read.data /= norm_F[columns]
    weights_FU, bias_U = np.zeros((features.shape[1], units), np.float32), np.zeros(units)
    is_dual = c <= LARGEST_DUAL_C
    passes = PASSES_OVER_MANY if is_dual and len(labels) >= FEW_TEXTS else PASSES
    for unit in counted_down(range(units if examples.features.nnz else 0), f"{what}, class", callbacks):
        is_class = has_class(labels, 1 if units == 1 else unit)
        if is_class.all() or not is_class.any():
            bias_U[unit] = 1.0 if is_class.all() else -1.0
            continue
        weights = examples.weights * _label_weights(is_class, examples.times) if are_several(labels) else examples.weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what these passes leave does not generalize
            solver = LinearSVC(C=c, dual=is_dual, tol=TOLERANCE, max_iter=passes, random_state=0)
            model = solver.fit(read, is_class, weights)
        weights_FU[occurring, unit] = regularization.scale * (model.coef_[0] * weight_F / norm_F)
        bias_U[unit] = model.intercept_[0]
    return weights_FU, regularization.scale * bias_U, mean_F[buckets:]


def _all_at_once(examples: Examples, regularization: Regularization, callbacks: Callbacks, what: str) -> Fitted:
    """``dual_descent``, for features on disk, or in memory if there are many units."""
    features, labels = examples.features, examples.labels
    if not isinstance(features, StoredFeatures):
        features = stored([features], examples.embeddings)
    parts = features.parts(f"{what}, counting n-grams, part", callbacks)
    mean_F, weight_F, norm_F = _statistics(parts, features.num_columns, examples)
    shift_F, scale_F = mean_F.astype(np.float32), (weight_F / norm_F).astype(np.float32)
    start_NU = None if examples.earlier is None else examples.earlier.logits(features) / regularization.scale
    c = regularization.c * examples.weights
    if are_several(labels):
        c = c[:, None] * _label_weights(labels, examples.times)
    weights_FU, bias_U = dual_descent(features, labels, examples.num_classes, c, shift_F, scale_F, callbacks, what, start_NU)
    weights_FU *= regularization.scale * scale_F[:, None]
    return weights_FU, regularization.scale * bias_U, shift_F[features.num_columns - examples.embedding_width :]


def _statistics(
    parts: Iterable[tuple[slice, Any]], num_columns: int, examples: Examples, dtype: npt.DTypeLike = np.float32
) -> tuple[Float64s, Float64s, Float64s]:
    """Mean, weight and norm of each column, all (F,), from one pass over parts of the texts, whose numbers are of this type.

    A solver reads (feature - mean) · weight / norm. N-grams have weights and one norm; the last D columns, sums of embeddings, are centred
    and have another norm.
    """
    labels, num_classes, times_N, total = examples.labels, examples.num_classes, examples.times, examples.total
    buckets = num_columns - examples.embedding_width
    found_R, within_CR = np.zeros(buckets), np.zeros((num_classes, buckets), dtype)
    sums_F, squares_F = np.zeros((2, num_columns))
    for rows, part in parts:
        times = np.repeat(times_N[rows], np.diff(part.indptr))
        sums_F += np.bincount(part.indices, part.data * times, num_columns)
        squares_F += np.bincount(part.indices, np.square(part.data) * times, num_columns)
        ngrams = part[:, :buckets]
        counts = np.repeat(times_N[rows], np.diff(ngrams.indptr)).astype(dtype)
        found_R += np.bincount(ngrams.indices, counts, buckets)
        occurrences = csr_matrix((counts, ngrams.indices, ngrams.indptr), ngrams.shape)
        of_classes = (csr_matrix(one_hot(labels[rows], num_classes)).T @ occurrences).tocoo()
        within_CR[of_classes.row, of_classes.col] += of_classes.data
    shares = [float(np.average(has_class(labels, class_id), weights=times_N)) for class_id in range(num_classes)]
    mean_F, weight_F, norm_F = np.zeros(num_columns), np.ones(num_columns), np.ones(num_columns)
    weight_F[:buckets] = feature_weights(found_R, within_CR, shares, total)
    norm_F[:buckets] = np.sqrt(np.square(weight_F[:buckets]) @ squares_F[:buckets] / total) or 1.0
    if examples.embeddings is not None:
        mean_F[buckets:] = sums_F[buckets:] / total
        spread = np.sqrt((squares_F[buckets:] / total - np.square(mean_F[buckets:])).sum()) or 1.0
        norm_F[buckets:] = spread / examples.embeddings.weight
    return mean_F, weight_F, norm_F


def cross_fitted(
    examples: Examples, regularization: Regularization, folds: Int64s, callbacks: Callbacks
) -> Iterator[tuple[Bools, LinearModel]]:
    """For each fold, which texts are in it, (N,), and the model of all others; ``folds`` has the fold of each text, (N,)."""
    num_folds = int(folds.max()) + 1
    for fold in range(num_folds):
        what = f"fitting the linear model without fold {fold + 1} of {num_folds}"
        callbacks.log(what)
        yield folds == fold, fit_one_vs_rest(examples.at(folds != fold), regularization, callbacks, what)


def _label_weights(labels: Bools, times: Floats) -> Floats:
    """Weight of each text's loss by labels, (N, C), or by one, (N,): the root of what balances texts with and without a label."""
    shares = np.clip(np.average(labels, axis=0, weights=times), 1e-9, 1 - 1e-9)
    return np.sqrt(np.where(labels, 0.5 / shares, 0.5 / (1 - shares)), dtype=np.float32)


def feature_weights(found_F: Any, within_CF: Floats, shares: Sequence[float], num_texts: float) -> Float64s:
    """The weight of each feature, (F,), from the texts that have it, in all, (F,), and in each class, (C, F), and the classes' shares."""
    squares_F = np.zeros(len(found_F))
    for share, within_F in zip(shares, within_CF, strict=True):
        if share:
            squares_F += share * np.square(log_odds_ratios(within_F, found_F, share, min(len(shares), MOST_PRIOR_TEXTS)))
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
