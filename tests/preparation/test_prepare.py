"""What is told about the data while it is prepared."""

import json
from pathlib import Path
from typing import Any

import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.describe.profile import data_overview, profile_data
from mha_cli.preparation.prepare import prepare
from mha_cli.system.callbacks import Callbacks

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def notes_of(rows: str, config: dict[str, Any] | None = None, **data: str | float) -> list[str]:
    Path("train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    lines: list[str] = []
    section = {"source": "files", "train": "train.csv", **data}
    prepare(config_from_dict({"data": section, **(config or {})}, "test"), Callbacks(note=lines.append))
    return lines


ROWS = "fine,pos\nfine,pos\n\nfine,neg\ndull,neg\ngood,pos\nbad,neg\n,neg\n\n"
KNOWN = "train.csv, validation part; texts that are also in the training part: 2 of 2; its figures are optimistic for other texts"


ODD = "train.csv, 7 texts; without a word: 1, repeated to the letter: 2, texts with two labels: 1, blank lines left out: 2"


@pytest.mark.parametrize(
    ("test", "noted"),
    [
        ("text,label\nnew,pos\n", []),
        ("text,label\nnew,pos\nfine,pos\nbad,neg\nBad,neg\n", ["train.csv; test texts that are also training texts: 2"]),
        ("text,label\ndull,pos\nfine,pos\n", ["train.csv; test texts that are also training texts: 2, 1 of them with another label"]),
        ("text\n", ['the test data cannot be read: test.csv:1: no column "label" among text; set data.label_column']),
    ],
)
def test_likely_mistakes_in_training_and_test_data_are_noted(test: str, noted: list[str]) -> None:
    Path("test.csv").write_text(test)
    assert notes_of(ROWS, test="test.csv") == [ODD, *noted, KNOWN]


UNKNOWN_WORDS = "".join(
    f'"{" ".join(f"w{number}" for number in range(start, start + 20))} {", . ! ? ( ) " * 5}",{"ab"[start // 20 % 2]}\n'
    for start in range(0, 4000, 20)
)
TEXTS = [f"text {number},{'ab'[number % 2]}\n" for number in range(100)]


@pytest.mark.parametrize(
    ("rows", "noted"),
    [
        ("fine,pos\ngood,pos\ndull,neg\nbad,neg\n", []),
        ("".join(TEXTS * 5), ["; texts that are also in the training part: 50 of 50; its figures are optimistic for other texts"]),
        ("".join(TEXTS + TEXTS[:1]), []),
        (UNKNOWN_WORDS, [": 100% of the words are not in the model's vocabulary: give more texts, or raise text.vocabulary_size"]),
    ],
)
def test_a_validation_part_whose_figures_mislead_is_noted(rows: str, noted: list[str]) -> None:
    of_validation = [note for note in notes_of(rows, validation_share=0.1) if "validation part" in note]
    assert of_validation == [f"train.csv, validation part{note}" for note in noted]


@pytest.mark.parametrize("read", [False, True])
def test_texts_without_labels_that_nothing_reads_are_noted(read: bool) -> None:
    Path("more.txt").write_text("a film\nanother\n")
    config = {"linear": {"buckets": 64, "ngram_embeddings": read}}
    notes = notes_of("fine film,pos\ndull film,neg\n" * 3, config, unlabelled="more.txt")
    note = "train.csv: nothing reads the texts without labels; see training.teacher and linear.ngram_embeddings"
    assert (note in notes) is not read


@pytest.mark.parametrize(
    ("labels", "issues"),
    [
        (["Pos", "pos", "POS", "neg"] * 2, "classes that differ from others in case alone: 2 (data.merge_labels merges them)"),
        (["good", "nan", "#N/A", "bad", "NULL"] * 2, "classes that may mean no label: 3 (#N/A, NULL, nan)"),
    ],
)
def test_labels_that_look_like_mistakes_are_noted_by_every_command(labels: list[str], issues: str) -> None:
    notes = notes_of("".join(f"a text {number},{label}\n" for number, label in enumerate(labels)))
    assert notes[0] == f"train.csv, {len(labels)} texts; {issues}"
    config = config_from_dict({"data": {"source": "files", "train": "train.csv"}}, "test")
    assert profile_data(["train.csv"]).texts.line() == issues == data_overview(config).train.texts.line()


@pytest.mark.parametrize("balanced", ["none", "balanced"])
def test_rare_classes_are_noted_with_the_way_out(balanced: str) -> None:
    labels = ["a"] * 60 + ["b"] * 39 + ["odd"] * 3
    rows = "".join(f"a text {number},{label}\n" for number, label in enumerate(labels))
    noted = "rare classes: 1 (odd; training.class_weights=balanced gives them more weight)"
    expected = [f"train.csv, 102 texts; {noted}"] if balanced == "none" else []
    assert [note for note in notes_of(rows, {"training": {"class_weights": balanced}}) if "rare" in note] == expected
    assert profile_data(["train.csv"]).texts.line() == noted


def test_classes_of_one_text_are_noted() -> None:
    rows = [*TEXTS[:20], *(f"one {number},rare{number}\n" for number in range(7))]
    single = "7 classes have a single text, which is used for training only"
    assert notes_of("".join(rows)) == [f"train.csv: {single}: rare0, rare1, rare2, rare3, rare4 and 2 more"]


def test_decisions_are_noted_in_lines_that_a_terminal_does_not_break() -> None:
    rows = "".join(f"a splendid film {number},pos\na dreadful film {number},neg\n" for number in range(10))
    config = {"auto": True, "training": {"epochs": 3}, "model": {"max_ngram": 2}, "linear": {"max_ngram": 2}}
    lines = notes_of(rows, config)
    lines = lines[lines.index("decided from them, where the config says nothing:") - 2 :]
    assert all(len(line) < 80 for line in lines)
    assert {line.split(":")[0] for line in lines} >= {"  data", "  text", "  model", "  training"}
    assert not any("epochs" in line for line in lines)


@pytest.mark.parametrize(("config", "noted"), [({}, True), ({"label_separator": ";"}, False)])
def test_a_separator_that_class_names_hold_is_noted(config: dict[str, str], noted: bool) -> None:
    """Such answers in one cell could not be told apart; lists of labels are not split, whatever the separator."""
    lists = [["a|b", "c"], ["c"], ["a|b"], []] * 5
    Path("train.jsonl").write_text("".join(json.dumps({"text": "some words", "label": labels}) + "\n" for labels in lists))
    lines: list[str] = []
    prepare(config_from_dict({"data": {"source": "files", "train": "train.jsonl", **config}}, "test"), Callbacks(note=lines.append))
    expected = "train.jsonl: '|' separates labels in one cell and is part of class names: a|b; set another data.label_separator"
    assert (expected in lines) == noted
    assert any("label_separator" in line for line in lines) == noted
