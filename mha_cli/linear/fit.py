"""All that is fitted of n-gram scores before the first step: the table and, with windows, the salience.

Axes: N reviews, R buckets, U units of a score, E distinct n-grams of all reviews, W words with a salience of their own, K windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mha_cli.config.parameters import salient_words
from mha_cli.config.settings import Config
from mha_cli.data.class_weights import loss_weights
from mha_cli.data.corpus import EncodedTexts, join_reviews
from mha_cli.data.preparation import PreparedData, one_hot
from mha_cli.linear.context_weights import learn_salience, salient_scores
from mha_cli.linear.features import ngrams_of, text_features
from mha_cli.linear.ngram_embeddings import learn_vectors
from mha_cli.linear.one_vs_rest import FOLDS, Strength, cross_fitted, fit_linear_model
from mha_cli.linear.regularization import choose_strength
from mha_cli.linear.stacking import fit_stack
from mha_cli.model.classifier import build_scores
from mha_cli.model.outputs import compile_forward, predict_outputs
from mha_cli.system.tensorflow_setup import set_seed
from mha_cli.system.working_memory import MemoryEstimate

MOST_REVIEWS = 100_000
"""Reviews that scores are fitted on, at most, and texts without labels beside them; drawn at random, since the n-grams of all are in memory
at once."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FittedScores:
    """What the layer `scores` holds, and what stands beside it in the bias of the classifier.

    Args:
        table: scores of the n-grams, (R, U); a unit stands for a class, or for the second of two classes.
        bias: what is added to the score of every review, (U,).
        salience: salience of the words, (W, K); None without windows.
        strength: how the table was fitted; None for one from a checkpoint.
    """

    table: Floats
    bias: Floats
    salience: Floats | None
    strength: Strength | None = None

    def arrays(self) -> list[npt.NDArray[Any]]:
        """All of it, for another process."""
        return [self.table, self.bias, np.array(self.strength or ()), *([] if self.salience is None else [self.salience])]

    @classmethod
    def from_arrays(cls, arrays: list[npt.NDArray[Any]]) -> Self:
        """What ``arrays`` gave."""
        table, bias, strength, *salience = arrays
        return cls(table, bias, salience[0] if salience else None, Strength(*strength.tolist()) if len(strength) else None)


def fit_scores(config: Config, data: PreparedData, log: Callable[[str], None]) -> FittedScores:
    """Fit the scores of n-grams, and where there are windows the salience of words.

    Args:
        config: settings of the run.
        data: reviews to learn from.
    """
    return _fit(config, data, log)[0]


def cross_fit_scores(config: Config, data: PreparedData, log: Callable[[str], None]) -> tuple[FittedScores, Floats]:
    """The same, and the scores of the reviews to learn from, (N, U), each by tables that have not learnt from it."""
    fitted, rows, scores_NU = _fit(config, data, log, cross_fit=True)
    if len(rows) == len(data.train):
        return fitted, scores_NU
    all_NU = score_reviews(config, data, data.train, fitted)  # the others, which nothing has learnt from
    all_NU[rows] = scores_NU
    return fitted, all_NU


def score_reviews(config: Config, data: PreparedData, reviews: EncodedTexts, fitted: FittedScores) -> Floats:
    """The scores of reviews, their bias included, (N, U).

    Args:
        config: settings of the run.
        data: what the scores were fitted on, for its vocabulary and its classes.
        reviews: reviews to score.
        fitted: scores of n-grams.
    """
    num_classes = len(data.class_names)
    layer = build_scores(config, len(data.vocabulary), num_classes)
    layer.build((None, *config.text.token_shape))
    layer.set_weights([fitted.table] if fitted.salience is None else [fitted.table, fitted.salience])
    memory_estimate = MemoryEstimate(config.model, num_classes, characters=config.text.subword_characters)
    return predict_outputs(compile_forward(layer, config.text.token_shape), memory_estimate, reviews) + fitted.bias


def _fit(
    config: Config, data: PreparedData, log: Callable[[str], None], cross_fit: bool = False, strength: Strength | None = None
) -> tuple[FittedScores, npt.NDArray[np.int64], Floats]:
    """Scores, the rows of the reviews that they were fitted on, and what tables without these say of them; zeros where nobody needs it.

    The strength is chosen where none is given.
    """
    log("fitting n-gram scores")
    set_seed(config.seed)
    model, rng = config.model, np.random.default_rng(config.seed)
    rows = data.train.random_rows(MOST_REVIEWS, rng)
    reviews = data.train if len(rows) == len(data.train) else data.train.subset(rows)
    num_classes = len(data.class_names)
    weights = loss_weights(config.training.class_weights, one_hot(reviews.labels, num_classes))
    ngrams = ngrams_of(reviews, model)
    features = text_features(reviews, ngrams, model)
    vectors = None
    if config.training.score_vectors:
        log("learning vectors of n-grams from all texts")
        texts = [ngrams]
        if data.unlabelled is not None:
            texts.append(ngrams_of(data.unlabelled.random_part(MOST_REVIEWS, np.random.default_rng(config.seed)), model))
        vectors = learn_vectors(texts, config.seed)
    strength = strength or choose_strength(features, reviews.labels, num_classes, weights, config.seed, vectors)
    table, bias = fit_linear_model(features, reviews.labels, num_classes, strength, weights, vectors)
    scores_NU = np.zeros((len(reviews), len(bias)), np.float32)
    if not model.score_windows and not cross_fit:
        return FittedScores(table, bias, None, strength), rows, scores_NU
    folds = rng.permutation(len(reviews)) % FOLDS
    scores_EU = np.zeros((len(ngrams.buckets) if model.score_windows else 0, len(bias)), np.float32)
    for own, without in cross_fitted(features, reviews.labels, num_classes, strength, weights, folds, log, vectors):
        scores_NU[own] = features[own] @ without.table + without.bias
        if model.score_windows:
            own_E = np.repeat(own, np.diff(ngrams.offsets))
            scores_EU[own_E] = without.table[ngrams.buckets[own_E]]
    if not model.score_windows:
        return FittedScores(table, bias, None, strength), rows, scores_NU
    log("learning where n-grams count")
    start = fit_stack(np.zeros_like(scores_NU), scores_NU, reviews.labels)
    words = salient_words(config, len(data.vocabulary))
    salience = learn_salience(reviews, ngrams, scores_EU, start, model, words, config.seed)
    if cross_fit:
        salient, plain = (salient_scores(reviews, ngrams, scores_EU, model, of_words) for of_words in (salience, 0 * salience))
        scores_NU += salient - plain  # what subwords and the bias say stays
    return FittedScores(table, bias, salience, strength), rows, scores_NU


def refit_scores(config: Config, data: PreparedData, fitted: FittedScores, log: Callable[[str], None]) -> FittedScores:
    """The scores as the validation part teaches them, too; salience and strength stay.

    Args:
        config: settings of the run.
        data: reviews to learn from, and the validation part.
        fitted: scores from ``fit_scores``.
    """
    whole = dataclasses.replace(data, train=join_reviews(data.train, data.validation))
    without_windows = config.model.model_copy(update={"score_windows": []})
    refitted, *_ = _fit(
        config.model_copy(update={"model": without_windows}),
        whole,
        lambda line: log(f"{line}, with the validation part"),
        strength=fitted.strength,
    )
    return dataclasses.replace(refitted, salience=fitted.salience)
