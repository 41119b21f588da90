"""A column per label, objects of labels, and labels that are left out: from the file to the answer."""

import csv
import json
from pathlib import Path

import pytest

import mha_cli
from tests.cli.command import Mha, set_all
from tests.cli.test_several_labels import SETTINGS, WORDS, rows
from tests.tables import write_table

MARKS = {"1": "10", "true": ("true", "False"), "yes": ("Yes", "no"), "x": ("x", "")}
FEW = (*(setting for setting in SETTINGS if not setting.startswith(("data.", "training.epochs"))), "training.epochs=1")


def write_marks(path: Path, yes: str, no: str, number: int = 80) -> None:
    table = [(text, *(yes if name in labels else no for name in WORDS)) for text, labels in rows(number)]
    write_table(path, table, ",".join(["review", *WORDS]))


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_init_finds_them_and_reads_every_kind_of_mark(marks: tuple[str, str], mha: Mha, cwd: Path) -> None:
    write_marks(cwd / "visits.csv", *marks)
    shown = mha("init", "visits.csv").silent().stdout
    assert "food, price, staff (with marks: each is a label)" in " ".join(shown.replace("│", " ").split())
    assert "  label_columns: [food, price, staff]  # each is a label; `label_column: NAME`" in (cwd / "visits.yaml").read_text()
    expected = {name: sum(name in labels for _, labels in rows(80)) for name in WORDS}
    assert mha("data", "visits.yaml", "--json").json["train"]["texts"]["classes"] == expected


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_training_and_its_answers_in_a_column_per_label(mha: Mha, cwd: Path) -> None:
    write_marks(cwd / "visits.csv", "1", "0")
    mha("train", "--config", "text", *set_all("data.train=visits.csv", *FEW), "--output", "run").well()
    again = mha("evaluate", "run", "--data", "visits.csv", "--json").json
    assert (again["num_texts"], [label["name"] for label in again["labels"]]) == (80, [*WORDS])
    mha("predict", "-c", "run", "--input", "visits.csv", "--one-column-per-label", "--field", "review", "-o", "marks.csv").silent()
    objects = mha("predict", "-c", "run", "--input", "visits.csv", "--json").lines
    with (cwd / "marks.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [*found[0]] == [*WORDS, "flags", "review"]
    answers = [json.loads(line)["labels"] for line in objects]
    assert [[name for name in WORDS if row[name] == "1"] for row in found] == [sorted(labels) for labels in answers]
    written = mha("evaluate", "run", "--data", "marks.csv", "--text-column", "review", "--json").json  # it reads what it writes
    assert written["exact_match"] == 1.0


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_training_on_reads_the_columns_again(mha: Mha, cwd: Path) -> None:
    write_marks(cwd / "visits.csv", "1", "0")
    write_marks(cwd / "later.csv", "yes", "no", 20)
    mha("train", "--config", "text", *set_all("data.train=visits.csv", *FEW), "--output", "run").well()
    mha("train", "--from", "run", *set_all("data.train=later.csv", "training.epochs=1"), "--output", "on").well()
    assert mha("evaluate", "on", "--data", "later.csv", "--json").json["num_texts"] == 20


def test_an_object_of_labels(mha: Mha, cwd: Path) -> None:
    """As spaCy's training data have it."""
    objects = [{"text": text, "cats": {name: float(name in labels) for name in WORDS}} for text, labels in rows(40)]
    (cwd / "visits.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    mha("init", "visits.jsonl").silent()
    assert "  label_column: cats  #" in (cwd / "visits.yaml").read_text()
    expected = {name: sum(name in labels for _, labels in rows(40)) for name in WORDS}
    assert mha("data", "visits.yaml", "--json").json["train"]["texts"]["classes"] == expected
    (cwd / "odd.jsonl").write_text(json.dumps({"text": "a text", "label": {"food": 0.7}}) + "\n")
    refused = mha("data", "odd.jsonl", "--label-column", "label")
    fault = "error: odd.jsonl:1: the label food is the fraction 0.7; write 1 or 0, true or false, yes or no, x or nothing\n"
    assert (refused.code, refused.stderr) == (2, fault)


def test_what_does_not_fit_is_one_line(mha: Mha, cwd: Path) -> None:
    write_table(cwd / "visits.csv", [("a text", "1", "0"), ("another", "0.7", "1")], "text,food,staff")
    (cwd / "visits.ft").write_text("__label__food a text\n")
    for data, message in (
        ("visits.csv", 'visits.csv:3: the label food is the string "0.7"; write 1 or 0, true or false, yes or no, x or nothing'),
        ("visits.ft", "visits.ft: has no columns, so no label in each; set data.label_columns=[], or give a table or JSON lines"),
    ):
        refused = mha(
            "train", "--config", "text", *set_all(f"data.train={data}", "data.text_column=text", "data.label_columns=[food, staff]")
        )
        assert (refused.code, refused.stderr) == (2, f"error: {message}\n")
    levels = set_all("data.train=visits.ft", "data.text_column=text", "data.label_column=[a, b]", "data.label_levels=>")
    refused = mha("train", "--config", "text", *levels)
    fault = "error: visits.ft: has no columns, so no label in each; set data.label_column=null, or give a table or JSON lines\n"
    assert (refused.code, refused.stderr) == (2, fault)
    refused = mha("predict", "--one-column-per-label", "a film")
    fault = "error: --one-column-per-label needs a table with a header; name a .csv, .parquet or .xlsx file with --output\n"
    assert (refused.code, refused.stderr) == (2, fault)


def test_labels_without_another_name_are_left_out_with_their_texts(mha: Mha, cwd: Path) -> None:
    write_table(cwd / "visits.csv", [(text, labels[0] if labels else "spam") for text, labels in rows(40)])
    figures = mha("data", "visits.csv", "--set", "data.merge_labels={spam: null, stuff: staff}", "--json")
    number = sum(not labels for _, labels in rows(40))
    assert figures.stderr == (
        f"texts left out, since data.merge_labels gives their labels no name: {number}\n"
        "data.merge_labels names labels that no text has: stuff\n"
    )
    assert figures.json["train"]["texts"]["num_texts"] == 40 - number
    assert "spam" not in figures.json["train"]["texts"]["classes"]


@pytest.mark.usefixtures("trained_in_numpy")
def test_texts_of_a_program_keep_their_weights_where_others_are_left_out() -> None:
    texts, labels = zip(*[(text, labels[0] if labels else "spam") for text, labels in rows(40)], strict=True)
    config = {"data": {"merge_labels": {"spam": ""}}, "training": {"epochs": 1}}
    model = mha_cli.train(config, texts, labels, weights=[1.0 + (label == "food") for label in labels])
    assert model.classes == tuple(sorted({*labels} - {"spam"}))
