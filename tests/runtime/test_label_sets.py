from dataclasses import replace

import numpy as np
import pytest

from mha_cli.analysis.set_scores import set_scores
from mha_cli.arrays import Floats, Int32s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.label_sets import LabelSets, fit_label_sets
from mha_cli.runtime.levels import Levels
from tests.checkpoints import small_checkpoint
from tests.cli.test_answers import said
from tests.errors import error_of

NAMES = ("a", "b", "c", "d", "e")


def drawn(rng: np.random.Generator, number: int, hard: float = 1.0) -> tuple[Floats, Int32s]:
    """Probabilities that are right in two of three texts; those of class 0 are right less often the larger ``hard``."""
    labels = rng.integers(5, size=number).astype(np.int32)
    logits = rng.normal(2.0 * (labels[:, None] == np.arange(5)), np.where(labels == 0, hard, 1.0)[:, None])
    weights = np.exp(logits)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32), labels


def with_held_out(probabilities: Floats, labels: Int32s) -> Checkpoint:
    return replace(small_checkpoint(NAMES), held_out=HeldOut.of(probabilities, labels))


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_the_coverage_is_the_one_that_was_asked_for(coverage: float) -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(50):
        sets = fit_label_sets(with_held_out(*drawn(rng, 199)), coverage)
        probabilities, labels = drawn(rng, 1000)
        found.append((probabilities >= sets.thresholds)[np.arange(1000), labels].mean())
        assert sets.members(probabilities)[np.arange(1000), labels].mean() >= found[-1] - 0.002  # which rounding may take
    assert np.mean(found) == pytest.approx(coverage, abs=0.01)


def test_a_class_that_is_missed_far_more_often_gets_its_own_threshold() -> None:
    rng = np.random.default_rng(1)
    model = with_held_out(*drawn(rng, 2000, hard=4.0))
    sets = fit_label_sets(model, 0.9)
    assert sets.thresholds[0] < sets.thresholds[1:].min() / 2
    probabilities, labels = drawn(rng, 4000, hard=4.0)
    scores = set_scores(sets, probabilities, labels, NAMES)
    assert [each.coverage for each in scores.classes] == pytest.approx([0.9] * 5, abs=0.04)
    sizes = sets.members(probabilities).sum(axis=1)
    assert (scores.labels, scores.single) == pytest.approx((sizes.mean(), (sizes == 1).mean()))
    assert scores.asked == 0.9
    assert scores.coverage_interval[0] < scores.coverage < scores.coverage_interval[1]


def test_a_set_is_never_empty_and_begins_with_the_most_probable_label() -> None:
    probabilities = np.full((19, 5), 0.01, np.float32)
    probabilities[:, 0] = 0.96
    sets = fit_label_sets(with_held_out(probabilities, np.zeros(19, np.int32)), 0.9)
    assert sets.labels({"a": 0.3, "b": 0.4, "c": 0.2, "d": 0.1, "e": 0.0}) == ["b"]
    assert sets.labels({"a": 0.96, "b": 0.02, "c": 0.01, "d": 0.01, "e": 0.0}) == ["a"]


def test_too_few_held_out_texts_and_several_labels() -> None:
    model = with_held_out(*drawn(np.random.default_rng(0), 18))
    for coverage in (0, 1, 90, float("nan")):
        fault = f"a coverage of {coverage:g}: not between 0 and 1; give the share of texts to cover, such as 0.9"
        assert error_of(fit_label_sets, model, coverage) == fault
    problem = "--coverage 0.95 needs 19 held-out texts, and the model has 18"
    assert error_of(fit_label_sets, model, 0.95) == f"{problem}; ask for at most 0.947, or name more labelled texts with --data FILE"
    fit_label_sets(model, 0.947)
    several = replace(small_checkpoint(task="multi-label"), held_out=HeldOut.of(np.ones((9, 2), np.float32), np.ones((9, 2), bool)))
    problem = "--coverage: the model gives several labels per text, and a set holds one right label; leave --coverage out"
    assert error_of(fit_label_sets, several, 0.8) == problem


def test_an_answer_has_the_set_and_its_probability() -> None:
    model = with_held_out(*drawn(np.random.default_rng(0), 200))
    classifier, choice = Classifier(model), Choice(sets=fit_label_sets(model, 0.99))
    (prediction,) = classifier.predict(["the film"])
    (labels,) = classifier.label_sets(["the film"], 0.99)
    answer = choice.answer(prediction)
    assert answer.labels == labels
    assert answer.label == "|".join(labels)
    assert answer.probability == pytest.approx(min(1.0, sum(prediction.probabilities[name] for name in labels)))
    assert replace(choice, only=(labels[-1],)).answer(prediction).label == answer.label
    assert len(labels) < 5
    (other, *_) = {*NAMES} - {*labels}
    assert replace(choice, only=(other,)).answer(prediction).label is None


def test_a_set_in_levels_is_found_by_what_is_above_its_labels() -> None:
    prediction = replace(said(0.2, 0.5, 0.3), levels=Levels(["art > film", "art > music", "sci"], ">"))
    prediction = replace(prediction, probabilities={"art > film": 0.6, "art > music": 0.3, "sci": 0.1})
    sets = LabelSets(0.9, np.array([0.25, 0.25, 0.25]))
    answers = {name: Choice(only=(name,), sets=sets).answer(prediction) for name in ("art", "art > music", "sci")}
    assert [answer.label for answer in answers.values()] == ["art > film|art > music"] * 2 + [None]
    assert "path" not in answers["art"].as_json(1)
