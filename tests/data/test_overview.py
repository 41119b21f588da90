"""Training and test data in figures, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config
from mha_cli.data.overview import look_over
from mha_cli.errors import MhaError

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def write(path: str, rows: list[tuple[str, str]], blank_lines: int = 0) -> None:
    Path(path).write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows) + "\n" * blank_lines)


TRAIN = [("a b c", "x"), ("a b b b", "x"), ("a d", "y"), ("A b c", "y"), ("e " * 9, "x"), ("", "y")]
TEST = [("a b c", "y"), ("a b c", "x"), ("e f f f", "z"), ("", "x")]


def test_figures_of_both() -> None:
    write("train.jsonl", TRAIN, blank_lines=2)
    write("test.jsonl", TEST, blank_lines=1)
    settings = ["data.train=train.jsonl", "data.test=test.jsonl", "text.sequence_length=3", "text.vocabulary_size=6"]
    found = look_over(load_config(find_config("text"), settings))
    assert (found.data, found.vocabulary_size, found.sequence_length) == ("train.jsonl", 6, 3)
    train, test = found.train, found.test
    assert test is not None
    assert (train.split, train.texts.num_texts, train.texts.classes, train.texts.num_blank) == ("train", 6, {"x": 3, "y": 3}, 2)
    assert (test.split, test.texts.num_texts, test.texts.classes, test.texts.num_blank) == ("test", 4, {"x": 2, "y": 1, "z": 1}, 1)
    assert (train.texts.num_wordless, test.texts.num_wordless, test.texts.num_two_labels) == (1, 1, 1)
    assert (train.histogram, test.histogram) == ({1: 1, 2: 1, 3: 2, 4: 1, 6: 0, 8: 0, 12: 1}, {1: 1, 2: 0, 3: 2, 4: 1})
    assert (train.num_cut, test.num_cut) == (2, 1)
    # Of the words a (4), b (5), c (2), d (1), e (9) the vocabulary has room for e, b, a and c. No other text has e or d.
    assert train.unknown_share == pytest.approx(10 / 21)
    assert test.unknown_share == pytest.approx(3 / 10)
    assert (train.num_in_training, train.num_new_classes) == (None, None)
    assert (test.num_in_training, test.num_new_classes) == (2, 1)


def test_the_recipe_decides_lengths_and_vocabulary_from_the_texts() -> None:
    write("train.jsonl", [(f"{'word ' * 30} {number}", "xy"[number % 2]) for number in range(50)])
    found = look_over(load_config(find_config("text"), ["data.train=train.jsonl"]))
    assert (found.vocabulary_size, found.sequence_length, found.test) == (53, 31, None)
    assert (found.train.num_cut, found.train.histogram) == (0, {32: 50})
    assert found.train.unknown_share == pytest.approx(1 / 31)


def test_texts_that_cannot_be_learnt_from_are_refused() -> None:
    write("train.jsonl", [("a", "x"), ("b", "x")])
    with pytest.raises(MhaError, match=r"^train\.jsonl, split train: every text has the class 'x'; "):
        look_over(load_config(find_config("text"), ["data.train=train.jsonl"]))


def test_texts_without_a_word() -> None:
    write("train.jsonl", [("fine", "x"), ("fine", "x"), ("dull", "y"), ("dull", "y")])
    write("test.jsonl", [("", "x"), ("", "y")])
    found = look_over(load_config(find_config("text"), ["data.train=train.jsonl", "data.test=test.jsonl"])).test
    assert found is not None
    assert (found.texts.num_wordless, found.unknown_share, found.histogram) == (2, 0.0, {1: 2})
