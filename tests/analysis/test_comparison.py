import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

from mha_cli.analysis.comparison import (
    Difference,
    ModelScore,
    accuracies_and_f1,
    compare_models,
    differences,
    exact_matches_and_f1,
    holm,
    verdict,
)
from mha_cli.analysis.evaluation import evaluate
from mha_cli.arrays import Int32s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError
from mha_cli.preparation.scored_texts import same_texts
from mha_cli.runtime.classifier import Classifier
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import WORDS, small_checkpoint

CLASSES = ("neg", "so-so", "pos")


def answers_of(rng: np.random.Generator, labels: Int32s, accuracy: float, num_classes: int) -> Int32s:
    """Answers that are right so often, and else drawn from all classes."""
    return np.where(rng.random(len(labels)) < accuracy, labels, rng.integers(num_classes, size=len(labels)))


def difference(labels: Int32s, first: Int32s, other: Int32s) -> Difference:
    scores = [ModelScore("", float(np.mean(answers == labels)), (0, 1), 0.0, 0.0) for answers in (first, other)]
    (found,) = differences(scores, labels, [first, other])
    return found


def closed_form(one: int, other: int) -> float:
    """McNemar's exact p value: both tails of the binomial distribution with one half."""
    few, total = min(one, other), one + other
    return min(1.0, 2 * sum(math.comb(total, number) for number in range(few + 1)) / 2**total)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (7, 2), (2, 7), (13, 13), (101, 67), (0, 29)])
def test_mcnemars_test_is_the_binomial_one(gained: int, lost: int) -> None:
    labels = np.zeros(211, np.int64)
    first, other = labels.copy(), labels.copy()
    first[:gained] = 1
    other[gained : gained + lost] = 1
    found = difference(labels, first, other)
    assert (found.only_this_right, found.only_first_right) == (gained, lost)
    assert found.p_value == pytest.approx(closed_form(gained, lost), rel=1e-9)
    assert found.accuracy == pytest.approx((gained - lost) / 211)
    assert found.same_answers == pytest.approx(1 - (gained + lost) / 211)


@pytest.mark.parametrize("num_classes", [2, 3, 11])
def test_every_draw_is_scored_as_by_scikit_learn(num_classes: int) -> None:
    rng = np.random.default_rng(num_classes)
    labels = rng.integers(num_classes, size=23)
    answers = [answers_of(rng, labels, accuracy, num_classes + 1) for accuracy in (0.3, 0.5, 0.9)]
    drawn = rng.multinomial(23, np.full(23, 1 / 23), size=7)
    found = accuracies_and_f1(np.stack([labels, *answers], axis=1), drawn)
    assert found.shape == (7, 3, 2)
    for counts, of_draw in zip(drawn, found, strict=True):
        for given, (accuracy, macro_f1) in zip(answers, of_draw, strict=True):
            of_texts = (labels.repeat(counts), given.repeat(counts))
            assert accuracy == pytest.approx(metrics.accuracy_score(*of_texts))
            assert macro_f1 == pytest.approx(metrics.f1_score(*of_texts, average="macro", zero_division=0.0))


def test_every_draw_of_texts_with_several_labels_is_scored_as_by_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random((23, 5)) < 0.3
    answers = [labels ^ (rng.random(labels.shape) < wrong) for wrong in (0.05, 0.3)]
    drawn = rng.multinomial(23, np.full(23, 1 / 23), size=7)
    found = exact_matches_and_f1(2, np.concatenate([labels, *answers], axis=1), drawn)
    for counts, of_draw in zip(drawn, found, strict=True):
        for given, (exact, macro_f1) in zip(answers, of_draw, strict=True):
            of_texts = (labels.repeat(counts, axis=0), given.repeat(counts, axis=0))
            occurs = np.logical_or(*of_texts).any(axis=0)
            assert exact == pytest.approx(metrics.accuracy_score(*of_texts))
            assert macro_f1 == pytest.approx(metrics.f1_score(*(one[:, occurs] for one in of_texts), average="macro", zero_division=0.0))


def test_several_comparisons_are_corrected_as_by_r() -> None:
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])  # p.adjust(…, "holm")
    assert holm([0.7, 0.001, 0.6]) == pytest.approx([1.0, 0.003, 1.0])
    assert holm([0.2]) == [0.2]


def test_verdicts() -> None:
    assert verdict("a", 30, 10, 0.002) == "more accurate than a, hardly by chance"
    assert verdict("a", 10, 30, 0.002) == "less accurate than a, hardly by chance"
    assert verdict("a", 12, 10, 0.05) == "these texts do not tell it from a: the difference may be chance"
    assert verdict("a", 0, 0, 1.0) == "right on the very same texts as a"


# From checkpoints


