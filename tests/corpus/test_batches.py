"""Batches of similar length: nothing lost, nothing twice, little padding."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.arrays import Int64s
from mha_cli.config.settings import ModelConfig
from mha_cli.corpus.batches import SCORING_TOKENS, Rows, at_common_length, padded, scoring_batches, training_batches
from mha_cli.system import working_memory
from mha_cli.system.working_memory import MemoryEstimate

SMALL = MemoryEstimate(ModelConfig(embed_dim=1, num_heads=1, feed_forward_dim=1), 2, in_blocks=True)
"""A model whose forward pass takes next to nothing."""

many_lengths = st.lists(st.integers(0, 400), max_size=300).map(lambda lengths: np.array(lengths, dtype=np.int64))


def review_lengths(num_texts: int) -> Int64s:
    """Lengths as skewed as those of real reviews, median 180."""
    return np.random.default_rng(0).lognormal(np.log(180), 0.7, num_texts).astype(np.int64)


def padding_share(batches: list[Rows], lengths: Int64s) -> float:
    cells = sum(len(rows) * max(1, lengths[rows].max()) for rows in batches)
    return float(1 - lengths.sum() / cells)


@given(many_lengths, st.integers(1, 40), st.integers(0, 100))
def test_training_batches_hold_every_row_once(lengths: Int64s, batch_size: int, seed: int) -> None:
    batches = training_batches(lengths, np.random.default_rng(seed), batch_size)
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    # The learning-rate schedule counts on this number of steps.
    assert len(batches) == math.ceil(len(lengths) / batch_size)
    assert sum(len(rows) != batch_size for rows in batches) == (len(lengths) % batch_size > 0)


def test_training_batches_hold_little_padding_and_come_in_no_order_of_length() -> None:
    lengths, rng = review_lengths(5000), np.random.default_rng(0)
    bucketed = training_batches(lengths, rng, 8)
    random = np.split(rng.permutation(len(lengths)), 5000 // 8)
    assert padding_share(bucketed, lengths) < padding_share(random, lengths) / 4
    longest = [lengths[rows].max() for rows in bucketed]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


@given(many_lengths)
def test_scoring_batches_hold_every_row_once_the_shortest_first(lengths: Int64s) -> None:
    order = [row for rows in scoring_batches(lengths, SMALL) for row in rows]
    assert sorted(order) == list(range(len(lengths)))
    assert lengths[order].tolist() == sorted(lengths)


@pytest.mark.parametrize("scale", [1, 50])
def test_scoring_batches_are_as_large_as_the_limit_allows(scale: int) -> None:
    lengths = review_lengths(2000) * scale
    batches = list(scoring_batches(lengths, SMALL))
    assert len(batches) > 1
    for rows, following in pairwise(batches):
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= SCORING_TOKENS
        assert (len(rows) + 1) * lengths[following[0]] > SCORING_TOKENS  # one more would not fit
    assert len(batches[-1]) == 1 or len(batches[-1]) * lengths[batches[-1]].max() <= SCORING_TOKENS


def test_scoring_batches_have_fewer_reviews_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_memory, "BATCH_BYTES", SMALL.num_bytes(3, 20))
    assert [rows.tolist() for rows in scoring_batches(np.full(7, 20), SMALL)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [rows.tolist() for rows in scoring_batches(np.array([5_000, 20]), SMALL)] == [[1], [0]]


def test_scoring_batches_of_texts_of_similar_length() -> None:
    lengths = np.array([0, 16, 17, 40, 66, 67])
    assert [rows.tolist() for rows in scoring_batches(lengths, SMALL, most_padded=1.25)] == [[0, 1, 2], [3, 4], [5]]


def test_scoring_batches_of_empty_and_of_endless_texts() -> None:
    lengths = np.array([SCORING_TOKENS + 1, 3, SCORING_TOKENS * 2])
    assert [rows.tolist() for rows in scoring_batches(lengths, SMALL)] == [[1], [0], [2]]
    assert [len(rows) for rows in scoring_batches(np.zeros(SCORING_TOKENS + 5, dtype=np.int64), SMALL)] == [SCORING_TOKENS, 5]


# Padding


def test_what_is_padded_is_as_wide_as_the_longest_and_as_it_has_to_be() -> None:
    assert padded([[3], [], (4, 5)]).tolist() == [[3, 0], [0, 0], [4, 5]]
    assert padded([np.array([7, 8, 9], np.int32)], 5).tolist() == [[7, 8, 9, 0, 0]]
    assert padded([[], []]).tolist() == [[0], [0]]
    assert padded([[1]]).dtype == np.int32
    of_tokens = padded([np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)], dtype=np.float32)
    assert (of_tokens.dtype, of_tokens.tolist()) == (np.float32, [[[1, 1], [0, 0], [0, 0]], [[1, 1]] * 3])


@given(st.integers(1, 2000))
def test_a_common_length_is_one_of_few_and_little_longer(length: int) -> None:
    token_ids = np.arange(1, 1 + 2 * length, dtype=np.int32).reshape(2, length)
    common = at_common_length(token_ids, 2048)
    np.testing.assert_array_equal(common[:, :length], token_ids)
    assert not common[:, length:].any()
    assert length <= common.shape[1] < length * 17 / 16
    np.testing.assert_array_equal(at_common_length(common, 2048), common)


def test_a_batch_of_no_text_and_one_with_characters_have_a_common_length_too() -> None:
    for shape, common in (((0, 33), (0, 34)), ((2, 33, 5), (2, 34, 5))):
        found = at_common_length(np.ones(shape, np.int32), 600)
        assert (found.shape, found.sum()) == (common, np.prod(shape))
