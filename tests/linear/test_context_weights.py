"""Context weights: which words raise the weight of n-grams near them, and the loss against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mha_cli.config.settings import LinearConfig
from mha_cli.linear import context_weights as module
from mha_cli.linear.context_weights import learn_context_weights
from mha_cli.linear.features import ngrams_of
from mha_cli.linear.stacking import Stack
from tests.reviews import encoded, weights_in

VERDICT, PLOT = 2, 3
"""The words beside an opinion that counts, and beside one that does not."""

GOOD, BAD = 4, 5
WORDS, BUCKETS = 9, 2**13


def reviews_with_two_opinions(num_texts: int) -> tuple[list[list[int]], list[int]]:
    """In random order a verdict, which is the class, and an opinion of somebody in the plot, which is anything."""
    rng = np.random.default_rng(0)
    reviews, labels = [], []
    for _ in range(num_texts):
        label, other = rng.integers(0, 2, 2).tolist()
        parts = [[VERDICT, BAD - label, *rng.integers(6, 9, 4).tolist()], [PLOT, BAD - other, *rng.integers(6, 9, 4).tolist()]]
        reviews.append([word for index in rng.permutation(2) for word in parts[index]])
        labels.append(label)
    return reviews, labels


def loss_by_hand(reviews: list[list[int]], labels: list[int], scores: dict[int, float], start: Stack, context_weights: np.ndarray) -> float:
    """Mean cross-entropy of reviews of words alone."""
    losses = []
    for review, label in zip(reviews, labels, strict=True):
        weights = weights_in(review, 1, BUCKETS, 0, [1], context_weights)
        total = sum(weight * scores.get(number, 0.0) for number, weight in weights.items())
        logit = start.linear_weight * total / math.sqrt(sum(weight**2 for weight in weights.values())) + float(start.bias[0])
        losses.append(math.log1p(math.exp(-logit if label else logit)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("ending", [0, 20])
def test_it_is_learnt_around_which_words_opinions_count(ending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 30)
    reviews, labels = reviews_with_two_opinions(400)
    linear = LinearConfig(max_ngram=2, buckets=BUCKETS, end_decay=ending, context_windows=[1])
    whole = encoded(reviews, labels)
    ngrams = ngrams_of(whole, linear)
    words = np.array([word for review in reviews for word in review])
    opinions = np.select([words == GOOD, words == BAD], [1.0, -1.0], 0.0).astype(np.float32)
    logits_EU = opinions[ngrams.tokens][:, None]
    start = Stack(0.0, 1.5, np.zeros(1, np.float32))
    context_weights = learn_context_weights(whole, ngrams, logits_EU, start, linear, WORDS, seed=0)
    assert context_weights.shape == (WORDS, 1)
    assert context_weights[VERDICT, 0] > 0.5 > -0.5 > context_weights[PLOT, 0]
    assert not context_weights[[0, 1]].any()  # padding and a word that never comes


def test_the_loss_that_falls_is_that_of_the_formula() -> None:
    reviews, labels = reviews_with_two_opinions(300)
    linear = LinearConfig(max_ngram=1, buckets=BUCKETS, context_windows=[1])
    whole = encoded(reviews, labels)
    ngrams = ngrams_of(whole, linear)
    rng = np.random.default_rng(0)
    table = rng.normal(scale=0.3, size=BUCKETS).astype(np.float32)
    table_of_words = weights_in([GOOD], 1, BUCKETS) | weights_in([BAD], 1, BUCKETS)
    for number, score in zip(table_of_words, (1.0, -1.0), strict=True):
        table[number] = score
    by_bucket = {int(number): float(table[number]) for number in ngrams.buckets}
    start = Stack(0.0, 1.5, np.array([0.1], np.float32))
    none = np.zeros((WORDS, 1), np.float32)
    learnt = learn_context_weights(whole, ngrams, table[ngrams.buckets][:, None], start, linear, WORDS, seed=0)
    before, after = (loss_by_hand(reviews, labels, by_bucket, start, context_weights) for context_weights in (none, learnt))
    assert after < before
    for word in (VERDICT, PLOT):  # a step further the same way helps, or hardly harms
        nudged = learnt.copy()
        nudged[word] *= 0.5
        assert loss_by_hand(reviews, labels, by_bucket, start, nudged) > after


def test_scores_that_say_nothing_teach_nothing() -> None:
    reviews, labels = reviews_with_two_opinions(50)
    linear = LinearConfig(max_ngram=1, buckets=BUCKETS, context_windows=[2, 5])
    whole = encoded(reviews, labels)
    ngrams = ngrams_of(whole, linear)
    nothing = np.zeros((len(ngrams.buckets), 1), np.float32)
    context_weights = learn_context_weights(whole, ngrams, nothing, Stack(0.0, 1.0, np.zeros(1, np.float32)), linear, WORDS, seed=0)
    np.testing.assert_array_equal(context_weights, np.zeros((WORDS, 2), np.float32))


def test_many_classes() -> None:
    reviews, labels = reviews_with_two_opinions(200)
    linear = LinearConfig(max_ngram=1, buckets=BUCKETS, context_windows=[1])
    whole = encoded(reviews, labels)
    ngrams = ngrams_of(whole, linear)
    words = np.array([word for review in reviews for word in review])[ngrams.tokens]
    logits_EU = np.stack([words == BAD, words == GOOD, np.zeros(len(words))], axis=1).astype(np.float32)
    context_weights = learn_context_weights(whole, ngrams, logits_EU, Stack(0.0, 2.0, np.zeros(3, np.float32)), linear, WORDS, seed=0)
    assert context_weights[VERDICT, 0] > 0 > context_weights[PLOT, 0]