@pytest.fixture
def texts(tmp_path: Path) -> FilesData:
    rng = np.random.default_rng(11)
    rows = [f'"{" ".join(rng.choice(WORDS, 7))}",{CLASSES[number % 3]}' for number in range(61)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    return FilesData(source="files", train=str(tmp_path / "texts.csv"), test=str(tmp_path / "texts.csv"))


def reordered(checkpoint: Checkpoint, order: list[int]) -> Checkpoint:
    """The same model with its classes in another order."""
    num_classes = len(checkpoint.class_names)
    weights = {
        path: weight[..., order] if weight.shape[-1] == num_classes and path.startswith("classifier") else weight
        for path, weight in checkpoint.weights.items()
    }
    return replace(checkpoint, class_names=tuple(checkpoint.class_names[number] for number in order), weights=weights)


@pytest.mark.usefixtures("untraced")
def test_the_order_of_the_classes_does_not_matter(texts: FilesData) -> None:
    first, other = small_checkpoint(CLASSES), small_checkpoint(CLASSES, seed=1)
    models = [first, reordered(first, [2, 0, 1]), other, reordered(other, [1, 2, 0])]
    read = same_texts(models, texts)
    result = compare_models(list(zip("abcd", models, read, strict=True)))
    same, apart, apart_too = result.differences
    assert (same.same_answers, same.only_this_right, same.p_value) == (1.0, 0, 1.0)
    assert apart.same_answers < 1
    assert replace(apart, name="d") == apart_too
    for score, model, labelled in zip(result.models, models, read, strict=True):
        alone = evaluate(model, labelled)
        assert (score.accuracy, score.accuracy_interval) == (alone.accuracy, alone.accuracy_interval)
        assert (score.macro_f1, score.loss) == pytest.approx((alone.macro_f1, alone.loss))
    assert apart.accuracy == pytest.approx(result.models[2].accuracy - result.models[0].accuracy)
    assert apart.macro_f1 == pytest.approx(result.models[2].macro_f1 - result.models[0].macro_f1)
    counts = (apart.only_this_right, apart.only_first_right)
    assert apart.p_value == pytest.approx(min(1.0, 3 * closed_form(*counts)))  # of three comparisons


def test_models_that_read_alike_share_the_texts(texts: FilesData) -> None:
    first = small_checkpoint(CLASSES)
    other_words = replace(first, vocabulary=Vocabulary(reversed(WORDS)))
    read = same_texts([first, small_checkpoint(CLASSES, seed=1), other_words, first, reordered(first, [2, 0, 1])], texts)
    assert [labelled is read[0] for labelled in read] == [True, True, False, True, False]
    assert not np.array_equal(read[2].texts.tokens[:], read[0].texts.tokens[:])


@pytest.mark.parametrize("task", ["single-label", "multi-label"])
def test_models_are_compared_on_the_classes_that_all_of_them_have(task: str, texts: FilesData, tmp_path: Path) -> None:
    with (tmp_path / "texts.csv").open("a") as file:
        file.write("\nsuperb film,new\ndreadful film,new")
    models = [small_checkpoint(names, seed=1) for names in (CLASSES, ("new", *CLASSES))]
    few, more = (replace(one, config=one.config.model_copy(update={"task": task})) for one in models)
    notes = list[str]()
    read = same_texts([few, more], texts)
    several, of_all = task == "multi-label", 63 if task == "multi-label" else 61
    left_out = "0 texts" if several else "2 texts"
    result = compare_models([("few", few, read[0]), ("more", more, read[1])], callbacks=Callbacks(note=notes.append))
    assert notes == [f"{tmp_path}/texts.csv: classes that not all models have do not count: new; {left_out} of these left out"]
    rows = [line.rsplit(",", 1) for line in (tmp_path / "texts.csv").read_text().splitlines()[1:]][:of_all]
    for score, model in zip(result.models, (few, more), strict=True):
        found = Classifier(model).predict([text.strip('"') for text, _ in rows])
        answers = [{*one.labels} - {"new"} if several else {one.label} for one in found]
        right = [answer == {label} - ({"new"} if several else set()) for answer, (_, label) in zip(answers, rows, strict=True)]
        assert score.accuracy == pytest.approx(np.mean(right))
    assert result.num_texts == of_all
    assert several or any(answer == {"new"} for answer in answers)  # which is wrong


def test_other_texts_are_refused(texts: FilesData, tmp_path: Path) -> None:
    first = small_checkpoint(CLASSES)
    (tmp_path / "fewer.csv").write_text("".join((tmp_path / "texts.csv").read_text().splitlines(keepends=True)[:-1]))
    fewer = texts.model_copy(update={"test": str(tmp_path / "fewer.csv")})
    read = [same_texts([first], data)[0] for data in (texts, fewer)]
    with pytest.raises(MhaError, match=r"^b: has read other texts than a; compare on texts that nothing changes meanwhile$"):
        compare_models([("a", first, read[0]), ("b", first, read[1])])
