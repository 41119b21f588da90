"""Texts in several columns, from the file to the answer."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.config.loading import load_config
from mha_cli.config.settings import Config
from mha_cli.errors import JOINT
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint
from tests.cli.command import Mha, set_all
from tests.tables import write_table

ROWS = [
    ("Superb film of the year", "not dreadful", "pos"),
    ("The dreadful film", "a superb film it is not", "neg"),
    ("", "the film", "pos"),
    ("Not superb", "", "neg"),
]
BOTH = ("--text-column", "title", "--text-column", "body")


@pytest.fixture(autouse=True)
def _files(cwd: Path) -> None:
    made = small_checkpoint(seed=2)
    data = {"source": "files", "train": "a.csv", "text_column": ["title", "body"], "label_column": "label"}
    config = Config.model_validate(made.config.model_dump() | {"data": data})
    write_checkpoint(cwd / "both.keras", made.__class__(**{**vars(made), "config": config}))
    write_checkpoint(cwd / "one.keras", made)
    write_table(cwd / "a.csv", ROWS, "title,body,label")
    (cwd / "a.jsonl").write_text("".join(json.dumps(dict(zip(("title", "body", "label"), row, strict=True))) + "\n" for row in ROWS))


def expected(cwd: Path) -> list[float]:
    """The answers to both parts with a space between."""
    model = Classifier(read_checkpoint(cwd / "one.keras"))
    return [prediction.probabilities["pos"] for prediction in model.predict([f"{title} {body}" for title, body, _ in ROWS])]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "numbers.tsv", "a.parquet"])
def test_every_format_gives_both_parts(name: str, mha: Mha, cwd: Path) -> None:
    columns: tuple[str, ...] = ("-c", "both.keras")
    if name == "numbers.tsv":
        (cwd / name).write_text("".join(f"{label}\t{title}\t{body}\n" for title, body, label in ROWS))
        columns = ("-c", "one.keras", "--text-column", "2", "--text-column", "3")
    if name == "a.parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(
            pyarrow.Table.from_pylist([dict(zip(("title", "body", "label"), row, strict=True)) for row in ROWS]), cwd / name
        )
    lines = mha("predict", *columns, "--input", name, "--json").lines
    np.testing.assert_allclose([json.loads(line)["probabilities"]["pos"] for line in lines], expected(cwd), atol=1e-5)
    shown = mha("predict", *columns, "--input", name).stdout
    assert JOINT not in shown


def test_config_and_checkpoint_keep_the_columns(mha: Mha, cwd: Path) -> None:
    (cwd / "both.yaml").write_text("data: {source: files, train: a.csv, text_column: [title, body], label_column: label}\n")
    config = load_config(cwd / "both.yaml")
    assert config.model_dump(mode="json")["data"]["text_column"] == ["title", "body"]
    assert Config.model_validate(config.model_dump(mode="json")).data == config.data
    assert read_checkpoint(cwd / "both.keras").text_column == f"title{JOINT}body"
    scored = mha("evaluate", "both.keras", "--data", "a.csv", "--json").json
    answers = np.array(expected(cwd)) > 0.5
    assert scored["accuracy"] == (answers == [label == "pos" for *_, label in ROWS]).mean()


def test_a_program_gives_lists_objects_and_tables(cwd: Path) -> None:
    model, want = mha_cli.load(cwd / "both.keras"), expected(cwd)
    titles, bodies, _ = (list(column) for column in zip(*ROWS, strict=True))

    class Table(dict[str, Any]):
        columns = ("title", "body")

    given: list[Any] = [[*zip(titles, bodies, strict=True)], [{"title": title, "body": body, "id": 3} for title, body, _ in ROWS]]
    for texts in (*given, Table(title=titles, body=bodies)):
        np.testing.assert_allclose([prediction.probabilities["pos"] for prediction in model.predict(texts)], want, atol=1e-5)
    scored = mha_cli.evaluate(model, given[1], [label for *_, label in ROWS])
    assert scored.accuracy == mha_cli.evaluate(model, given[0], [label for *_, label in ROWS]).accuracy
    assert mha_cli.next_texts(model, given[1], 2) == mha_cli.next_texts(model, given[0], 2)
    gaps = [{"title": None, "body": "the film"}, ["Not superb", float("nan")]]
    np.testing.assert_allclose([prediction.probabilities["pos"] for prediction in model.predict(gaps)], want[2:], atol=1e-5)
    with pytest.raises(mha_cli.MhaError, match=r"texts\[0\] is \['a', 'b', 'neg'\]; give texts as strings, lists of them, or objects"):
        model.predict([["a", "b", "neg"]])
    with pytest.raises(
        mha_cli.MhaError, match=r"texts\[0\] is {'title': 'a film'}; give texts as strings, lists of them, or objects with title, body"
    ):
        model.predict([{"title": "a film"}])


def test_init_proposes_a_title_and_nothing_else(mha: Mha, cwd: Path) -> None:
    bodies = [f"the {('superb', 'dreadful')[number % 2]} film of the long year {number} was shown in many towns" for number in range(40)]
    labels = [("pos", "neg")[number % 2] for number in range(40)]
    titles = [f"A {('superb', 'dreadful')[number % 2]} film, number {number}" for number in range(40)]
    others = {
        "author": [f"Anna Maria Berg {number}" for number in range(40)],
        "title": ["news"] * 40,
        "subject": [f"TK-{number}" for number in range(40)],
    }
    write_table(cwd / "films.csv", zip(titles, bodies, labels, strict=True), "title,body,verdict")
    assert "title + body (longest texts" in " ".join(mha("init", "films.csv").stdout.replace("│", " ").split())
    assert "  text_column: [title, body]  # longest texts, " in (cwd / "films.yaml").read_text()
    for name, cells in others.items():
        write_table(cwd / "films.csv", zip(cells, bodies, labels, strict=True), f"{name},body,verdict")
        mha("init", "films.csv", "--force").silent()
        assert "  text_column: body  #" in (cwd / "films.yaml").read_text()


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_training_on_both(mha: Mha, cwd: Path) -> None:
    rows = [(f"{title} {number}", body, label) for number in range(15) for title, body, label in ROWS]
    write_table(cwd / "films.csv", rows, "title,body,label")
    mha(
        "train", "--config", "text", *set_all("data.train=films.csv", "data.text_column=[title, body]", "training.epochs=1"), "-o", "run"
    ).well()
    assert "text_column:\n  - title\n  - body\n" in (cwd / "run" / "config.yaml").read_text().replace("    ", "  ")
    assert len(mha("predict", "-c", "run", "--input", "a.csv").lines) == 4
    chosen = mha("data", "a.csv", "--next", "2", "-c", "run").stdout
    assert next(iter(csv.DictReader(chosen.splitlines()))).keys() == {"title", "body", "label"}


def test_words_are_explained_under_the_names_of_their_columns(mha: Mha, cwd: Path) -> None:
    write_table(cwd / "one.csv", ROWS[1:2], "title,body,label")
    found = mha("explain", "-c", "both.keras", "--input", "one.csv", "--json").json
    assert [*zip(found["words"], found["columns"], strict=True)] == [
        *((word, "title") for word in ROWS[1][0].split()),
        *((word, "body") for word in ROWS[1][1].split()),
    ]
    assert "body" in mha("explain", "-c", "both.keras", "--input", "one.csv", "--html", "page.html").stdout
    assert '"columns": ["title", "title"' in (cwd / "page.html").read_text()
    assert "columns" not in mha("explain", "-c", "one.keras", "a film", "--json").json


def test_the_service_takes_objects(cwd: Path) -> None:
    application = pytest.importorskip("mha_cli.serve.app").application
    from mha_cli.serve.server import Guarded, Limits

    guarded = Guarded(application(read_checkpoint(cwd / "both.keras")), Limits())
    client = pytest.importorskip("fastapi.testclient").TestClient(guarded, "http://127.0.0.1")
    texts = [{"title": title, "body": body} for title, body, _ in ROWS]
    answers = client.post("/predict", json={"texts": texts}).json()
    np.testing.assert_allclose([answer["probabilities"]["pos"] for answer in answers], expected(cwd), atol=1e-5)
    assert client.post("/predict", json={"text": texts[0]}).json()["probabilities"] == answers[0]["probabilities"]
    assert client.post("/explain", json={"text": texts[1]}).json()["explanation"]["columns"][-1] == "body"
    refused = client.post("/predict", json={"text": {"title": "a film"}})
    fault = "texts[0] is {'title': 'a film'}; give texts as strings, lists of them, or objects with title, body"
    assert (refused.status_code, refused.json()) == (422, {"error": fault})


def test_what_does_not_fit_is_one_line(mha: Mha, cwd: Path) -> None:
    write_table(cwd / "odd.csv", [("a film", "pos")], "title,label")
    for arguments, message in (
        (("predict", "-c", "both.keras", "--input", "odd.csv"), 'odd.csv:1: no column "body" among title, label; set --text-column'),
        (
            ("label", "a.csv", *BOTH, "-o", "labels.csv", "--terminal"),
            "--terminal: standard input and output are no terminal; run it in one, or leave --terminal out",
        ),
    ):
        refused = mha(*arguments)
        assert (refused.code, refused.stderr) == (2, f"error: {message}\n")
