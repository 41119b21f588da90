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
from mha_cli.linear.features import Ngrams, ngrams_of, text_features
from mha_cli.linear.ngram_embeddings import learn_ngram_embeddings
from mha_cli.linear.one_vs_rest import FOLDS, Examples, Regularization, cross_fitted, fit_one_vs_rest
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
        table: logits of the n-grams, (R, U); one unit per class, or one for the second of two classes.
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
    drawn = _draw(config, data, log)
    regularization = choose_regularization(drawn.examples, config.seed)
    table, bias = fit_one_vs_rest(drawn.examples, regularization)
    if not drawn.linear.context_windows:
        return LinearModel(table, bias, None, regularization)
    context_weights = _context_weights(config, data, drawn, *_out_of_fold(drawn, regularization, log), log)
    return LinearModel(table, bias, context_weights, regularization)


def cross_fit_linear_model(config: Config, data: PreparedData, log: Callable[[str], None]) -> tuple[LinearModel, Floats]:
    """The same model, and out-of-fold logits of the training part, (N, U)."""
    drawn, context_weights = _draw(config, data, log), None
    regularization = choose_regularization(drawn.examples, config.seed)
    table, bias = fit_one_vs_rest(drawn.examples, regularization)
    logits_NU, ngrams_EU = _out_of_fold(drawn, regularization, log)
    if drawn.linear.context_windows:
        context_weights = _context_weights(config, data, drawn, logits_NU, ngrams_EU, log)
        weighted, plain = (
            weighted_logits(drawn.texts, drawn.ngrams, ngrams_EU, drawn.linear, weights)
            for weights in (context_weights, 0 * context_weights)
        )
        logits_NU = logits_NU + weighted - plain  # subwords and bias have no context
    fitted = LinearModel(table, bias, context_weights, regularization)
    if len(drawn.rows) == len(data.train):
        return fitted, logits_NU
    all_NU = linear_logits(config, data, data.train, fitted)  # no model has learnt from the texts that were not drawn
    all_NU[drawn.rows] = logits_NU
    return fitted, all_NU


def refit_linear_model(config: Config, data: PreparedData, fitted: LinearModel, log: Callable[[str], None]) -> LinearModel:
    """Fit the table and the bias again, with the validation part as well; context weights and regularization stay."""
    whole = dataclasses.replace(data, train=join_texts(data.train, data.validation))
    drawn = _draw(config, whole, lambda line: log(f"{line}, with the validation part"))
    table, bias = fit_one_vs_rest(drawn.examples, fitted.regularization or choose_regularization(drawn.examples, config.seed))
    return dataclasses.replace(fitted, table=table, bias=bias)


def linear_logits(config: Config, data: PreparedData, texts: EncodedTexts, fitted: LinearModel) -> Floats:
    """The logits of texts by the linear model, its bias included, (N, U)."""
    assert config.linear
    num_classes = len(data.class_names)
    layer = build_linear(config.linear, len(data.vocabulary), num_classes)
    layer.build((None, *config.text.token_shape))
    layer.set_weights([fitted.table] if fitted.context_weights is None else [fitted.table, fitted.context_weights])
    memory_estimate = MemoryEstimate(config.model, num_classes, linear=config.linear, characters=config.text.subword_characters)
    return predict_outputs(compile_forward(layer, config.text.token_shape), memory_estimate, texts) + fitted.bias


@dataclass(frozen=True)
class _Drawn:
    """Labelled texts as the linear model reads them.

    Args:
        linear: settings of the linear model.
        rows: rows of the training part that were drawn, (N,).
        texts: these texts.
        ngrams: their n-grams.
        examples: what the linear model is fitted on.
        folds: fold of each text, (N,).
    """

    linear: LinearConfig
    rows: npt.NDArray[np.int64]
    texts: EncodedTexts
    ngrams: Ngrams
    examples: Examples
    folds: npt.NDArray[np.int64]


def _draw(config: Config, data: PreparedData, log: Callable[[str], None]) -> _Drawn:
    linear = config.linear
    assert linear
    log("fitting the linear model")
    set_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    rows = data.train.random_rows(MOST_TEXTS, rng)
    texts = data.train if len(rows) == len(data.train) else data.train.subset(rows)
    ngrams = ngrams_of(texts, linear)
    features = text_features(texts, ngrams, linear)
    weights = loss_weights(config.training.class_weights, one_hot(texts.labels, len(data.class_names)))
    folds = rng.permutation(len(texts)) % FOLDS
    embeddings = None
    if linear.ngram_embeddings:
        log("learning embeddings of n-grams from all texts")
        parts = [ngrams]
        if data.unlabelled is not None:
            parts.append(ngrams_of(data.unlabelled.random_part(MOST_TEXTS, np.random.default_rng(config.seed)), linear))
        embeddings = learn_ngram_embeddings(parts, config.seed)
    return _Drawn(linear, rows, texts, ngrams, Examples(features, texts.labels, len(data.class_names), weights, embeddings), folds)


def _out_of_fold(drawn: _Drawn, regularization: Regularization, log: Callable[[str], None]) -> tuple[Floats, Floats]:
    """Out-of-fold logits of the texts, (N, U), and of the n-grams of each text, (E, U)."""
    ngrams, units = drawn.ngrams, num_outputs(drawn.examples.num_classes)
    logits_NU, ngrams_EU = (np.zeros((number, units), np.float32) for number in (len(drawn.texts), len(ngrams.buckets)))
    for own, model in cross_fitted(drawn.examples, regularization, drawn.folds, log):
        own_E = np.repeat(own, np.diff(ngrams.offsets))
        logits_NU[own] = model.logits(drawn.examples.features[own])
        ngrams_EU[own_E] = model.table[ngrams.buckets[own_E]]
    return logits_NU, ngrams_EU


def _context_weights(
    config: Config, data: PreparedData, drawn: _Drawn, logits_NU: Floats, ngrams_EU: Floats, log: Callable[[str], None]
) -> Floats:
    log("learning where n-grams count")
    start = fit_stack(np.zeros_like(logits_NU), logits_NU, drawn.texts.labels)
    words = context_words(drawn.linear, len(data.vocabulary))
    return learn_context_weights(drawn.texts, drawn.ngrams, ngrams_EU, start, drawn.linear, words, config.seed)
