"""Word vectors against counts by brute force."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_matrix

from mha_cli.training import word_vectors as module
from mha_cli.training.word_vectors import (
    CONTEXT_POWER,
    SPREAD,
    WINDOW,
    cooccurrences,
    positive_pointwise_mutual_information,
    word_vectors,
)
from tests.reviews import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY_SIZE = 13


def random_reviews(num_reviews: int, seed: int = 0) -> list[list[int]]:
    """Reviews of up to 17 ids, the unknown token 1 and padding 0 among them."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, VOCABULARY_SIZE, rng.integers(0, 18)).tolist() for _ in range(num_reviews)]


def counts_by_hand(reviews: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    counts = np.zeros((VOCABULARY_SIZE, VOCABULARY_SIZE))
    for review in reviews:
        for place, word in enumerate(review):
            for other, context in enumerate(review):
                if 1 <= abs(place - other) <= WINDOW and word > 1 and context > 1:
                    counts[word, context] += 1 - (abs(place - other) - 1) / WINDOW
    return counts


def cosine(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


# Counts


@pytest.mark.parametrize("chunk", [1, 2, 7, 1_000_000])
def test_cooccurrences_are_those_of_a_double_loop(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_TOKENS", chunk)
    reviews = random_reviews(40)
    counts = cooccurrences([encoded(reviews[:25]), encoded(reviews[25:])], VOCABULARY_SIZE)
    np.testing.assert_allclose(counts.toarray(), counts_by_hand(reviews), rtol=1e-5)


def test_a_neighbour_counts_more_than_a_word_further_off() -> None:
    words = [2, 3, 4, 5, 6, 7, 8]
    counts = cooccurrences([encoded([words])], VOCABULARY_SIZE).toarray()
    np.testing.assert_allclose(counts[2, 3:9], [1.0, 0.8, 0.6, 0.4, 0.2, 0.0], atol=1e-6)
    np.testing.assert_array_equal(counts, counts.T)


@pytest.mark.parametrize("reviews", [[[2], [3]], [[2, 0, 1], [1, 0, 3]], [[], []], []])
def test_words_of_different_reviews_padding_and_unknown_words_are_no_context(reviews: list[list[int]]) -> None:
    assert cooccurrences([encoded(reviews)], VOCABULARY_SIZE).nnz == 0


# Mutual information


def test_mutual_information_is_that_of_the_formula() -> None:
    counts = counts_by_hand(random_reviews(12, seed=1))
    of_word = defaultdict(float, enumerate(counts.sum(axis=1)))
    smoothed = {word: of_word[word] ** CONTEXT_POWER for word in range(VOCABULARY_SIZE)}
    expected = np.zeros_like(counts)
    for word, context in zip(*np.nonzero(counts), strict=True):
        p_pair = counts[word, context] / counts.sum()
        p_word, p_context = of_word[word] / counts.sum(), smoothed[context] / sum(smoothed.values())
        expected[word, context] = max(0.0, math.log(p_pair / (p_word * p_context)))
    assert 0 < np.count_nonzero(expected) < np.count_nonzero(counts)
    found = positive_pointwise_mutual_information(csr_matrix(counts))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)


# Vectors


def test_words_of_the_same_contexts_come_out_near() -> None:
    """2 and 3 stand between 4 and 5; 6 and 7 stand between 8 and 9; never do 2 and 3, or 6 and 7, stand in one review."""
    reviews = [[4, 2, 5], [4, 3, 5], [8, 6, 9], [8, 7, 9]] * 5
    vectors = word_vectors([encoded(reviews)], VOCABULARY_SIZE, 4, seed=0)
    assert cosine(vectors[2], vectors[3]) > 0.99
    assert cosine(vectors[6], vectors[7]) > 0.99
    assert abs(cosine(vectors[2], vectors[6])) < 0.1


@pytest.mark.parametrize("width", [1, 5, 12, 13, 29])
def test_vectors_have_the_asked_for_shape_and_spread(width: int) -> None:
    vectors = word_vectors([encoded(random_reviews(60))], VOCABULARY_SIZE, width, seed=0)
    assert vectors.shape == (VOCABULARY_SIZE, width)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert vectors[2:].std() == pytest.approx(SPREAD, rel=1e-3)
    assert (vectors[:2] == 0).all()  # padding and the unknown token
    assert (vectors[:, 12:] == 0).all()  # there are no more directions than that


def test_products_of_full_width_vectors_give_the_decomposition_back() -> None:
    """With as many units as words, U √S has the row products U S Uᵀ: those of the symmetric root of M Mᵀ."""
    reviews = random_reviews(60)
    ratios = positive_pointwise_mutual_information(cooccurrences([encoded(reviews)], VOCABULARY_SIZE)).toarray().astype(np.float64)
    values, directions = np.linalg.eigh(ratios @ ratios.T)
    expected = (directions * np.sqrt(np.maximum(values, 0))) @ directions.T
    vectors = word_vectors([encoded(reviews)], VOCABULARY_SIZE, VOCABULARY_SIZE, seed=0).astype(np.float64)
    products = vectors @ vectors.T
    np.testing.assert_allclose(products * np.trace(expected) / np.trace(products), expected, atol=1e-3)


def test_the_same_seed_gives_the_same_vectors() -> None:
    texts = [encoded(random_reviews(60))]
    first, again = (word_vectors(texts, VOCABULARY_SIZE, 5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_texts_without_neighbours_give_zeros() -> None:
    assert (word_vectors([encoded([[2], [3]])], VOCABULARY_SIZE, 5, seed=0) == 0).all()


def test_a_vocabulary_without_words_gives_zeros() -> None:
    assert word_vectors([encoded([[1, 1], [1]])], 2, 5, seed=0).tolist() == [[0.0] * 5] * 2
