"""The test part of a file: which texts it takes, and that no training sees them."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mha_cli.config.settings import FilesData, TextConfig
from mha_cli.corpus.corpus import Corpus
from mha_cli.sources import held_out
from mha_cli.sources.files import FileTexts
from mha_cli.sources.held_out import drawn_for_testing, groups_by_names, held_out_groups, names_in
from mha_cli.sources.labelled_text import LabelledText
from tests.errors import error_of

REVIEWS = [LabelledText(f"text {number}", "rare" if number % 10 == 0 else "usual") for number in range(300)]


def drawn_of(reviews: list[LabelledText], share: float = 0.2, by_names: bool = False) -> list[LabelledText]:
    """The reviews of the test part."""
    drawn = drawn_for_testing(reviews, share, by_names, "a.csv")
    return [review for review, is_drawn in zip(reviews, drawn, strict=True) if is_drawn]


def test_every_class_gives_its_share_of_the_same_texts_as_ever() -> None:
    assert [review.text for review in drawn_of(REVIEWS[:20])] == ["text 2", "text 3", "text 6", "text 18"]
    assert Counter(review.label for review in drawn_of(REVIEWS)) == {"rare": 6, "usual": 54}


def test_it_is_the_same_part_in_any_order_and_nearly_so_with_more_texts() -> None:
    shuffled = random.Random(0).sample(REVIEWS, len(REVIEWS))
    assert {*drawn_of(shuffled)} == {*drawn_of(REVIEWS)}
    more = [*REVIEWS, *(LabelledText(f"later {number}", "usual") for number in range(30))]
    moved = {*drawn_of(more)} ^ {*drawn_of(REVIEWS)}
    assert sum(review in REVIEWS for review in moved) < 10


def test_equal_texts_are_on_one_side_whatever_their_labels() -> None:
    drawn = drawn_for_testing([*REVIEWS, *(LabelledText(review.text, "usual") for review in REVIEWS)], 0.2, False, "a.csv")
    np.testing.assert_array_equal(*np.split(drawn, 2))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_every_class_keeps_a_text_to_learn_from(share: float) -> None:
    reviews = [*REVIEWS, LabelledText("alone", "single"), LabelledText("text 1", "only of two labels")]
    drawn = drawn_for_testing(reviews, share, False, "a.csv")
    kept = {review.label for review, is_drawn in zip(reviews, drawn, strict=True) if not is_drawn}
    assert kept == {"rare", "usual", "single", "only of two labels"}


def test_texts_that_share_names_are_on_one_side() -> None:
    films = [f"I saw Zorblax{film} and Quuxley{film}" for film in "abcdefghij"]
    reviews = [LabelledText(f"{film}, it was number {number}", str(number % 2)) for film in films for number in range(8)]
    drawn = drawn_for_testing(reviews, 0.2, True, "a.csv")
    assert [*drawn.reshape(10, 8).sum(axis=1)].count(8) == 2
    assert drawn.sum() == 16


@pytest.mark.parametrize(("by_names", "way_out"), [(False, "raise it, or name data.test"), (True, "take data.validation=random")])
def test_a_share_of_no_text_is_refused(by_names: bool, way_out: str) -> None:
    assert error_of(lambda: drawn_of(REVIEWS[:20], 0.01, by_names)) == f"a.csv: data.test_share=0.01 comes to none of 20 texts; {way_out}"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_split_column_decides(name: str, tmp_path: Path) -> None:
    rows = [(f"text {number}", "ab"[number % 2], "Test" if number % 5 == 0 else "train") for number in range(40)]
    keys = ("text", "label", "split")
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows] if name == "a.jsonl" else map(",".join, [keys, *rows])
    (tmp_path / name).write_text("\n".join(lines))
    source = FileTexts(FilesData(source="files", train=str(tmp_path / name), test_share=0.3))
    assert [review.text for review in source.read("test")] == [text for text, _, split in rows if split == "Test"]
    assert [review.text for review in source.read("train")] == [text for text, _, split in rows if split == "train"]


def test_a_group_is_on_one_side(tmp_path: Path) -> None:
    groups = {f"text {number}": number // 4 for number in range(80)}
    lines = [f"{text},{'ab'[number % 2]},{group}" for number, (text, group) in enumerate(groups.items())]
    (tmp_path / "a.csv").write_text("\n".join(["text,label,group", *lines]))
    source = FileTexts(FilesData(source="files", train=str(tmp_path / "a.csv"), test_share=0.2))
    train, test = ({groups[review.text] for review in source.read(split)} for split in source.splits)
    assert (len(test), len(train & test)) == (4, 0)


def test_a_file_is_read_in_two_parts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n\n" + "".join(f"{review.text},{review.label}\n" for review in REVIEWS))
    source = FileTexts(FilesData(source="files", train=str(tmp_path / "a.csv"), test_share=0.2))
    train, num_blank = [*source.read("train")], source.warnings.num_blank
    test = [*source.read("test")]
    assert [one[:2] for one in test] == [one[:2] for one in drawn_of(REVIEWS)]
    assert sorted(one.line or 0 for one in [*train, *test]) == [*range(3, 303)]
    assert (num_blank, source.warnings.num_blank) == (1, 0)


# Texts that share rare names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I saw Marlon Brando as Kurtz. Coppola directs.", ["Marlon", "Brando", "Kurtz"]),
        ("a film without names", []),
        ("It is. Not! Good? But Keanu is", ["Keanu"]),
        ("O'Brien and Al", ["O'Brien"]),
    ],
)
def test_names_in(text: str, expected: list[str]) -> None:
    assert [name for name in names_in(text) if name not in {"It", "The"}] == expected


@pytest.mark.parametrize(("text", "number"), [("A" * 1_000_000 + "1", 0), ("A''" * 300_000, 1), ("A1" * 500_000, 0)])
def test_adversarial_texts_finish(text: str, number: int) -> None:
    """Each would take hours, were the time not linear in the length."""
    assert len(names_in(text)) == number


@pytest.mark.parametrize("chunk", [7, 1000])
def test_reviews_of_one_film_are_one_group(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "CHUNK_TEXTS", chunk)
    names = [["Everybody", f"Actor{film}", f"Director{film}"] for film in range(20)]
    of_film = groups_by_names(names * 5).reshape(5, 20)
    assert (of_film == of_film[0]).all()
    assert len(set(of_film[0])) == 20


def test_neither_a_name_that_is_everywhere_nor_none_links_texts() -> None:
    groups = groups_by_names([["Everybody"]] * (held_out.COMMON + 1))
    assert len(set(groups)) == held_out.COMMON + 1
    assert groups_by_names([[], [], []]).tolist() == [0, 1, 2]


def test_groups_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MOST_TOGETHER", 4)
    _, counts = np.unique(groups_by_names([["Actor", "Director"]] * 20), return_counts=True)
    assert counts.max() == 4


def test_whole_groups_are_held_out() -> None:
    groups = np.repeat(np.arange(40), 5)
    rows = held_out_groups(groups, 0.2, 0)
    assert len(rows) in (40, 45)
    assert not set(groups[rows]) & set(np.delete(groups, rows))
    np.testing.assert_array_equal(rows, held_out_groups(groups, 0.2, 0))
    assert held_out_groups(np.array([0, 0, 0, 1, 1, 1, 1, 1]), 0.3, 0).tolist() == [3, 4, 5, 6, 7]  # no small ones


def test_reviews_that_cannot_be_parted() -> None:
    reviews = [LabelledText("I met Actor there and Director too", label) for label in ("good", "bad") * 5]
    corpus = Corpus(reviews, TextConfig(), None, "films.csv", by_names=True)
    assert error_of(corpus.split, 0.2, 0).startswith("films.csv: texts that share names cannot be split ")
