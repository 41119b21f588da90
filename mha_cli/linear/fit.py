"""The linear model of n-grams beside the encoder, fitted before the encoder's first step.

Axes: N texts, R buckets, U units of the logits, E distinct n-grams of all texts, W words with context weights of their own, K windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mha_cli.config.parameters import context_words, num_outputs
from mha_cli.config.settings import Config, LinearConfig
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.corpus import EncodedTexts, join_texts
from mha_cli.data.preparation import PreparedData, one_hot
from mha_cli.linear.context_weights import learn_context_weights, weighted_logits
from mha_cli.linear.features import NgramEmbeddings, Ngrams, ngrams_of, text_features
from mha_cli.linear.ngram_embeddings import learn_ngram_embeddings
from mha_cli.linear.one_vs_rest import FOLDS, Regularization, cross_fitted, fit_one_vs_rest
from mha_cli.linear.regularization import choose_regularization
from mha_cli.linear.stacking import fit_stack
from mha_cli.model.classifier import build_linear
from mha_cli.model.outputs import compile_forward, predict_outputs
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import MemoryEstimate

MOST_TEXTS = 100_000
"""Labelled texts to fit on, at most, and as many unlabelled ones; drawn at random, since the n-grams of all are in memory at once."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LinearModel:
    """The weights of the layer `linear`, and the bias that the classifier adds.

    Args:
        table: logits of the n-grams, (R, U); a unit stands for a class, or for the second of two classes.
        bias: logits of every text, (U,).
        context_weights: how much n-grams count near a word, (W, K); None without windows.
        regularization: regularization of the table; None for one from a checkpoint.
    """

    table: Floats
    bias: Floats
    context_weights: Floats | None
    regularization: Regularization | None = None

    def arrays(self) -> list[npt.NDArray[Any]]:
        """All of it, for another process."""
        context_weights = [] if self.context_weights is None else [self.context_weights]
        return [self.table, self.bias, np.array(self.regularization or ()), *context_weights]

    @classmethod
    def from_arrays(cls, arrays: list[npt.NDArray[Any]]) -> Self:
        """The model that ``arrays`` gave."""
        table, bias, regularization, *context_weights = arrays
        chosen = Regularization(*regularization.tolist()) if len(regularization) else None
        return cls(table, bias, context_weights[0] if context_weights else None, chosen)


def fit_linear_model(config: Config, data: PreparedData, log: Callable[[str], None]) -> LinearModel:
    """Fit the linear model to the training part, with context weights if the config has windows."""
    features = _read_features(config, data, log)
    regularization = features.choose_regularization(config.seed)
    table, bias = features.fit(regularization)
    if not features.linear.context_windows:
        return LinearModel(table, bias, None, regularization)
    out_of_fold = _out_of_fold(features, regularization, log)
    return LinearModel(table, bias, _context_weights(config, data, features, out_of_fold, log), regularization)


def cross_fit_linear_model(config: Config, data: PreparedData, log: Callable[[str], None]) -> tuple[LinearModel, Floats]:
    """The same model, and logits of the training part, (N, U), each by a model that has not learnt from the text."""
    features = _read_features(config, data, log)
    regularization = features.choose_regularization(config.seed)
    table, bias = features.fit(regularization)
    out_of_fold, context_weights = _out_of_fold(features, regularization, log), None
    logits_NU = out_of_fold.logits_NU
    if features.linear.context_windows:
        context_weights = _context_weights(config, data, features, out_of_fold, log)
        weighted, plain = (
            weighted_logits(features.texts, features.ngrams, out_of_fold.ngrams_EU, features.linear, weights)
            for weights in (context_weights, 0 * context_weights)
        )
        logits_NU = logits_NU + weighted - plain  # subwords and bias have no context
    fitted = LinearModel(table, bias, context_weights, regularization)
    if len(features.rows) == len(data.train):
        return fitted, logits_NU
    all_NU = linear_logits(config, data, data.train, fitted)  # no model has learnt from the texts that were not drawn
    all_NU[features.rows] = logits_NU
    return fitted, all_NU


def refit_linear_model(config: Config, data: PreparedData, fitted: LinearModel, log: Callable[[str], None]) -> LinearModel:
    """Fit the table and the bias again, with the validation part as well; context weights and regularization stay.

    Args:
        config: settings of the run.
        data: texts to learn from, and the validation part.
        fitted: model from ``fit_linear_model``.
    """
    whole = dataclasses.replace(data, train=join_texts(data.train, data.validation))
    features = _read_features(config, whole, lambda line: log(f"{line}, with the validation part"))
    table, bias = features.fit(fitted.regularization or features.choose_regularization(config.seed))
    return dataclasses.replace(fitted, table=table, bias=bias)


