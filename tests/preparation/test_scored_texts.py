"""Labelled texts that a model is scored by: which split is read, what is told of it, and where its texts are found again."""

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.settings import FilesData, MemoryData, SampleData
from mha_cli.corpus import encoded_texts
from mha_cli.errors import MhaError
from mha_cli.preparation import scored_texts
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline
from tests.checkpoints import small_checkpoint
from tests.errors import error_of

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

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
    r"^films\.csv, validation part: the model has learnt from it in the end \(training\.(refit_linear|few_labels)\); "
    "choose on texts that it has not learnt from: --split test, or --data FILE$"
)


def films(rows: str) -> FilesData:
    """The section of a config for a file of these rows."""
    Path("films.csv").write_text(f"text,label\n{rows}")
    return FilesData(source="files", train="films.csv")


def test_a_validation_split_of_the_source_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"validation": [LabelledText("the film", "pos"), LabelledText("", "neg")]}
    source = SimpleNamespace(name="films", splits=("train", "validation"), read=texts.__getitem__)
    monkeypatch.setattr(scored_texts, "open_source", lambda *_, **__: source)
    found = labelled_texts(small_checkpoint(), MemoryData(), "validation")
    assert (found.data, found.split, found.texts.labels.tolist()) == ("films", "validation", [1, 0])


@pytest.mark.parametrize(
    ("refitted", "trained_on", "told"),
    [
        ({}, "films", []),
        ({"refit_linear": True}, "films", [LEARNT]),
        ({"refit_linear": True}, "others", [OTHER]),
        ({"few_labels": True, "monitor": "last"}, "films", [LEARNT.replace("refit_linear", "few_labels")]),
    ],
)
def test_a_validation_part_that_the_scores_have_learnt_from_is_told(refitted: dict[str, Any], trained_on: str, told: list[str]) -> None:
    data = films("superb,pos\ndreadful,neg\n" * 10)
    checkpoint = small_checkpoint(linear={"max_ngram": 2, "buckets": 32})
    config = config_to_dict(checkpoint.config)
    config["training"] |= refitted
    config["data"] = {"source": "files", "train": f"{trained_on}.csv", "text_column": "text", "label_column": "label"}
    checkpoint = dataclasses.replace(checkpoint, config=config_from_dict(config, "test"))
    notes: list[str] = []
    caveats = [labelled_texts(checkpoint, data, split, Callbacks(note=notes.append)).caveat for split in ("train", "validation")]
    by_name = [TRAINED_ON] if trained_on == "films" else []
    assert notes == [*by_name, *told]
    assert caveats == [*(by_name or [""]), *(told or [""])]
    labelled_texts(checkpoint, data, "train", unseen=True)
    with pytest.raises(MhaError, match=UNSEEN) if told else nullcontext():
        labelled_texts(checkpoint, data, "validation", unseen=True)


@pytest.mark.parametrize(("words", "share"), [("der Film superb", None), ("der Film langweilig", "67%")])
def test_most_words_are_unknown(words: str, share: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_texts, "CHUNK_TOKENS", 7)
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
    for number, placed in zip(numbers, labelled.located(np.array(numbers)), strict=True):
        tokens = TextPipeline(checkpoint.config.text, checkpoint.vocabulary).encode(placed.text).tokens
        assert labelled.texts.padded([number])[0].tolist() == tokens.tolist()
        assert checkpoint.class_names[labelled.texts.labels[number]] == placed.label
        if source == "files":
            assert placed.file == "films.csv"
            assert rows[(placed.line or 0) - 2] == placed[:2]
        else:
            assert placed.file == f"sample, split {'test' if split == 'test' else 'train'}"


def test_a_split_that_is_not_there() -> None:
    said = error_of(labelled_texts, small_checkpoint(), films("a film,pos\n"), "tset")
    assert said == 'no split "tset" in films.csv; choose from train'
