"""The word-order experiment: what it shuffles, and what it concludes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.analysis.evaluation import evaluate
from mha_cli.analysis.shuffle import ROUNDING, ShuffleResult, shuffle_words, verdict
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import Config
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.scored_texts import labelled_texts
from tests.reviews import encoded


def decoded(reviews: EncodedTexts) -> list[list[int]]:
    return [reviews.tokens[start:stop].tolist() for start, stop in zip(reviews.offsets[:-1], reviews.offsets[1:], strict=True)]


@given(st.lists(st.lists(st.integers(1, 9), max_size=8), min_size=1, max_size=8), st.integers(0, 99))
def test_a_shuffle_keeps_the_words_of_every_review(reviews: list[list[int]], seed: int) -> None:
    before = encoded(reviews, list(range(len(reviews))))
    after = shuffle_words(before, np.random.default_rng(seed))
    assert list(map(Counter, decoded(after))) == list(map(Counter, reviews))
    assert after.offsets.tolist() == before.offsets.tolist()
    assert after.labels.tolist() == before.labels.tolist()
    assert decoded(before) == reviews


def test_every_order_is_equally_likely() -> None:
    orders = Counter(map(tuple, decoded(shuffle_words(encoded([[1, 2, 3]] * 6000), np.random.default_rng(0)))))
    assert len(orders) == 6
    assert all(abs(count - 1000) < 150 for count in orders.values())  # five standard deviations


def test_verdicts() -> None:
    # The standard error of an accuracy of 0.9 over 1,000 texts is 0.3 / √1000, which is 0.95 points.
    hardly = "sees word order (probabilities move by up to 0.40), but its accuracy hardly depends on it"
    for accuracy, shuffled, expected in [
        (0.9, 0.5, "reads word order: shuffling the words costs 40.0 points of accuracy"),
        (0.5, 0.61, "reads word order: shuffling the words gains 11.0 points of accuracy"),
        (0.9, 0.8811, hardly),
        (0.9, 0.918, hardly),
        (0.9, 0.881, "reads word order: shuffling the words costs 1.9 points of accuracy"),
        (1.0, 1.0, hardly),
    ]:
        assert verdict(accuracy, shuffled, 0.4, 1000) == expected
    assert verdict(0.9, 0.5, 3e-7, 1000) == (
        "cannot read word order: the most that a shuffle moves a probability is 3.0e-07, which is float rounding (up to 1e-05)"
    )


def test_with_and_without_positions(shuffle_run: tuple[Path, list[ShuffleResult]], tiny_config: Config) -> None:
    output, (with_positions, without) = shuffle_run
    assert (with_positions.name, with_positions.positions) == ("with-positions", "learned")
    assert (without.name, without.positions) == ("without-positions", "none")
    for found in (with_positions, without):
        assert (found.data, found.split, found.num_texts) == ("sample", "twins", 34)
        checkpoint = read_checkpoint(output / found.name / "checkpoint.keras")
        assert found.accuracy == evaluate(checkpoint, labelled_texts(checkpoint, tiny_config.data, "twins")).accuracy
        assert len(found.shuffled_accuracies) == 3
        assert found.shuffled_mean == pytest.approx(sum(found.shuffled_accuracies) / 3)
        assert found.shuffled_spread == pytest.approx(np.std(found.shuffled_accuracies, ddof=1))
        assert found.verdict == verdict(found.accuracy, found.shuffled_mean, found.largest_change, 34)

    assert with_positions.reads_order
    assert with_positions.largest_change > 100 * ROUNDING
    assert with_positions.verdict.startswith(("reads word order: ", "sees word order "))

    assert not without.reads_order
    assert without.largest_change <= ROUNDING
    assert without.verdict.startswith("cannot read word order: the most that a shuffle moves a probability is ")
    # Both twins get the same answer, which is right for one of them.
    assert without.accuracy == pytest.approx(0.5, abs=0.02)
    assert without.shuffled_accuracies == pytest.approx([without.accuracy] * 3, abs=0.02)
    assert without.flip_share == pytest.approx(0, abs=0.02)