def linear_logits(config: Config, data: PreparedData, texts: EncodedTexts, fitted: LinearModel) -> Floats:
    """The logits of texts by the linear model, its bias included, (N, U).

    Args:
        config: settings of the run.
        data: training data, for the vocabulary and the classes.
        texts: texts to classify.
        fitted: linear model.
    """
    assert config.linear
    num_classes = len(data.class_names)
    layer = build_linear(config.linear, len(data.vocabulary), num_classes)
    layer.build((None, *config.text.token_shape))
    layer.set_weights([fitted.table] if fitted.context_weights is None else [fitted.table, fitted.context_weights])
    memory_estimate = MemoryEstimate(config.model, num_classes, linear=config.linear, characters=config.text.subword_characters)
    return predict_outputs(compile_forward(layer, config.text.token_shape), memory_estimate, texts) + fitted.bias


@dataclass(frozen=True)
class _Features:
    """Labelled texts as the linear model reads them.

    Args:
        linear: settings of the linear model.
        rows: rows of the training part that were drawn, (N,).
        texts: these texts.
        ngrams: their n-grams.
        matrix: their features, sparse (N, R).
        loss_weights: how much the loss of each text counts, (N,).
        folds: fold of each text, (N,).
        num_classes: number of classes.
        embeddings: embeddings of n-grams, if the config asks for them.
    """

    linear: LinearConfig
    rows: npt.NDArray[np.int64]
    texts: EncodedTexts
    ngrams: Ngrams
    matrix: Any
    loss_weights: Floats
    folds: npt.NDArray[np.int64]
    num_classes: int
    embeddings: NgramEmbeddings | None

    def choose_regularization(self, seed: int) -> Regularization:
        """The regularization by cross-validation."""
        return choose_regularization(self.matrix, self.texts.labels, self.num_classes, self.loss_weights, seed, self.embeddings)

    def fit(self, regularization: Regularization) -> tuple[Floats, Floats]:
        """Table and bias from all of the texts."""
        return fit_one_vs_rest(self.matrix, self.texts.labels, self.num_classes, regularization, self.loss_weights, self.embeddings)


def _read_features(config: Config, data: PreparedData, log: Callable[[str], None]) -> _Features:
    assert config.linear
    log("fitting the linear model")
    set_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    rows = data.train.random_rows(MOST_TEXTS, rng)
    texts = data.train if len(rows) == len(data.train) else data.train.subset(rows)
    num_classes = len(data.class_names)
    ngrams = ngrams_of(texts, config.linear)
    return _Features(
        config.linear,
        rows,
        texts,
        ngrams,
        text_features(texts, ngrams, config.linear),
        loss_weights(config.training.class_weights, one_hot(texts.labels, num_classes)),
        rng.permutation(len(texts)) % FOLDS,
        num_classes,
        _embeddings(config.linear, config.seed, data, ngrams, log) if config.linear.ngram_embeddings else None,
    )


def _embeddings(
    linear: LinearConfig, seed: int, data: PreparedData, labelled: Ngrams, log: Callable[[str], None]
) -> NgramEmbeddings | None:
    """N-gram embeddings from labelled and unlabelled texts."""
    log("learning embeddings of n-grams from all texts")
    parts = [labelled]
    if data.unlabelled is not None:
        parts.append(ngrams_of(data.unlabelled.random_part(MOST_TEXTS, np.random.default_rng(seed)), linear))
    return learn_ngram_embeddings(parts, seed)


@dataclass(frozen=True)
class _OutOfFold:
    """Logits by models that have not learnt from the text: of texts, (N, U), and of the n-grams of each text, (E, U)."""

    logits_NU: Floats
    ngrams_EU: Floats


def _out_of_fold(features: _Features, regularization: Regularization, log: Callable[[str], None]) -> _OutOfFold:
    matrix, texts, ngrams, folds = features.matrix, features.texts, features.ngrams, features.folds
    units = num_outputs(features.num_classes)
    found = _OutOfFold(np.zeros((len(texts), units), np.float32), np.zeros((len(ngrams.buckets), units), np.float32))
    models = cross_fitted(
        matrix, texts.labels, features.num_classes, regularization, features.loss_weights, folds, log, features.embeddings
    )
    for own, model in models:
        own_E = np.repeat(own, np.diff(ngrams.offsets))
        found.logits_NU[own] = matrix[own] @ model.table + model.bias
        found.ngrams_EU[own_E] = model.table[ngrams.buckets[own_E]]
    return found


def _context_weights(
    config: Config, data: PreparedData, features: _Features, out_of_fold: _OutOfFold, log: Callable[[str], None]
) -> Floats:
    log("learning where n-grams count")
    start = fit_stack(np.zeros_like(out_of_fold.logits_NU), out_of_fold.logits_NU, features.texts.labels)
    words = context_words(features.linear, len(data.vocabulary))
    return learn_context_weights(features.texts, features.ngrams, out_of_fold.ngrams_EU, start, features.linear, words, config.seed)
