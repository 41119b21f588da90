"""Reviews that share rare names stay on one side of the split."""

from __future__ import annotations

import numpy as np
import pytest

from mha_cli.config.settings import TextConfig
from mha_cli.data import names
from mha_cli.data.corpus import Corpus
from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.names import groups_by_names, held_out_groups, names_in
from mha_cli.errors import MhaError


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("A" * 1_000_000 + "1", 0),
        ("A''" * 300_000, 1),
        ("A1" * 500_000, 0),
    ],
)
def test_adversarial_texts_finish(text: str, number: int) -> None:
    """Each would take hours, were the time not linear in the length."""
    assert len(names_in(text)) == number


def films(num_films: int, reviews_of_each: int) -> list[LabelledText]:
    """Reviews that name two people of their film, and one person whom every review names."""
    return [
        LabelledText(f"I like Everybody in it and Actor{chr(65 + film)}x with Director{chr(65 + film)}y too", ("bad", "good")[number % 2])
        for number in range(reviews_of_each)
        for film in range(num_films)
    ]


def test_reviews_of_one_film_are_one_group() -> None:
    reviews = films(20, 5)
    groups = groups_by_names([names_in(review.text) for review in reviews])
    of_film = groups.reshape(5, 20)
    assert (of_film == of_film[0]).all()
    assert len(set(of_film[0])) == 20


def test_a_name_that_is_everywhere_links_nothing() -> None:
    groups = groups_by_names([["Everybody"]] * (names.COMMON + 1))
    assert len(set(groups)) == names.COMMON + 1


def test_no_names_at_all() -> None:
    assert groups_by_names([[], [], []]).tolist() == [0, 1, 2]


def test_groups_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MOST_TOGETHER", 4)
    _, counts = np.unique(groups_by_names([["Actor", "Director"]] * 20), return_counts=True)
    assert counts.max() == 4


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [names_in(review.text) for review in films(9, 4)]
    whole = groups_by_names(found)
    monkeypatch.setattr(names, "CHUNK_TEXTS", 7)
    np.testing.assert_array_equal(groups_by_names(found), whole)


@pytest.mark.parametrize("seed", [0, 1])
def test_whole_groups_are_held_out(seed: int) -> None:
    groups = np.repeat(np.arange(40), 5)
    rows = held_out_groups(groups, 0.2, seed)
    assert len(rows) % 5 == 0
    assert 40 <= len(rows) <= 45
    assert not set(groups[rows]) & set(np.delete(groups, rows))
    np.testing.assert_array_equal(rows, held_out_groups(groups, 0.2, seed))


def test_small_groups_are_not_held_out() -> None:
    groups = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    assert held_out_groups(groups, 0.3, 0).tolist() == [3, 4, 5, 6, 7]


def test_a_corpus_split_by_names() -> None:
    reviews = films(20, 6)
    corpus = Corpus(reviews, TextConfig(), None, "films.csv", by_names=True)
    train, validation = corpus.split(0.2, seed=0)
    assert sorted([*train, *validation]) == list(range(len(reviews)))
    film = np.tile(np.arange(20), 6)
    assert not set(film[train]) & set(film[validation])
    assert 0.15 <= len(validation) / len(reviews) <= 0.3


def test_reviews_that_cannot_be_parted() -> None:
    reviews = [LabelledText("I met Actor there and Director too", label) for label in ("good", "bad") * 5]
    with pytest.raises(MhaError, match=r"films\.csv: texts that share names cannot be parted .*; take data\.validation=random"):
        Corpus(reviews, TextConfig(), None, "films.csv", by_names=True).split(0.2, seed=0)
