from __future__ import annotations

from typing import TYPE_CHECKING

import memory
import pytest
from plots import spread

from mha_cli.data.files import labelled_columns, read_labelled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("values", "moved"),
    [([1, 5, 9], [1, 5, 9]), ([1, 1], [0.5, 1.5]), ([1, 1.5, 2.1], [0.5333, 1.5333, 2.5333]), ([1, 3, 3, 3], [1, 2, 3, 4])],
)
def test_labels_that_crowd_are_spread_around_their_middle(values: list[float], moved: list[float]) -> None:
    assert spread(values, 1.0) == pytest.approx(moved, abs=1e-3)


def test_reviews_are_made_of_the_sentences_of_their_class(tmp_path: Path) -> None:
    path, given = tmp_path / "reviews.csv", [("Good. Very good! So?", "pos"), ("Bad film.", "neg"), ("Fine, really. Yes.", "pos")]
    memory.write_reviews(path, given, 1500)
    made = [*read_labelled([str(path)], labelled_columns("text", "label"))]
    assert len(made) == 1500
    assert {review.text for review in made if review.label == "neg"} == {"Bad film."}
    good = [memory.END_OF_SENTENCE.split(review.text) for review in made if review.label == "pos"]
    assert len(good) == 750
    assert {len(sentences) for sentences in good} == {2, 3}
    assert {sentence for sentences in good for sentence in sentences} == {"Good.", "Very good!", "So?", "Fine, really.", "Yes."}
