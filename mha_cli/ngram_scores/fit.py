"""All that is fitted of n-gram scores before the first step: the table and, with windows, the salience.

Axes: N reviews, R buckets, U units of a score, E distinct n-grams of all reviews, W words with a salience of their own, K windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.config.parameters import salient_words
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.ngram_scores.features import Ngrams, ngram_features, ngrams_of
from mha_cli.ngram_scores.naive_bayes import ngram_scores
from mha_cli.ngram_scores.salience import learn_salience
from mha_cli.ngram_scores.stacking import fit_stack
from mha_cli.system.tensorflow_setup import set_seed

MOST_REVIEWS = 100_000
"""Reviews that scores are fitted on, at most; drawn at random, since the n-grams of all of them are in memory at once."""

FOLDS = 5
"""Parts of the reviews; each is scored by what the other parts taught, and salience is learnt on these scores."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FittedScores:
    """What the layer `scores` holds.

    Args:
        table: scores of the n-grams, (R, U); a unit stands for a class, or for the second of two classes.
        salience: salience of the words, (W, K); None without windows.
    """

    table: Floats
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
    classes = [1] if len(data.class_names) == 2 else list(range(len(data.class_names)))  # a unit of a score for each
    ngrams = ngrams_of(reviews, model)
    features = ngram_features(reviews, ngrams, model)
    table = np.stack([ngram_scores(features, reviews.labels == class_id) for class_id in classes], axis=1)
    if not model.score_windows:
        return FittedScores(table, None)
    folds = rng.permutation(len(reviews)) % FOLDS
    scores_EU, scores_NU = _cross_fit(features, ngrams, reviews.labels, classes, folds, log)
    log("learning where n-grams count")
    start = fit_stack(np.zeros_like(scores_NU), scores_NU, reviews.labels)
    words = salient_words(config, len(data.vocabulary))
    return FittedScores(table, learn_salience(reviews, ngrams, scores_EU, start, model, words, config.seed))


def _cross_fit(
    features: Any,
    ngrams: Ngrams,
    labels: npt.NDArray[np.int32],
    classes: list[int],
    folds: npt.NDArray[np.int64],
    log: Callable[[str], None],
) -> tuple[Floats, Floats]:
    """Scores of every review's n-grams, (E, U), and of every review, (N, U), as fitted on the reviews of other folds."""
    folds_E = np.repeat(folds, np.diff(ngrams.offsets))
    scores_EU = np.zeros((len(ngrams.buckets), len(classes)), np.float32)
    scores_NU = np.zeros((len(labels), len(classes)), np.float32)
    for fold in range(FOLDS):
        log(f"fitting n-gram scores without fold {fold + 1} of {FOLDS}")
        own, own_E, others = folds == fold, folds_E == fold, folds != fold
        of_own, of_others = features[own], features[others]
        for unit, class_id in enumerate(classes):
            scores_R = ngram_scores(of_others, labels[others] == class_id)
            scores_EU[own_E, unit] = scores_R[ngrams.buckets[own_E]]
            scores_NU[own, unit] = of_own @ scores_R
    return scores_EU, scores_NU
