"""Labels that may be wrong: which are contradicted, as cleanlab says; out-of-fold probabilities; and the places of their texts."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from mha_cli.analysis import label_issues as module
from mha_cli.analysis.label_issues import contradicted, cross_fitted_probabilities, find_label_issues, ranked
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config
from mha_cli.config.settings import Config, LinearConfig, TrainingConfig
from tests.reviews import encoded
from tests.tables import write_table

WORDS = {"good": ["superb", "lovely", "moving", "funny"], "bad": ["dull", "awful", "tedious", "noisy"], "so-so": ["mixed", "fair", "plain"]}


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def texts_of(num_texts: int, wrong: set[int]) -> list[tuple[str, str]]:
    """Texts that say their class, and the class that they are given: the next one for those that are wrong."""
    rng, classes = np.random.default_rng(0), [*WORDS]
    made = []
    for number in range(num_texts):
        said = number % len(classes)
        words = [*rng.choice(WORDS[classes[said]], 3), *rng.choice(["the", "film", "was", "a", "lamp"], 4)]
        made.append((" ".join(rng.permutation(words)) + f" {number}", classes[(said + (number in wrong)) % len(classes)]))
    return made


def config_of(train: list[str]) -> Config:
    return load_config(find_config("text"), [f"data.train={json.dumps(train)}"])


def test_neither_the_answer_nor_a_class_without_texts_contradicts() -> None:
    """In the first row 0.4 is above the threshold of class 1, 0.3, and 0.6 below that of class 0, 0.83. No label is of class 2."""
    probabilities = np.array([[0.6, 0.4, 0.0], [0.95, 0.05, 0.0], [0.95, 0.05, 0.0], [0.0, 0.3, 0.7]], np.float32)
    assert not contradicted(probabilities, np.array([0, 0, 0, 1], np.int32)).any()


def test_cleanlab_says_the_same() -> None:
    """Frozen: find_label_issues(labels, probabilities, filter_by="confident_learning", return_indices_ranked_by="self_confidence"), 2.9."""
    rng = np.random.default_rng(7)
    true = rng.integers(0, 3, 150)
    logits = rng.normal(0, 1.2, (150, 3))
    logits[np.arange(150), true] += 1.8
    probabilities = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    labels = np.where(rng.random(150) < 0.2, (true + rng.integers(1, 3, 150)) % 3, true).astype(np.int32)
    found = contradicted(probabilities, labels)
    surest = [19, 79, 24, 127, 82, 141, 124, 23, 97, 17, 47, 61, 9, 69, 137, 145, 40, 94, 114, 68]
    others = [26, 130, 121, 64, 113, 128, 90, 149, 31, 60, 85, 36, 106, 92, 87, 100, 70, 122, 46]
    assert [row for row in ranked(probabilities, labels).tolist() if found[row]] == surest + others


def test_a_class_of_one_text_is_nobody_elses_answer() -> None:
    labels = [0, 1] * 20 + [2]
    tokens = encoded([[2 + label, 10 + number % 7] for number, label in enumerate(labels)], labels)
    found = cross_fitted_probabilities(tokens, 3, Config(linear=LinearConfig(max_ngram=1, buckets=128)))
    assert (found[:40, 2] < 0.01).all()  # 0.04 for those whose fold it is in, if it were scored 0 there
    assert (found[:40].argmax(axis=1) == labels[:40]).all()


@pytest.mark.parametrize("several", [False, True])
def test_classes_may_be_balanced_and_weights_of_texts_do_not_count(several: bool) -> None:
    labels = np.arange(40) % 3
    texts = encoded([[2 + label, 10 + number % 7] for number, label in enumerate(labels)], labels)
    texts = dataclasses.replace(texts, labels=labels[:, None] != np.arange(3)) if several else texts
    config = Config(linear=LinearConfig(max_ngram=1, buckets=128), training=TrainingConfig(class_weights="balanced"))
    found, weighted = (
        cross_fitted_probabilities(dataclasses.replace(texts, weights=weights), 3, config) for weights in (None, np.linspace(0, 9, 40))
    )
    np.testing.assert_array_equal(found, weighted)


def test_wrong_labels_are_found_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {4, 17, 58, 80, 133}
    rows = texts_of(150, wrong)
    write_table("part-1.csv", [(text.replace(" ", "\n", 1), label) for text, label in rows[:50]])  # two lines each
    Path("part-2.jsonl").write_text("\n" + "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows[50:100]))
    for number, (text, label) in enumerate(rows[100:]):
        path = Path("more", label, f"{number}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    report = find_label_issues(config_of(["part-*", "more"]), len(wrong))
    assert (report.data, report.num_texts) == ("part-* and 1 more", 150)
    assert 1 <= report.num_contradicted == sum(issue.contradicted for issue in report.label_issues)
    assert report.accuracy == pytest.approx(145 / 150)
    places = {("part-1.csv", 10), ("part-1.csv", 36), ("part-2.jsonl", 10), ("part-2.jsonl", 32), (f"more/{rows[133][1]}/33.txt", None)}
    assert {(issue.file, issue.line) for issue in report.label_issues} == places
    for issue in report.label_issues:
        number = int(issue.text.split()[-1])
        text, label = rows[number]
        assert (issue.text.split(), issue.label) == (text.split(), label)
        assert issue.suggested == [*WORDS][number % 3]
        assert issue.probability < 0.2 < 0.8 < issue.suggested_probability < 1
    # Of too many texts, some are answered by some. All texts are listed if more than all are wanted.
    monkeypatch.setattr(module, "MOST_TOGETHER", 60)
    every = find_label_issues(config_of(["part-*", "more"]), 1000).label_issues
    assert {(issue.file, issue.line) for issue in every[:5]} == places
    assert len({issue.text for issue in every}) == 150
    assert all(issue.probability > issue.suggested_probability and not issue.contradicted for issue in every[5:])


def test_labels_that_differ_in_case_alone_are_no_issue() -> None:
    rows = [(text, label.upper() if number % 7 == 0 else label) for number, (text, label) in enumerate(texts_of(90, {4, 17}))]
    write_table("a.csv", rows)
    report = find_label_issues(config_of(["a.csv"]), 10)
    assert {issue.line for issue in report.label_issues if issue.contradicted} == {6, 19}
    assert all(issue.label.casefold() != issue.suggested.casefold() for issue in report.label_issues)


@pytest.mark.parametrize("upper", ["GOOD", " GOOD"])
def test_a_label_may_be_merged_into_one_that_differs_in_case(upper: str) -> None:
    """Every seventh text is spelt in one of two other ways, as long as it is good."""
    spelt = {"good": ("GOOD", "fine")}
    rows = [
        (text, spelt.get(label, (label,) * 2)[number % 2] if number % 7 == 0 else label)
        for number, (text, label) in enumerate(texts_of(90, {4}))
    ]
    write_table("a.csv", rows)
    config = config_of(["a.csv"]).changed(data={"merge_labels": {"fine": upper}})
    assert {issue.label for issue in find_label_issues(config, 100).label_issues} == {label for _, label in texts_of(90, {4})}


def test_a_recipe_without_scores_has_those_of_the_recipe_text() -> None:
    config = load_config(find_config("book"), ["data.source=sample", "data.num_texts=4000"])
    assert not config.linear
    report = find_label_issues(config, 2)
    assert (report.data, report.num_texts, len(report.label_issues)) == ("sample", 4000, 2)
    assert report.accuracy > 0.6
    assert report.label_issues[0].file == "sample, split train"
    assert 1 <= (report.label_issues[0].line or 0) <= 4000
