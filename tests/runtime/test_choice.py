import dataclasses

import pytest

from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Prediction
from tests.cli.test_answers import said


def top_classes(choice: Choice, prediction: Prediction) -> list[str]:
    """The most probable classes by a choice, all that there are if it gives no number."""
    top = dataclasses.replace(choice, top_k=choice.top_k or "all").answer(prediction).top
    assert top == [(name, prediction.probabilities[name]) for name, _ in top]
    return [name for name, _ in top]


@pytest.mark.parametrize(
    ("choice", "asked", "answer", "top"),
    [
        (Choice(), 0.0, "mixed", ["mixed", "good", "bad"]),
        (Choice(top_k=1), 0.0, "mixed", ["mixed"]),
        (Choice(threshold=0.5), 0.0, "mixed", ["mixed"]),
        (Choice(threshold=0.51), 0.0, None, []),
        (Choice(only=("bad", "mixed")), 0.0, "mixed", ["mixed", "good", "bad"]),
        (Choice(only=("bad", "good")), 0.0, None, ["mixed", "good", "bad"]),
        # A threshold replaces the rule that the class must be the most probable one.
        (Choice(only=("good",), threshold=0.3), 0.0, "good", ["mixed", "good"]),
        (Choice(only=("bad", "good"), threshold=0.2), 0.0, "good", ["mixed", "good", "bad"]),
        # Thresholds of the checkpoint.
        (Choice(), 0.5, "mixed", ["mixed", "good", "bad"]),
        (Choice(), 0.51, None, []),
        (Choice(threshold=0.3), 0.51, "mixed", ["mixed", "good"]),  # what is given by hand counts alone
        (Choice(threshold=0.6), 0.5, None, []),
    ],
)
def test_answer_and_top_classes(choice: Choice, asked: float, answer: str | None, top: list[str]) -> None:
    prediction = dataclasses.replace(said(0.2, 0.5, 0.3), threshold=asked)
    assert choice.answer(prediction).label == answer
    assert top_classes(choice, prediction) == top


def test_no_label_of_several_is_no_answer() -> None:
    prediction = dataclasses.replace(said(0.2, 0.5, 0.3), labels=())
    assert prediction.answer is Choice().answer(prediction).label is None
    assert top_classes(Choice(top_k=2), prediction) == ["mixed", "good"]


def test_equally_probable_classes_keep_their_order() -> None:
    assert top_classes(Choice(), said(0.25, 0.5, 0.25)) == ["mixed", "bad", "good"]
    assert Choice(0.1, ("good", "bad")).answer(said(0.25, 0.5, 0.25)).label == "good"
