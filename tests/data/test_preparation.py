"""What is told about the data while it is prepared, and which split is read for probabilities."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.settings import FilesData, MemoryData, SampleData, TextConfig
from mha_cli.data import corpus, preparation
from mha_cli.data.in_memory import MemoryTexts
from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.preparation import labelled_texts, located_texts, prepare
from mha_cli.data.profile import look_over, profile_data
from mha_cli.errors import MhaError
from mha_cli.records.reader import StreamWarnings
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline
from tests.checkpoints import small_checkpoint
from tests.errors import error_of

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def notes_of(rows: str, config: dict[str, Any] | None = None, **data: str | float) -> list[str]:
    """The notes while a table of these rows is prepared."""
    Path("train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    lines: list[str] = []
    section = {"source": "files", "train": "train.csv", **data}
    prepare(config_from_dict({"data": section, **(config or {})}, "test"), Callbacks(note=lines.append))
    return lines


def films(rows: str) -> FilesData:
    """The section of a config for a file of these rows."""
    Path("films.csv").write_text(f"text,label\n{rows}")
    return FilesData(source="files", train="films.csv")


ROWS = "fine,pos\nfine,pos\n\nfine,neg\ndull,neg\ngood,pos\nbad,neg\n,neg\n\n"
KNOWN = "train.csv, validation part; texts that are also in the training part: 2 of 2; its figures are optimistic for other texts"


LEARNT = (
    "films.csv, validation part: the model has learnt from it since (training.refit_linear), so these figures are optimistic; "
    "before, the accuracy was 75.00%"
)
OTHER = (
    "films.csv, validation part: if the model was trained on these texts, it has learnt from this part in the end "
    "(training.refit_linear), and the figures are optimistic"
)
TRAINED_ON = "films.csv, split train: the model was trained on a file of that name; if these are the same texts, the figures are optimistic"
UNSEEN = (
    r"^films\.csv, validation part: the model has learnt from it in the end \(training\.refit_linear\); "
    "choose on texts that it has not learnt from: --split test, or --data FILE$"
)
ODD = "train.csv, 7 texts; without a word: 1, repeated to the letter: 2, texts with two labels: 1, blank lines left out: 2"


@pytest.mark.parametrize(
    ("test", "noted"),
    [
        ("text,label\nnew,pos\n", []),
        (
            "text,label\nnew,pos\nfine,pos\nbad,neg\nBad,neg\n",
            ["train.csv; test texts that are also training texts: 2"],
        ),
        ("text\n", ['the test data cannot be read: test.csv:1: no column "label" among text; set data.label_column']),
        (
            None,
            ["the test data cannot be read: test.csv: no such file or folder; check the path; relative paths start at the current folder"],
        ),
    ],
)
def test_likely_mistakes_in_training_and_test_data_are_noted(test: str | None, noted: list[str]) -> None:
    if test is not None:
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


LABELS = ["True", "TRUE", "True", "cafe\u0301", "caf\u00e9", "caf\u00e9", "bad", "bad ", "True;bad", "True;bad", "bad;True"]


@pytest.mark.parametrize(
    ("labels", "issues"),
    [
        (["Pos", "pos", "POS", "neg"] * 2, "classes that differ from others in case alone: 2"),
        (
            LABELS,
            'labels spelt in more than one way: 3 (True, TRUE), labels that look like several in one: 3 ("True;bad", separator ";")',
        ),
    ],
)
def test_labels_that_look_like_mistakes_are_noted_by_every_command(labels: list[str], issues: str) -> None:
    notes = notes_of("".join(f"a text {number},{label}\n" for number, label in enumerate(labels)))
    assert notes[0] == f"train.csv, {len(labels)} texts; {issues}"
    config = config_from_dict({"data": {"source": "files", "train": "train.csv"}}, "test")
    assert profile_data(["train.csv"]).texts.line() == issues == look_over(config).train.texts.line()


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["1", "1.0"], "1, 1.0"),
        (["b\u200bad", "bad ", "bad ", "bad", "bad", "bad"], 'bad, "bad ", b\\u200bad'),
        (["cafe\u0301", "caf\u00e9", "caf\u00e9"], "caf\u00e9, cafe\\u0301"),
        (["true", "TRUE", "tRUE", "True", "True"], "True, true, TRUE and 1 more"),
    ],
)
def test_spellings_are_shown_so_that_they_can_be_told_apart(labels: list[str], shown: str) -> None:
    texts = MemoryTexts(["fine"] * (len(labels) + 1), [*labels, "other"]).read()
    found = corpus.Corpus(texts, TextConfig(), None, "x").data_issues(StreamWarnings()).line()
    assert found.partition("more than one way: ")[2][3:-1] == shown


def test_classes_of_one_text_are_noted() -> None:
    rows = [*TEXTS[:20], *(f"one {number},rare{number}\n" for number in range(7))]
    single = "7 classes have a single text, which is used for training only"
    assert notes_of("".join(rows)) == [f"train.csv: {single}: rare0, rare1, rare2, rare3, rare4 and 2 more"]


# For scoring


def test_a_validation_split_of_the_source_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"validation": [LabelledText("the film", "pos"), LabelledText("", "neg")]}
    source = SimpleNamespace(name="films", splits=("train", "validation"), read=texts.__getitem__)
    monkeypatch.setattr(preparation, "open_source", lambda *_, **__: source)
    found = labelled_texts(small_checkpoint(), MemoryData(), "validation")
    assert (found.data, found.split, found.texts.labels.tolist()) == ("films", "validation", [1, 0])


@pytest.mark.parametrize(("refit", "trained_on", "told"), [(False, "films", []), (True, "films", [LEARNT]), (True, "others", [OTHER])])
def test_a_validation_part_that_the_scores_have_learnt_from_is_told(refit: bool, trained_on: str, told: list[str]) -> None:
    data = films("superb,pos\ndreadful,neg\n" * 10)
    checkpoint = small_checkpoint(linear={"max_ngram": 2, "buckets": 32})
    config = config_to_dict(checkpoint.config)
    config["training"]["refit_linear"] = refit
    config["data"] = {"source": "files", "train": f"{trained_on}.csv", "text_column": "text", "label_column": "label"}
    checkpoint = dataclasses.replace(checkpoint, config=config_from_dict(config, "test"))
    notes: list[str] = []
    caveats = [labelled_texts(checkpoint, data, split, Callbacks(note=notes.append)).caveat for split in ("train", "validation")]
    by_name = [TRAINED_ON] if trained_on == "films" else []
    assert notes == [*by_name, *told]
    assert caveats == [*(by_name or [""]), *(told or [""])]
    labelled_texts(checkpoint, data, "train", unseen=True)
    with pytest.raises(MhaError, match=UNSEEN) if refit else nullcontext():
        labelled_texts(checkpoint, data, "validation", unseen=True)


def test_decisions_are_noted_in_lines_that_a_terminal_does_not_break() -> None:
    rows = "".join(f"a splendid film {number},pos\na dreadful film {number},neg\n" for number in range(10))
    config = {"auto": True, "training": {"epochs": 3}, "model": {"max_ngram": 2}, "linear": {"max_ngram": 2}}
    lines = notes_of(rows, config)
    lines = lines[lines.index("decided from them, where the config says nothing:") - 2 :]
    assert all(len(line) < 80 for line in lines)
    assert {line.split(":")[0] for line in lines} >= {"  data", "  text", "  model", "  training"}
    assert not any("epochs" in line for line in lines)


@pytest.mark.parametrize(("words", "share"), [("der Film superb", None), ("der Film langweilig", "67%")])
def test_most_words_are_unknown(words: str, share: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "CHUNK_TOKENS", 7)
    notes: list[str] = []
    labelled_texts(small_checkpoint(), films(f"{words},pos\n" * 40), "train", Callbacks(note=notes.append))
    of_words = f"{share} of the words are not in the model's vocabulary: was it trained on such texts, in this language?"
    assert notes == ([f"films.csv, split train: {of_words}"] if share else [])


@pytest.mark.parametrize("split", ["test", "validation"])
@pytest.mark.parametrize("source", ["files", "sample"])
def test_labelled_reviews_are_found_again_in_their_source(source: str, split: str) -> None:
    rows = [(f"the film {number}", ("neg", "pos")[number % 2]) for number in range(40)]
    of_files = films("".join(f"{text},{label}\n" for text, label in rows)).model_copy(update={"test": "films.csv"})
    data = of_files if source == "files" else SampleData(num_texts=200)
    checkpoint = small_checkpoint()
    labelled = labelled_texts(checkpoint, data, split)
    numbers = [3, 0, 1]
    for number, placed in zip(numbers, located_texts(data, labelled, numbers), strict=True):
        tokens = TextPipeline(checkpoint.config.text, checkpoint.vocabulary).encode(placed.text).tokens
        assert labelled.texts.padded([number])[0].tolist() == tokens.tolist()
        assert checkpoint.class_names[labelled.texts.labels[number]] == placed.label
        if source == "files":
            assert placed.file == "films.csv"
            assert rows[(placed.line or 0) - 2] == placed[:2]
        else:
            assert placed.file == f"sample, split {'test' if split == 'test' else 'train'}"
    if source == "files":
        films("the film 0,neg\n")
        expected = "films.csv: has become shorter since it was read; start again, and leave the data alone meanwhile"
        assert error_of(located_texts, data, labelled, numbers) == expected


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("validation", "films.csv:3: the class is 'meh'; the model knows neg, pos"),
        (None, "the config names no test data; give --data FILE, or train again with --set data.test_share=0.2"),
        ("tset", 'no split "tset" in films.csv; choose from train'),
    ],
)
def test_what_cannot_be_scored(split: str | None, expected: str) -> None:
    assert error_of(labelled_texts, small_checkpoint(), films("a film,pos\na film,meh\n" * 2), split) == expected
