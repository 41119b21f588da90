"""What is told about the data while it is prepared, and which split is read for probabilities."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.settings import FilesData, MemoryData, SampleData, TextConfig, TfdsData
from mha_cli.data import corpus, preparation
from mha_cli.data.in_memory import MemoryTexts
from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.overview import look_over
from mha_cli.data.preparation import default_split, labelled_reviews, placed_reviews, prepare
from mha_cli.data.profile import Tally, profile_data
from mha_cli.errors import MhaError
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline
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
    prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    *lines, known = [line.removeprefix(f"{folder}/") for line in lines]
    assert known.startswith("train.csv, validation part: 2 of 2 texts are among those learnt from")
    return lines


LEARNT = (
    "films.csv, validation part: the n-gram scores have learnt from it since (training.refit_scores), so these figures are optimistic; "
    "before, the accuracy was 75.00%"
)
OTHER = (
    "films.csv, validation part: if the model was trained on these texts, its n-gram scores have learnt from this part "
    "(training.refit_scores), and the figures are optimistic"
)
TRAINED_ON = "films.csv, split train: the model was trained on a file of that name; if these are the same texts, the figures are optimistic"
UNSEEN = (
    r"^films\.csv, validation part: the n-gram scores have learnt from it in the end \(training\.refit_scores\); "
    "choose on texts that it has not learnt from: --split test, or --data FILE$"
)
ODD = "train.csv, 7 texts; without a word: 1, repeated to the letter: 2, texts with two labels: 1, blank lines left out: 2"


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    assert noted(tmp_path, "text,label\nnew,pos\n") == [ODD]


@pytest.mark.parametrize("read", [False, True])
def test_texts_without_labels_that_nothing_reads_are_told(read: bool, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "fine film,pos\ndull film,neg\n" * 3)
    (tmp_path / "more.txt").write_text("a film\nanother\n")
    data = {"source": "files", "train": str(tmp_path / "train.csv"), "unlabelled": str(tmp_path / "more.txt")}
    lines: list[str] = []
    prepared = prepare(
        config_from_dict({"data": data, "training": {"score_vectors": read}, "model": {"score_ngrams": 1, "score_buckets": 64}}, "test"),
        Callbacks(note=lines.append),
    )
    said = "nothing reads the texts without labels; see training.distill_linear and score_vectors"
    assert any(line.endswith(f"train.csv: {said}") for line in lines) is not read
    assert (prepared.unlabelled is not None) is read


def test_classes_that_differ_in_case_alone_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "fine,Pos\ngood,pos\ngreat,POS\ndull,neg\n" * 2)
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    assert lines[0] == f"{tmp_path}/train.csv, 8 texts; repeated to the letter: 4, classes that differ from others in case alone: 2"
    found = profile_data([str(tmp_path / "train.csv")])
    assert found.texts.num_respelt == 2


def test_spellings_that_became_one_class_and_several_labels_in_one_are_told(tmp_path: Path) -> None:
    labels = ["True", "TRUE", "True", "cafe\u0301", "caf\u00e9", "caf\u00e9", "bad", "bad ", "True;bad", "True;bad", "bad;True"]
    rows = "".join(f"a text {number},{label}\n" for number, label in enumerate(labels))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    config = config_from_dict({"data": data}, "test")
    prepare(config, Callbacks(note=lines.append))
    odd = 'labels spelt in more than one way: 3 (True, TRUE), labels that look like several in one: 3 ("True;bad", separator ";")'
    assert lines[0] == f"{tmp_path}/train.csv, 11 texts; {odd}"
    assert profile_data([str(tmp_path / "train.csv")]).texts.line() == odd == look_over(config).train.texts.line()


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["1", "1.0"], "1, 1.0"),
        (["bad", "bad "], 'bad, "bad "'),
        (["b\u200bad", "bad", "bad"], "bad, b\\u200bad"),
        (["cafe\u0301", "caf\u00e9", "caf\u00e9"], "caf\u00e9, cafe\\u0301"),
        (["true", "TRUE", "tRUE", "True", "True"], "True, true, TRUE and 1 more"),
    ],
)
def test_spellings_are_shown_so_that_they_can_be_told_apart(labels: list[str], shown: str) -> None:
    reviews = MemoryTexts(["fine"] * (len(labels) + 1), [*labels, "other"]).read()
    assert Tally(reviews, TextConfig(), "x").figures().line().partition("more than one way: ")[2][3:-1] == shown


def test_reviews_in_both_parts_are_told(tmp_path: Path) -> None:
    known = "train.csv: 2 texts of the test data are among the training data, to the letter"
    assert noted(tmp_path, "text,label\nnew,pos\nfine,pos\nbad,neg\nBad,neg\n") == [ODD, known]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (1, []),
        (5, ["50 of 50 texts are among those learnt from, to the letter; its figures are optimistic for other texts"]),
    ],
)
def test_a_validation_part_of_texts_that_are_learnt_from_is_told(times: int, told: list[str], tmp_path: Path) -> None:
    texts = [f"text {number},{'ab'[number % 2]}\n" for number in range(100)]
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(texts * times + texts[:1]))
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv"), "validation_share": 0.1}
    prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    assert [line.partition("train.csv, validation part: ")[2] for line in lines[1:]] == told


def test_nothing_is_told_where_nothing_is_odd(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\nfine,pos\ngood,pos\ndull,neg\nbad,neg\n")
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    assert lines == []


def test_a_validation_part_of_unknown_words_is_told(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(4000)]
    texts = (" ".join([*words[start : start + 20], ", . ! ? ( ) " * 5]) for start in range(0, 4000, 20))
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f'"{text}",{"ab"[row % 2]}\n' for row, text in enumerate(texts)))
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    assert [line.removeprefix(f"{tmp_path}/") for line in lines] == [
        "train.csv, validation part: 100% of the words are not in the model's vocabulary: give more texts, or raise text.vocabulary_size"
    ]


@pytest.mark.parametrize(
    ("num_rare", "told"),
    [
        (1, "1 class has a single text, which is learnt from and not validated with: rare0"),
        (7, "7 classes have a single text, which is learnt from and not validated with: rare0, rare1, rare2, rare3, rare4 and 2 more"),
    ],
)
def test_classes_of_one_text_are_told(num_rare: int, told: str, tmp_path: Path) -> None:
    rows = [f"text {number},{'ab'[number % 2]}\n" for number in range(20)] + [f"one {number},rare{number}\n" for number in range(num_rare)]
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(rows))
    lines: list[str] = []
    data = {"source": "files", "train": str(tmp_path / "train.csv")}
    prepared = prepare(config_from_dict({"data": data}, "test"), Callbacks(note=lines.append))
    assert [line.removeprefix(f"{tmp_path}/") for line in lines] == [f"train.csv: {told}"]
    assert set(prepared.validation.labels) == {0, 1}
    assert set(prepared.train.labels) == set(range(2 + num_rare))


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

        def read(self, split: str) -> Iterator[LabelledText]:
            assert split == "validation"
            return iter([LabelledText("the film", "pos"), LabelledText("", "neg")])

    monkeypatch.setattr(preparation, "open_source", lambda *_, **__: Source())
    found = labelled_reviews(small_checkpoint(), MemoryData(), "validation")
    assert (found.data, found.split, found.reviews.labels.tolist()) == ("films", "validation", [1, 0])


@pytest.mark.parametrize(("refit", "trained_on", "told"), [(False, "films", []), (True, "films", [LEARNT]), (True, "others", [OTHER])])
def test_a_validation_part_that_the_scores_have_learnt_from_is_told(
    refit: bool, trained_on: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text("text,label\n" + "superb,pos\ndreadful,neg\n" * 10)
    checkpoint = small_checkpoint(score_ngrams=2, score_buckets=32)
    config = config_to_dict(checkpoint.config)
    config["training"]["refit_scores"] = refit
    config["data"] = {"source": "files", "train": f"{trained_on}.csv", "text_column": "text", "label_column": "label"}
    checkpoint = dataclasses.replace(checkpoint, config=config_from_dict(config, "test"))
    notes: list[str] = []
    caveats = [
        labelled_reviews(checkpoint, FilesData(source="files", train="films.csv"), split, Callbacks(note=notes.append)).caveat
        for split in ("train", "validation")
    ]
    by_name = [TRAINED_ON] if trained_on == "films" else []
    assert notes == [*by_name, *told]
    assert caveats == [*(by_name or [""]), *(told or [""])]
    labelled_reviews(checkpoint, FilesData(source="files", train="films.csv"), "train", unseen=True)
    with pytest.raises(MhaError, match=UNSEEN) if refit else nullcontext():
        labelled_reviews(checkpoint, FilesData(source="files", train="films.csv"), "validation", unseen=True)


def test_decisions_are_told_in_lines_that_a_terminal_does_not_break(tmp_path: Path) -> None:
    texts = (f"a splendid film {number},pos\na dreadful film {number},neg\n" for number in range(10))
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(texts))
    config = {"auto": True, "data": {"source": "files", "train": str(tmp_path / "train.csv")}, "training": {"epochs": 3}}
    config["model"] = {"max_ngram": 2, "score_ngrams": 2}
    lines: list[str] = []
    prepare(config_from_dict(config, "test"), Callbacks(note=lines.append))
    lines = lines[lines.index("decided from them, where the config says nothing:") - 2 :]
    assert all(len(line) < 80 for line in lines)
    assert {line.split(":")[0] for line in lines} >= {"  data", "  text", "  model", "  training"}
    assert not any("epochs" in line for line in lines)


@pytest.mark.parametrize(("words", "share"), [("der Film superb", None), ("der Film langweilig", "67%")])
def test_most_words_are_unknown(words: str, share: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpus, "CHUNK_TOKENS", 7)
    (tmp_path / "films.csv").write_text("text,label\n" + f"{words},pos\n" * 40)
    notes: list[str] = []
    labelled_reviews(small_checkpoint(), FilesData(source="files", train="films.csv"), "train", Callbacks(note=notes.append))
    told = (
        f"films.csv, split train: {share} of the words are not in the model's vocabulary: was it trained on such texts, in this language?"
    )
    assert notes == ([told] if share else [])


@pytest.mark.parametrize("split", ["test", "validation"])
@pytest.mark.parametrize("source", ["files", "sample"])
def test_labelled_reviews_are_found_again_in_their_source(source: str, split: str, tmp_path: Path) -> None:
    rows = [(f"the film {number}", ("neg", "pos")[number % 2]) for number in range(40)]
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    path = str(tmp_path / "films.csv")
    data = FilesData(source="files", train=path, test=path) if source == "files" else SampleData(num_texts=200)
    checkpoint = small_checkpoint()
    labelled = labelled_reviews(checkpoint, data, split)
    numbers = [3, 0, 1]
    for number, placed in zip(numbers, placed_reviews(data, labelled, numbers), strict=True):
        tokens = TextPipeline(checkpoint.config.text, checkpoint.vocabulary).encode(placed.review.text).tokens
        assert labelled.reviews.padded([number])[0].tolist() == tokens.tolist()
        assert checkpoint.class_names[labelled.reviews.labels[number]] == placed.review.label
        if source == "files":
            assert placed.file == path
            assert rows[(placed.line or 0) - 2] == placed.review[:2]
        else:
            assert placed.file == f"sample, split {'test' if split == 'test' else 'train'}"


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_file_that_has_become_shorter_is_told(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"the film {number},{('neg', 'pos')[number % 2]}\n" for number in range(40)]
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(rows))
    data = FilesData(source="files", train="films.csv", test="films.csv")
    labelled = labelled_reviews(small_checkpoint(), data, split)
    (tmp_path / "films.csv").write_text("text,label\n" + rows[0])
    with pytest.raises(
        MhaError, match=r"^films\.csv: has become shorter since it was read; start again, and leave the data alone meanwhile$"
    ):
        placed_reviews(data, labelled, [len(labelled.reviews) - 1])


def test_the_default_split() -> None:
    assert default_split(SampleData()) == default_split(FilesData(source="files", train="films.csv")) == "test"
    assert default_split(TfdsData(source="tfds", test_split="unseen")) == "unseen"


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", "films.csv:3: the class is 'meh'; the model knows neg, pos"),
        ("validation", "films.csv:3: the class is 'meh'; the model knows neg, pos"),
        (None, "the config names no test data; give --data FILE, or train again with --set data.test_share=0.2"),
        ("tset", 'no split "tset" in films.csv; choose from train'),
    ],
)
def test_what_cannot_be_scored(split: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text("text,label\n" + "a film,pos\na film,meh\n" * 2)
    with pytest.raises(MhaError) as raised:
        labelled_reviews(small_checkpoint(), FilesData(source="files", train="films.csv"), split)
    assert str(raised.value) == expected
