"""What is told about the data while it is prepared, and which split is read for scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import FilesData, SampleData, TfdsData
from mha_cli.data import corpus, preparation
from mha_cli.data.preparation import default_split, labelled_reviews, prepare
from mha_cli.data.reviews import Review
from mha_cli.errors import MhaError
from mha_cli.system.watcher import Watcher
from tests.checkpoints import small_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRAIN = "text,label\nfine,pos\nfine,pos\n\nfine,neg\ndull,neg\ngood,pos\nbad,neg\n,neg\n\n"


def noted(folder: Path, test: str | None) -> list[str]:
    (folder / "train.csv").write_text(TRAIN)
    if test is not None:
        (folder / "test.csv").write_text(test)
    data = {"source": "files", "train": str(folder / "train.csv"), "test": str(folder / "test.csv")}
    lines: list[str] = []
    prepare(config_from_dict({"data": data}, "test"), Watcher(note=lines.append))
    return [line.removeprefix(f"{folder}/") for line in lines]


ODD = "train.csv, 7 texts; without a word: 1, repeated to the letter: 2, texts with two labels: 1, blank lines left out: 2"


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    assert noted(tmp_path, "text,label\nnew,pos\n") == [ODD]


def test_reviews_in_both_parts_are_told(tmp_path: Path) -> None:
    known = "train.csv: 2 texts of the test data are among the training data, to the letter"
    assert noted(tmp_path, "text,label\nnew,pos\nfine,pos\nbad,neg\nBad,neg\n") == [ODD, known]


def test_nothing_is_told_where_nothing_is_odd(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\nfine,pos\ngood,pos\ndull,neg\nbad,neg\n")
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    prepare(config_from_dict({"data": data}, "test"), Watcher(note=lines.append))
    assert lines == []


def test_what_is_wrong_with_the_test_data_is_told_and_does_not_end_the_training(tmp_path: Path) -> None:
    odd, missing = noted(tmp_path, None)
    assert odd == ODD
    assert missing.startswith(f"the test data cannot be read: {tmp_path}/test.csv: no such file or folder; ")
    _, broken = noted(tmp_path, "text\n")
    assert broken.startswith(f'the test data cannot be read: {tmp_path}/test.csv:1: no column "label" among text; ')


# For scoring


def test_a_validation_split_of_the_source_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Source:
        name = "films"
        splits = ("train", "validation")
        class_names = None

        def read(self, split: str) -> Iterator[Review]:
            assert split == "validation"
            return iter([Review("the film", "positive"), Review("", "negative")])

    monkeypatch.setattr(preparation, "open_source", lambda *_, **__: Source())
    found = labelled_reviews(small_checkpoint(), FilesData(source="files", train="films.csv"), "validation")
    assert (found.data, found.split, found.reviews.labels.tolist()) == ("films", "validation", [1, 0])


@pytest.mark.parametrize(("words", "share"), [("der Film superb", None), ("der Film langweilig", "67%")])
def test_most_words_are_unknown(words: str, share: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpus, "CHUNK_TOKENS", 7)
    (tmp_path / "films.csv").write_text("text,label\n" + f"{words},positive\n" * 40)
    notes: list[str] = []
    labelled_reviews(small_checkpoint(), FilesData(source="files", train="films.csv"), "train", Watcher(note=notes.append))
    told = (
        f"films.csv, split train: {share} of the words are not in the model's vocabulary: was it trained on such texts, in this language?"
    )
    assert notes == ([told] if share else [])


def test_the_default_split() -> None:
    assert default_split(SampleData()) == default_split(FilesData(source="files", train="films.csv")) == "test"
    assert default_split(TfdsData(source="tfds", test_split="unseen")) == "unseen"


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", "films.csv, split train: text 2 has the class 'meh'; the model knows negative, positive"),
        ("validation", "films.csv: a text has the class 'meh'; the classes are negative, positive"),
        (None, "the config names no test data; set data.test, give --data FILE, or take --split validation"),
        ("tset", 'no split "tset" in films.csv; choose from train'),
    ],
)
def test_what_cannot_be_scored(split: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text("text,label\n" + "a film,positive\na film,meh\n" * 2)
    with pytest.raises(MhaError) as raised:
        labelled_reviews(small_checkpoint(), FilesData(source="files", train="films.csv"), split)
    assert str(raised.value) == expected
