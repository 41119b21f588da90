from __future__ import annotations

import dataclasses

import pytest

from mha_cli.errors import MhaError
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Prediction

NAMES = ("bad", "mixed", "good")


def said(*probabilities: float) -> Prediction:
    best = max(probabilities)
    return Prediction("", NAMES[probabilities.index(best)], best, dict(zip(NAMES, probabilities, strict=True)), 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        (Choice(), "mixed"),
        (Choice(threshold=0.0), "mixed"),
        (Choice(threshold=0.5), "mixed"),
        (Choice(threshold=0.51), None),
        (Choice(only=("mixed",)), "mixed"),
        (Choice(only=("bad", "mixed")), "mixed"),
        (Choice(only=("bad", "good")), None),
        # A threshold replaces the rule that the class must be the most probable one.
        (Choice(only=("good",), threshold=0.3), "good"),
        (Choice(only=("good",), threshold=0.31), None),
        (Choice(only=("bad", "good"), threshold=0.2), "good"),
        (Choice(only=("mixed",), threshold=0.51), None),
    ],
)
def test_the_answer(choice: Choice, answer: str | None) -> None:
    assert choice.answer(said(0.2, 0.5, 0.3)) == answer


@pytest.mark.parametrize(
    ("top_k", "threshold", "names"),
    [
        (1, None, ["mixed"]),
        (2, None, ["mixed", "good"]),
        (9, None, ["mixed", "good", "bad"]),
        (9, 0.3, ["mixed", "good"]),
        (1, 0.3, ["mixed"]),
        (3, 0.6, []),
    ],
)
def test_the_most_probable(top_k: int, threshold: float | None, names: list[str]) -> None:
    prediction = said(0.2, 0.5, 0.3)
    assert Choice(threshold, top_k=top_k).top(prediction) == [(name, prediction.probabilities[name]) for name in names]


@pytest.mark.parametrize(
    ("choice", "asked", "answer", "top"),
    [
        (Choice(), 0.5, "mixed", ["mixed", "good", "bad"]),
        (Choice(), 0.51, None, []),
        (Choice(only=("mixed",)), 0.51, None, []),
        (Choice(only=("good",)), 0.51, None, []),
        (Choice(threshold=0.0), 0.51, "mixed", ["mixed", "good", "bad"]),  # what is given by hand counts alone
        (Choice(threshold=0.3), 0.51, "mixed", ["mixed", "good"]),
        (Choice(threshold=0.6), 0.5, None, []),
    ],
)
def test_what_the_checkpoint_asks_for(choice: Choice, asked: float, answer: str | None, top: list[str]) -> None:
    prediction = dataclasses.replace(said(0.2, 0.5, 0.3), threshold=asked)
    assert choice.answer(prediction) == answer
    assert [name for name, _ in choice.top(prediction)] == top
    assert prediction.label == "mixed"


def test_equally_probable_classes_keep_their_order() -> None:
    assert [name for name, _ in Choice(top_k=3).top(said(0.25, 0.5, 0.25))] == ["mixed", "bad", "good"]
    assert Choice(0.1, ("good", "bad")).answer(said(0.25, 0.5, 0.25)) == "good"


def test_a_class_that_the_model_does_not_have() -> None:
    Choice(only=("good", "bad")).refuse_unknown(NAMES)
    with pytest.raises(MhaError) as raised:
        Choice(only=("good", "god")).refuse_unknown(NAMES)
    assert str(raised.value) == "--only god: no class of the model; did you mean good?"
    with pytest.raises(MhaError) as raised:
        Choice(only=("\x1b",)).refuse_unknown(("a\tb", "c"))
    assert str(raised.value) == r"--only \x1b: no class of the model; choose from a\tb, c"
