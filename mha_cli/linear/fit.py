"""The linear model of n-grams beside the encoder, fitted before the encoder's first step.

Axes: N texts, R buckets, U units of the logits, E distinct n-grams of all texts, W words with context weights of their own, K windows.
"""

import dataclasses
from functools import cached_property

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.config.parameters import context_words
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import scoring_batches
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.linear.composition import linear_of
from mha_cli.linear.context_weights import learn_context_weights, weighted_logits
from mha_cli.linear.features import Ngrams, embeddings_of_words, most_in_memory, ngrams_of, text_features
from mha_cli.linear.ngram_embeddings import learn_ngram_embeddings
from mha_cli.linear.one_vs_rest import FOLDS, FOLDS_OF_MANY, Examples, LinearModel, Regularization, cross_fitted, fit_one_vs_rest
from mha_cli.linear.regularization import CHOICE_TEXTS, choose_regularization
from mha_cli.linear.stacking import fit_stack
from mha_cli.linear.stored_features import StoredFeatures, store_features
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.forward import ForwardPass
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import MemoryEstimate


def fit_linear_model(config: Config, data: PreparedData, callbacks: Callbacks = SILENT) -> LinearModel:
    """Fit the linear model to the training part, with context weights if the config has windows."""
    return _Fit(config, data, callbacks).model()


def cross_fit_linear_model(config: Config, data: PreparedData, callbacks: Callbacks = SILENT) -> tuple[LinearModel, Floats]:
    """The same model, and out-of-fold logits of the training part, (N, U)."""
    fit = _Fit(config, data, callbacks)
    fitted, (logits_NU, ngrams_EU) = fit.model(), fit.out_of_fold
    if fitted.context_weights is not None:
        weighted, plain = (
            weighted_logits(fit.part, fit.ngrams, ngrams_EU, fit.linear, weights)
            for weights in (fitted.context_weights, 0 * fitted.context_weights)
        )
        logits_NU[fit.rows] = logits_NU[fit.rows] + weighted - plain  # subwords and bias have no context
    return fitted, logits_NU


def refit_linear_model(config: Config, data: PreparedData, fitted: LinearModel, callbacks: Callbacks = SILENT) -> LinearModel:
    """Fit the table and the bias again, with the validation part as well; context weights and regularization stay."""
    what = "fitting the linear model with the validation part"
    fit = _Fit(config, data.with_validation(), callbacks, what)
    refitted = fit_one_vs_rest(fit.examples, fitted.regularization or fit.regularization, callbacks, what)
    return dataclasses.replace(refitted, context_weights=fitted.context_weights)


def linear_logits(config: Config, data: PreparedData, texts: EncodedTexts, fitted: LinearModel) -> Floats:
    """The logits of texts by the linear model, its bias included, (N, U)."""
    assert config.linear
    forward = ForwardPass({f"linear/{name}": weight for name, weight in fitted.weights.items()}, config)
    characters = config.text.subword_characters
    memory_estimate = MemoryEstimate(config.model, len(data.class_names), linear=config.linear, characters=characters)
    logits_NU = np.empty((len(texts), len(fitted.bias)), np.float32)
    for rows in scoring_batches(texts.lengths, memory_estimate):
        logits_NU[rows] = forward.linear_logits(texts.padded(rows))
    return logits_NU + fitted.bias


class _Fit:
    """The labelled texts as the linear model reads them, and what is fitted to them."""

    def __init__(self, config: Config, data: PreparedData, callbacks: Callbacks, what: str = "fitting the linear model") -> None:
        assert config.linear
        self.linear, self.seed, self.callbacks = config.linear, config.seed, callbacks
        callbacks.log(what)
        set_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        self.texts = dataclasses.replace(data.train, pieces=None)
        self.rows = self.texts.random_rows(most_in_memory(self.texts, self.linear), rng)
        in_memory = len(self.rows) == len(self.texts)
        self.part = self.texts if in_memory else self.texts.subset(self.rows)  # embeddings and context weights are learnt from it
        self.num_words = context_words(self.linear, len(data.vocabulary))
        self.folds = rng.permutation(len(self.texts)) % (FOLDS if in_memory else FOLDS_OF_MANY)
        embeddings = None if data.vectors is None else embeddings_of_words(data.vectors, self.linear.buckets)
        if self.linear.ngram_embeddings:
            callbacks.log("learning embeddings of n-grams from all texts")
            parts = [self.ngrams]
            if data.unlabelled is not None:
                most = most_in_memory(data.unlabelled, self.linear)
                parts.append(ngrams_of(data.unlabelled.random_part(most, np.random.default_rng(self.seed)), self.linear, callbacks))
            embeddings = learn_ngram_embeddings(parts, self.seed, callbacks)
        labels, num_classes = self.texts.labels, len(data.class_names)
        repeats = self.texts.weights
        weights = loss_weights(config, self.texts, num_classes)
        self.base = None
        if data.base is not None and not data.held_out_before.any():  # only its weights know of its texts
            self.base = linear_of(data.base, num_classes, self.num_words)
        if in_memory and self.base is None:
            features = text_features(self.texts, self.ngrams, self.linear, callbacks)
        else:
            features = store_features(self.texts, self.linear, embeddings, callbacks)
        self.examples = Examples(features, labels, num_classes, weights, embeddings, repeats, self.base)

    @cached_property
    def ngrams(self) -> Ngrams:  # of ``part``
        return ngrams_of(self.part, self.linear, self.callbacks)

    @cached_property
    def regularization(self) -> Regularization:
        examples = self.examples
        if isinstance(examples.features, StoredFeatures):
            rows = self.texts.random_rows(CHOICE_TEXTS, np.random.default_rng(self.seed))
            texts = self.texts.subset(rows)
            features = text_features(texts, ngrams_of(texts, self.linear), self.linear)
            weights, repeats = examples.weights[rows], texts.weights
            examples = dataclasses.replace(examples, features=features, labels=texts.labels, weights=weights, repeats=repeats)
        return choose_regularization(examples, self.seed, self.callbacks)

    @cached_property
    def out_of_fold(self) -> tuple[Floats, Floats]:
        """Out-of-fold logits of the texts, (N, U), and with windows of the n-grams of each text of ``part``, (E, U)."""
        buckets_E = self.ngrams.buckets if self.linear.context_windows else np.empty(0, np.int32)
        units = self.examples.units
        logits_NU, ngrams_EU = (np.zeros((number, units), np.float32) for number in (len(self.texts), len(buckets_E)))
        for held_out, model in cross_fitted(self.examples, self.regularization, self.folds, self.callbacks):
            logits_NU[held_out] = model.logits(self.examples.features[held_out])
            if self.linear.context_windows:
                held_out_E = np.repeat(held_out[self.rows], np.diff(self.ngrams.offsets))
                ngrams_EU[held_out_E] = model.table[buckets_E[held_out_E]]
        return logits_NU, ngrams_EU

    def model(self) -> LinearModel:
        fitted = fit_one_vs_rest(self.examples, self.regularization, self.callbacks)
        context_weights = None if self.base is None else self.base.context_weights
        if self.linear.context_windows and context_weights is None:
            logits_NU, ngrams_EU = self.out_of_fold
            self.callbacks.log("learning where n-grams count")
            start = fit_stack(np.zeros_like(logits_NU), logits_NU, self.examples.labels, self.texts.weights)
            context_weights = learn_context_weights(
                self.part, self.ngrams, ngrams_EU, start, self.linear, self.num_words, self.seed, self.callbacks
            )
        return dataclasses.replace(fitted, context_weights=context_weights)
