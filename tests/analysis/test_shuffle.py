"""The word-order experiment: what it shuffles, and what it concludes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.analysis.evaluation import evaluate
from mha_cli.analysis.shuffle import (
    ROUNDING,
    ShuffleResult,
    compare,
    shuffle_words,
    train_and_compare,
    verdict,
)
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import Config, SampleData
from mha_cli.data.corpus import EncodedTexts
from mha_cli.data.preparation import PreparedData, labelled_texts
from mha_cli.errors import MhaError
from mha_cli.system.callbacks import Callbacks


def encoded(reviews: list[list[int]], labels: list[int] | None = None) -> EncodedTexts:
    return EncodedTexts(
        tokens=np.array([token_id for review in reviews for token_id in review], dtype=np.int32),
        offsets=np.array([0, *np.cumsum([len(review) for review in reviews])], dtype=np.int64),
        labels=np.array(labels or [0] * len(reviews), dtype=np.int32),
        num_truncated=0,
    )


def decoded(reviews: EncodedTexts) -> list[list[int]]:
    return [reviews.tokens[start:stop].tolist() for start, stop in zip(reviews.offsets[:-1], reviews.offsets[1:], strict=True)]


# Shuffling


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


def test_a_subset_holds_the_given_reviews() -> None:
    reviews = encoded([[2, 3], [], [4], [5, 6, 7]], [0, 1, 0, 1])
    chosen = reviews.subset(np.array([1, 3]))
    assert decoded(chosen) == [[], [5, 6, 7]]
    assert chosen.labels.tolist() == [1, 1]
    assert chosen.padded(np.array([0, 1])).tolist() == [[0, 0, 0], [5, 6, 7]]
    assert decoded(reviews.subset(np.arange(4))) == decoded(reviews)


# The verdict


def result(accuracy: float = 0.9, shuffled: float = 0.9, largest_change: float = 0.4, num_texts: int = 1000) -> ShuffleResult:
    return ShuffleResult(
        name="run",
        positions="learned",
        data="sample",
        split="twins",
        num_texts=num_texts,
        accuracy=accuracy,
        shuffled_accuracies=[shuffled],
        shuffled_mean=shuffled,
        shuffled_spread=0.0,
        flip_share=0.1,
        largest_change=largest_change,
        reads_order=largest_change > ROUNDING,
        verdict="",
    )


def test_verdict_of_a_model_that_cannot_read_order() -> None:
    assert verdict(result(largest_change=3e-7)) == (
        "cannot read word order: the most that a shuffle moves a probability is 3.0e-07, which is float rounding (up to 1e-05)"
    )


def test_verdict_of_a_model_that_depends_on_order() -> None:
    assert verdict(result(accuracy=0.9, shuffled=0.5)) == "reads word order: shuffling the words costs 40.0 points of accuracy"
    assert verdict(result(accuracy=0.5, shuffled=0.61)) == "reads word order: shuffling the words gains 11.0 points of accuracy"


def test_verdict_within_two_standard_errors() -> None:
    # The standard error of an accuracy of 0.9 over 1,000 reviews is 0.3 / √1000, which is 0.95 points.
    hardly = "sees word order (probabilities move by up to 0.40), but its accuracy hardly depends on it"
    assert verdict(result(accuracy=0.9, shuffled=0.8811)) == hardly
    assert verdict(result(accuracy=0.9, shuffled=0.918)) == hardly
    assert verdict(result(accuracy=0.9, shuffled=0.881)) == "reads word order: shuffling the words costs 1.9 points of accuracy"
    assert verdict(result(accuracy=1.0, shuffled=1.0)) == hardly


# Models


def test_with_and_without_positions(shuffle_run: tuple[Path, list[ShuffleResult]], tiny_config: Config) -> None:
    output, (with_positions, without) = shuffle_run
    assert (with_positions.name, with_positions.positions) == ("with-positions", "learned")
    assert (without.name, without.positions) == ("without-positions", "none")
    for found in (with_positions, without):
        assert (found.data, found.split, found.num_texts) == ("sample", "twins", 66)
        checkpoint = read_checkpoint(output / found.name / "checkpoint.keras")
        assert found.accuracy == evaluate(checkpoint, labelled_texts(checkpoint, tiny_config.data, "twins")).accuracy
        assert len(found.shuffled_accuracies) == 3
        assert found.shuffled_mean == pytest.approx(sum(found.shuffled_accuracies) / 3)
        assert found.shuffled_spread == pytest.approx(np.std(found.shuffled_accuracies, ddof=1))
        assert found.verdict == verdict(found)

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


@pytest.mark.usefixtures("untraced")
def test_compare_takes_part_of_another_split_and_follows_the_seed(checkpoint_path: Path) -> None:
    logged: list[str] = []
    checkpoint = read_checkpoint(checkpoint_path)
    labelled = labelled_texts(checkpoint, SampleData(num_texts=800, seed=7), "test")

    def run(seed: int, callbacks: Callbacks) -> ShuffleResult:
        (found,) = compare([("it", checkpoint, labelled)], num_shuffles=1, max_texts=31, seed=seed, callbacks=callbacks)
        return found

    first, again, other = run(1, Callbacks(log=logged.append)), run(1, Callbacks()), run(2, Callbacks())
    assert (first.split, first.num_texts) == ("test", 31)
    assert (first.shuffled_mean, first.shuffled_spread) == (first.shuffled_accuracies[0], 0.0)
    assert first == again
    assert first.largest_change != other.largest_change
    assert logged == ["it: shuffle 1 of 1"]


@pytest.mark.usefixtures("untraced")
def test_compare_takes_all_reviews_where_there_are_not_as_many(checkpoint_path: Path) -> None:
    checkpoint = read_checkpoint(checkpoint_path)
    labelled = labelled_texts(checkpoint, checkpoint.config.data, "twins")
    (found,) = compare([("it", checkpoint, labelled)], num_shuffles=1, max_texts=1000)
    assert (found.split, found.num_texts) == ("twins", 66)


def test_a_used_output_folder_is_refused_before_any_work(tiny_data: PreparedData, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    logged: list[str] = []
    with pytest.raises(MhaError) as raised:
        train_and_compare(tiny_data, tmp_path, num_shuffles=1, callbacks=Callbacks(log=logged.append))
    assert str(raised.value).startswith(f"--output {tmp_path}: ")
    assert logged == []
