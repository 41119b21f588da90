"""Embeddings of n-grams against plain NumPy in float64, and what they make of the scores."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from mha_cli.arrays import Float64s
from mha_cli.config.settings import Config, LinearConfig
from mha_cli.linear.features import Ngrams, ngrams_of
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model
from mha_cli.linear.ngram_embeddings import batch_loss, learn_ngram_embeddings
from tests.linear.test_fit import prepared
from tests.reviews import bucket, encoded


def of_texts(*texts: Sequence[int]) -> Ngrams:
    """Texts that have these buckets, which stand for n-grams."""
    buckets = [number for text in texts for number in text]
    return Ngrams(np.array(buckets, np.int32), np.arange(len(buckets)), np.cumsum([0, *map(len, texts)]))


def unit(vector: Float64s) -> Float64s:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def loss_by_hand(table: Float64s, texts: list[list[int]], asked: list[list[bool]]) -> float:
    """The mean over the n-grams that are asked of minus the logarithm of what each gives its own text."""
    told = [[row for row, is_asked in zip(text, of_text, strict=True) if not is_asked] for text, of_text in zip(texts, asked, strict=True)]
    sums = [unit(sum((unit(table[row]) for row in text), np.zeros(table.shape[1]))) for text in told]
    losses = []
    for number, (text, of_text) in enumerate(zip(texts, asked, strict=True)):
        for row, is_asked in zip(text, of_text, strict=True):
            if is_asked:
                logits = [12.0 * float(unit(table[row]) @ other) for other in sums]
                losses.append(np.log(np.sum(np.exp(logits))) - logits[number])
    return float(np.mean(losses)) if losses else 0.0


def random_texts(number: int, num_rows: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [sorted(rng.choice(num_rows, rng.integers(1, num_rows), replace=False).tolist()) for _ in range(number)]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])  # with 0 nothing is asked, with 1 no text has a vector
def test_the_loss_is_that_of_the_formula(share: float) -> None:
    texts, rng = random_texts(7, 13), np.random.default_rng(1)
    table = rng.normal(0, 2, (13, 5))
    asked = [(rng.random(len(text)) < share).tolist() for text in texts]
    text_P = np.repeat(np.arange(7, dtype=np.int32), [len(text) for text in texts])
    found = batch_loss(table.astype(np.float32), np.concatenate(texts).astype(np.int32), text_P, np.concatenate(asked), 7)
    assert float(found) == pytest.approx(loss_by_hand(table, texts, asked), abs=1e-5)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("texts", [[], [[]], [[1, 2], [2], [1, 3]]])
def test_rare_ngrams_have_none(texts: list[list[int]]) -> None:
    assert learn_ngram_embeddings([of_texts(*texts)], 0) is None
    found = learn_ngram_embeddings([of_texts(*texts, [7], [7], [7, 5])], 0)
    assert found is not None
    assert found.buckets.tolist() == [7]
    np.testing.assert_array_equal(found.of(np.array([0, 5, 7, 9])), [np.zeros(64), np.zeros(64), found.table[0], np.zeros(64)])


def test_a_word_that_no_label_knows_is_judged_by_the_company_it_keeps() -> None:
    """Words 2 to 9 go with the second class, 10 to 17 with the first; 18 and 19 stand beside them in texts without labels alone."""
    rng = np.random.default_rng(0)

    def texts(number: int, *more: int) -> list[list[int]]:
        return [[*rng.choice(8, 5, replace=False) + (2 if row % 2 else 10), *([more[row % 2]] if more else [])] for row in range(number)]

    labelled, unlabelled = encoded(texts(60), [row % 2 for row in range(60)]), encoded(texts(600, 19, 18))
    linear = LinearConfig(max_ngram=1, buckets=1024)
    assert 18 not in ngrams_of(labelled, linear).buckets
    found = {}
    for on in (False, True):
        config = Config(linear=linear.model_copy(update={"ngram_embeddings": on}))
        data = dataclasses.replace(prepared(config, labelled, labelled, 2), unlabelled=unlabelled)
        table = fit_linear_model(config, data).table
        found[on] = table[bucket([18], 1024), 0], table[bucket([19], 1024), 0]
        np.testing.assert_array_equal(cross_fit_linear_model(config, data)[0].table, table)
    assert found[False] == (0, 0)
    assert found[True][0] > 0.05
    assert found[True][1] < -0.05
