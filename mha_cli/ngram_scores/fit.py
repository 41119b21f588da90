"""All that is fitted of n-gram scores before the first step: the table and, with windows, the salience.

Axes: N reviews, R buckets, U units of a score, E distinct n-grams of all reviews, W words with a salience of their own, K windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.config.parameters import salient_words
from mha_cli.config.settings import Config
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.corpus import join_reviews
from mha_cli.data.preparation import PreparedData, one_hot
from mha_cli.ngram_scores.features import ngrams_of, text_features
from mha_cli.ngram_scores.linear import FOLDS, cross_fitted, fit_linear_model
from mha_cli.ngram_scores.salience import learn_salience
from mha_cli.ngram_scores.stacking import fit_stack
from mha_cli.system.tensorflow_setup import set_seed

MOST_REVIEWS = 100_000
"""Reviews that scores are fitted on, at most; drawn at random, since the n-grams of all of them are in memory at once."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FittedScores:
    """What the layer `scores` holds, and what stands beside it in the bias of the classifier.

    Args:
        table: scores of the n-grams, (R, U); a unit stands for a class, or for the second of two classes.
        bias: what is added to the score of every review, (U,).
        salience: salience of the words, (W, K); None without windows.
    """

    table: Floats
    bias: Floats
    salience: Floats | None


def fit_scores(config: Config, data: PreparedData, log: Callable[[str], None]) -> FittedScores:
    """Fit the scores of n-grams, and where there are windows the salience of words.

    Args:
        config: settings of the run.
        data: reviews to learn from.
        log: reporter of what is done, a line at a time.
    """
    log("fitting n-gram scores")
    set_seed(config.seed)
    model, rng = config.model, np.random.default_rng(config.seed)
    reviews = data.train.random_part(MOST_REVIEWS, rng)
    num_classes = len(data.class_names)
    weights = loss_weights(config.training.class_weights, one_hot(reviews.labels, num_classes))
    ngrams = ngrams_of(reviews, model)
    features = text_features(reviews, ngrams, model)
    table, bias = fit_linear_model(features, reviews.labels, num_classes, weights)
    if not model.score_windows:
        return FittedScores(table, bias, None)
    folds = rng.permutation(len(reviews)) % FOLDS
    scores_EU = np.zeros((len(ngrams.buckets), len(bias)), np.float32)
    scores_NU = np.zeros((len(reviews), len(bias)), np.float32)
    for own, without in cross_fitted(features, reviews.labels, num_classes, weights, folds, log):
        own_E = np.repeat(own, np.diff(ngrams.offsets))
        scores_EU[own_E] = without.table[ngrams.buckets[own_E]]
        scores_NU[own] = features[own] @ without.table + without.bias
    log("learning where n-grams count")
    start = fit_stack(np.zeros_like(scores_NU), scores_NU, reviews.labels)
    words = salient_words(config, len(data.vocabulary))
    return FittedScores(table, bias, learn_salience(reviews, ngrams, scores_EU, start, model, words, config.seed))


def refit_scores(config: Config, data: PreparedData, fitted: FittedScores, log: Callable[[str], None]) -> FittedScores:
    """The scores as the validation part teaches them, too; the salience stays.

    Args:
        config: settings of the run.
        data: reviews to learn from, and the validation part.
        fitted: scores from ``fit_scores``.
        log: reporter of what is done, a line at a time.
    """
    whole = dataclasses.replace(data, train=join_reviews(data.train, data.validation))
    without_windows = config.model.model_copy(update={"score_windows": []})
    refitted = fit_scores(
        config.model_copy(update={"model": without_windows}), whole, lambda line: log(f"{line}, with the validation part")
    )
    return dataclasses.replace(refitted, salience=fitted.salience)
