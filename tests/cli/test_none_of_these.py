"""Texts that belong to no class, through the commands."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mha_cli
from mha_cli.analysis.evaluation import Evaluation
from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.config.loading import config_from_dict
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint
from tests.cli.command import Mha, refusal
from tests.errors import error_of
from tests.tables import write_table

TEXTS = ["superb film", "dreadful", "not the film", "the superb", "film film not superb", "it's é", "a dreadful film"]
NAMES = ("card", "lost", "rate")


def write_model(path: Path, class_names: tuple[str, ...] = NAMES) -> list[bool]:
    """A model that gives no label to three of the texts, or to more where it has a class for them; which they are."""
    made = small_checkpoint(class_names, seed=7)
    probabilities = Classifier(made).probabilities(made.text_pipeline.encode_all(TEXTS))
    likely = np.sort(probabilities, axis=1)
    certain = np.argsort(np.sum(likely * np.log(likely), axis=1))
    held_out = HeldOut.of(np.repeat(probabilities[[certain[3]]], 20, axis=0), np.zeros(20, np.int32))
    if "oos" in class_names:  # whose threshold then is below all others
        held_out = HeldOut.of(np.full((20, len(class_names)), 1 / len(class_names), np.float32), np.zeros(20, np.int32))
    data = {"source": "files", "train": "a.csv", "test": "texts.csv", "none_label": "oos"}
    config = made.config.model_validate(made.config.model_dump() | {"data": data})
    write_checkpoint(path, replace(made, config=config, held_out=held_out))
    if "oos" in class_names:
        return (probabilities.argmax(axis=1) == class_names.index("oos")).tolist()
    return [row in certain[:3] for row in range(len(TEXTS))]


def test_predict(mha: Mha, cwd: Path) -> None:
    are_none = write_model(cwd / "model.keras")
    write_table(cwd / "texts.csv", ([text] for text in TEXTS), "text")
    ask = ("predict", "-c", "model.keras", "--input", "texts.csv")
    found = [json.loads(line) for line in mha(*ask, "--json").lines]
    assert [answer["none"] for answer in found] == are_none
    assert [answer["label"] is None for answer in found] == are_none
    assert [
        answer.probability == pytest.approx(one["probability"], abs=1e-6)
        for answer, one in zip(mha_cli.load(cwd / "model.keras").predict(TEXTS), found, strict=True)
    ] == [True] * len(TEXTS)
    printed = mha(*ask)
    assert [line.split("\t")[0] == "" for line in printed.lines] == are_none
    assert [line.split("\t")[2] for line in printed.lines] == ["none" if none else "-" for none in are_none]
    assert printed.stderr == "none of these: 3 of 7 texts; --threshold 0 answers all\n"
    everything = mha(*ask, "--threshold", "0")
    assert all(line.split("\t")[0] in NAMES for line in everything.lines)
    for replaced in (("--threshold", "0"), ("--threshold", "1"), ("--coverage", "0.9")):  # the rule, so nothing says none
        assert {line.split("\t")[2] for line in mha(*ask, *replaced).lines} == {"-"}
        assert {json.loads(line)["none"] for line in mha(*ask, *replaced, "--json").lines} == {False}
    assert not everything.stderr
    some = next(answer["label"] for answer in found if answer["label"])
    only = [json.loads(line)["label"] for line in mha(*ask, "--only", some, "--json").lines]
    assert only == [some] * sum(answer["label"] == some for answer in found)
    top = [json.loads(line) for line in mha(*ask, "--top-k", "2", "--json").lines]
    assert [len(answer["probabilities"]) for answer in top] == [0 if none else 2 for none in are_none]
    mha(*ask, "--output", "answers.csv")
    rows = (cwd / "answers.csv").read_text().splitlines()[1:]
    assert [row.startswith(",,none") for row in rows] == are_none
    mha("batch", "texts.csv", "-c", "model.keras", "--output", "parts")
    [part] = (cwd / "parts").glob("*.jsonl")
    assert [json.loads(line)["label"] is None for line in part.read_text().splitlines()] == are_none


def test_the_class_of_such_texts_is_no_answer(mha: Mha, cwd: Path) -> None:
    are_none = write_model(cwd / "model.keras", ("card", "oos", "rate"))
    assert 0 < sum(are_none) < len(TEXTS)
    predictions = mha_cli.load(cwd / "model.keras").predict(TEXTS)
    assert [prediction.is_none for prediction in predictions] == are_none
    assert {prediction.label for prediction in predictions} <= {"card", "rate"}
    assert all(sum(prediction.probabilities.values()) == pytest.approx(1) for prediction in predictions)
    everything = mha("predict", "-c", "model.keras", "--threshold", "0", "--top-k", "all", "--json", *TEXTS)
    for line in map(json.loads, everything.lines):
        assert line["label"] in ("card", "rate")
        assert next(iter(line["probabilities"])) == line["label"]
        assert "oos" not in line["probabilities"]
    refused = refusal(mha("predict", "-c", "model.keras", "--only", "oos", "film"))
    assert refused == "--only oos: no class of the model; choose from card, rate"


@pytest.mark.parametrize("class_names", [NAMES, ("card", "oos", "rate")])
def test_evaluate(class_names: tuple[str, ...], mha: Mha, cwd: Path) -> None:
    are_none = write_model(cwd / "model.keras", class_names)
    truth = ["oos", "card", "rate", "oos", "card", "rate", "card"]
    write_table(cwd / "texts.csv", zip(TEXTS, truth, strict=True), "text,label")
    figures = mha("evaluate", "model.keras", "--data", "texts.csv", "--json").json
    predictions = mha_cli.load(cwd / "model.keras").predict(TEXTS)
    of_classes = [label != "oos" for label in truth]
    answers = [prediction.answer or "oos" for prediction in predictions]
    none = figures["none"]
    assert none["num_texts"] == 2
    assert none["answered"] == pytest.approx(np.mean([not none for none, real in zip(are_none, of_classes, strict=True) if real]))
    assert none["caught"] == np.mean([none for none, real in zip(are_none, of_classes, strict=True) if not real])
    assert none["accuracy"] == pytest.approx(np.mean([answer == label for answer, label in zip(answers, truth, strict=True)]))
    assert figures["num_texts"] == (7 if "oos" in class_names else 5)
    sets = mha("evaluate", "model.keras", "--data", "texts.csv", "--coverage", "0.9", "--json").json["sets"]
    assert sum(each["num_texts"] for each in sets["classes"]) == figures["num_texts"]
    shown = mha("evaluate", "model.keras", "--data", "texts.csv").stdout
    assert "None of these" in shown
    assert f"{none['caught']:.2%} of 2 get none" in shown
    in_python = mha_cli.evaluate(mha_cli.load(cwd / "model.keras"), TEXTS, truth)
    assert isinstance(in_python, Evaluation)
    assert in_python.none
    assert in_python.none.caught == none["caught"]
    (cwd / "other.keras").write_bytes((cwd / "model.keras").read_bytes())
    compared = mha("compare", "model.keras", "other.keras", "--data", "texts.csv", "--json").json
    assert compared["num_texts"] == (7 if "oos" in class_names else 5)


def test_texts_of_no_class_alone_are_refused(mha: Mha, cwd: Path) -> None:
    write_model(cwd / "model.keras")
    write_table(cwd / "texts.csv", [(text, "oos") for text in TEXTS], "text,label")
    refused = refusal(mha("evaluate", "model.keras", "--data", "texts.csv"))
    assert refused == "all texts have the label of data.none_label; give labelled texts of the classes as well"


def test_a_smaller_model_needs_held_out_answers_of_its_own(mha: Mha, cwd: Path) -> None:
    write_model(cwd / "model.keras")
    refused = refusal(mha("heads", "model.keras", "--prune", "1", "-o", "smaller.keras"))
    assert refused == "--prune 1: data.none_label needs what the smaller model answers to held-out texts; add --retrain 1"


def test_a_training_refuses_what_has_no_threshold(mha: Mha, cwd: Path) -> None:
    config = "data: {source: files, train: a.csv, none_label: oos, label_levels: '>'}\n"
    (cwd / "a.yaml").write_text(config)
    fault = "none_label=oos goes with one label per text, without levels; take none_label=null"
    assert fault in refusal(mha("train", "--config", "a.yaml"))
    settings = {"data": {"none_label": "oos"}}
    fault = "data.none_label=oos goes with one label per text; take none_label=null, or task=single-label"
    assert fault in error_of(config_from_dict, {"data": {"source": "sample", "none_label": "oos"}, "task": "multi-label"}, "a")
    several = error_of(mha_cli.train, settings, TEXTS, [["a"], ["b"]] * 3 + [["a", "b"]])
    assert several == "data.none_label goes with one label per text, and texts have several; take null"
    words = {**settings, "model": {"vectors": str(cwd / "words.vec")}, "classes": {"card": "a card", "rate": "a rate"}}
    write_table(cwd / "words.vec", [["card 1"], ["rate 2"]], "2 1")
    guessed = error_of(mha_cli.train, words, TEXTS)
    assert guessed == "data.none_label: its threshold is chosen by held-out labels, and no text has one; take null"
