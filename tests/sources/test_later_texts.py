"""Texts of ``data.more``: whose label counts, and which part of the texts they belong to."""

import numpy as np
import pytest

from mha_cli.config.settings import FilesData, TextConfig
from mha_cli.corpus.corpus import Corpus
from mha_cli.sources.files import FileTexts
from tests.tables import write_table

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def texts_of(more: list[str], split: str = "train", test_share: float | None = None) -> dict[str, str]:
    settings = FilesData(source="files", train="first.csv", more=more, text_column="text", label_column="label", test_share=test_share)
    return {one.text: str(one.label) for one in FileTexts(settings).read(split)}


def parts(more: list[str]) -> tuple[set[str], set[str]]:
    """The texts to learn from and to validate with."""
    settings = FilesData(source="files", train="first.csv", more=more, text_column="text", label_column="label")
    texts = list(FileTexts(settings).read("train"))
    corpus = Corpus(texts, TextConfig(), None, "first.csv")
    rows = corpus.split(0.2, seed=5)
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(texts)))
    learnt, held_out = ({texts[row].text for row in part} for part in rows)
    return learnt, held_out


@pytest.fixture(autouse=True)
def first(in_an_empty_folder: None) -> dict[str, str]:
    found = {f"text {number}": "abc"[number % 3] for number in range(101)}
    write_table("first.csv", found.items())
    return found


def test_the_last_label_of_a_text_counts(first: dict[str, str]) -> None:
    write_table("second.csv", {"text 1": "c", "text 2": "a", "new": "a"}.items())
    write_table("third.csv", {"text 1": "a", "new": "b", "newer": "d"}.items())
    assert texts_of(["second.csv", "third.csv"]) == {**first, "text 1": "a", "text 2": "a", "new": "b", "newer": "d"}


@pytest.mark.parametrize("label", ["a", "d"], ids=["an old class", "a new class"])
def test_held_out_texts_stay_held_out(label: str) -> None:
    learnt, held_out = parts([])
    texts = [*sorted(held_out)[:7], *sorted(learnt)[:7], *(f"new {number}" for number in range(40))]
    write_table("second.csv", ((text, label) for text in texts))
    write_table("third.csv", {f"newer {number}": "c" for number in range(10)}.items())
    for more, num_more in ((["second.csv"], 8), (["second.csv", "third.csv"], 2)):
        learnt_now, held_out_now = parts(more)
        assert learnt < learnt_now
        assert held_out < held_out_now
        assert len(held_out_now - held_out) == num_more
        learnt, held_out = learnt_now, held_out_now


def test_a_few_texts_of_many_classes_are_learnt_from_and_a_new_class_is_held_out_once() -> None:
    _, before = parts([])
    write_table("second.csv", {"b 1": "b", "c 1": "c", "d 1": "d", "e 1": "e", "e 2": "e"}.items())
    held_out = parts(["second.csv"])[1] - before
    assert len(held_out) == 1
    assert held_out < {"e 1", "e 2"}


def test_texts_of_the_test_part_are_tested_with_their_later_label(first: dict[str, str]) -> None:
    tested = texts_of([], "test", 0.2)
    write_table("second.csv", dict.fromkeys([*list(tested)[:5], "new"], "d").items())
    assert texts_of(["second.csv"], "test", 0.2) == tested | dict.fromkeys(list(tested)[:5], "d")
    learnt = texts_of(["second.csv"], "train", 0.2)
    assert learnt.keys() == first.keys() - tested.keys() | {"new"}


def test_the_last_weight_of_a_text_counts(first: dict[str, str]) -> None:
    """One that had none before is a later text, and one that has none any more moves no other text to the other side."""

    def parts_with(more: list[str]) -> list[dict[str, float]]:
        settings = FilesData(source="files", train="first.csv", more=more, text_column="text", label_column="label", weight_column="weight")
        source = FileTexts(settings)
        texts = list(source.read("train"))
        corpus = Corpus(texts, TextConfig(), None, "first.csv")
        assert source.warnings.num_weightless == (1, 6, 5)[len(more)]
        return [{texts[row].text: float(corpus.weights[row]) for row in part} for part in corpus.split(0.2, seed=5)]

    def write_weighted(name: str, rows: dict[str, float]) -> None:
        write_table(name, ((text, first.get(text, "a"), rows[text]) for text in rows), "text,label,weight")

    write_weighted("first.csv", dict.fromkeys(first, 0.5) | {"text 7": 0})
    learnt, held_out = parts_with([])
    assert "text 7" not in {*learnt, *held_out}
    none_now = dict.fromkeys([*list(learnt)[:3], *list(held_out)[:2]], 0.0)
    changed = {**none_now, list(learnt)[3]: 3.0, "text 7": 2.0, "new": 0.0, "text 8": 9.0}
    write_weighted("second.csv", changed)
    write_weighted("third.csv", {"new": 1.5, "text 8": 4.0})
    for more, expected in ((["second.csv"], changed), (["second.csv", "third.csv"], {**changed, "new": 1.5, "text 8": 4.0})):
        learnt_now, held_out_now = parts_with(more)
        assert learnt_now | held_out_now == {text: weight for text, weight in (learnt | held_out | expected).items() if weight}
        assert held_out_now.keys() == {text for text in held_out if expected.get(text) != 0}
