"""Context weights: which words raise the weight of n-grams near them, and the loss against plain Python."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.arrays import Floats, Int64s
from mha_cli.config.settings import LinearConfig
from mha_cli.linear import context_weights as module
from mha_cli.linear.context_weights import learn_context_weights
from mha_cli.linear.features import ngrams_of
from mha_cli.linear.stacking import Stack
from tests.reviews import bucket, encoded, weights_in

VERDICT, PLOT = 2, 3  # the words beside an opinion that counts, and beside one that does not

GOOD, BAD = 4, 5
WORDS, BUCKETS = 9, 2**13
SCALE, BIAS = 1.5, 0.1


def texts_with_two_opinions(num_texts: int) -> tuple[list[list[int]], list[int]]:
    """In random order a verdict, which is the class, and an opinion of somebody in the plot, which is anything."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(num_texts):
        label, other = rng.integers(0, 2, 2).tolist()
        parts = [[VERDICT, BAD - label, *rng.integers(6, 9, 4).tolist()], [PLOT, BAD - other, *rng.integers(6, 9, 4).tolist()]]
        texts.append([word for index in rng.permutation(2) for word in parts[index]])
        labels.append(label)
    return texts, labels


def learnt_from(texts: list[list[int]], labels: list[int], logits_of: Callable[[Int64s], npt.ArrayLike], linear: LinearConfig) -> Floats:
    """The context weights where the logits of a word's n-grams are ``logits_of`` the words."""
    whole = encoded(texts, labels)
    ngrams = ngrams_of(whole, linear)
    logits_EU = np.asarray(logits_of(np.concatenate(texts)[ngrams.tokens]), np.float32)
    start = Stack(0.0, SCALE, np.full(logits_EU.shape[1], BIAS, np.float32))
    return learn_context_weights(whole, ngrams, logits_EU, start, linear, WORDS, seed=0)


def loss_by_hand(texts: list[list[int]], labels: list[int], scores: dict[int, float], context_weights: np.ndarray) -> float:
    """Mean cross-entropy of texts of words alone."""
    losses = []
    for text, label in zip(texts, labels, strict=True):
        weights = weights_in(text, 1, BUCKETS, 0, [1], context_weights)
        total = sum(weight * scores.get(number, 0.0) for number, weight in weights.items())
        logit = SCALE * total / math.sqrt(sum(weight**2 for weight in weights.values())) + BIAS
        losses.append(math.log1p(math.exp(-logit if label else logit)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("ending", [0, 20])
def test_it_is_learnt_around_which_words_opinions_count(ending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 30)
    texts, labels = texts_with_two_opinions(400)
    linear = LinearConfig(max_ngram=2, buckets=BUCKETS, end_decay=ending, context_windows=[1])
    context_weights = learnt_from(texts, labels, lambda words: 1.0 * (words == GOOD)[:, None] - (words == BAD)[:, None], linear)
    assert context_weights.shape == (WORDS, 1)
    assert context_weights[VERDICT, 0] > 0.5 > -0.5 > context_weights[PLOT, 0]
    assert not context_weights[[0, 1]].any()  # padding and a word that never comes


def test_the_loss_that_falls_is_that_of_the_formula() -> None:
    texts, labels = texts_with_two_opinions(300)
    linear = LinearConfig(max_ngram=1, buckets=BUCKETS, context_windows=[1])
    scores = np.random.default_rng(0).normal(scale=0.3, size=WORDS)
    scores[[GOOD, BAD]] = 1.0, -1.0
    by_bucket = {bucket([word], BUCKETS): float(scores[word]) for word in range(2, WORDS)}
    learnt = learnt_from(texts, labels, lambda words: scores[words][:, None], linear)
    before, after = (loss_by_hand(texts, labels, by_bucket, context_weights) for context_weights in (np.zeros((WORDS, 1)), learnt))
    assert after < before
    for word in (VERDICT, PLOT):
        nudged = learnt.copy()
        nudged[word] *= 0.5
        assert loss_by_hand(texts, labels, by_bucket, nudged) > after


def test_many_classes() -> None:
    texts, labels = texts_with_two_opinions(200)
    linear = LinearConfig(max_ngram=1, buckets=BUCKETS, context_windows=[1])
    context_weights = learnt_from(texts, labels, lambda words: words[:, None] == [BAD, GOOD, -1], linear)
    assert context_weights[VERDICT, 0] > 0 > context_weights[PLOT, 0]
