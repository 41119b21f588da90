"""`mha shares`, and `--coverage` of `mha predict` and `mha evaluate`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint
from tests.cli.command import Mha, Run, run_mha

TEXTS = ("the film was superb", "dreadful, dreadful", "not a film", "a superb film")
ASSUMED = "assumed: the texts of each class look as they did in training, and only the shares have changed"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint with held-out texts, and a table of four texts with dates."""
    labels = (np.arange(60) % 2).astype(np.int32)
    second = np.where(labels == 1, 0.8, 0.2)
    second[1] = 0.14  # the right class of one text is improbable, as it is with every other text below
    held_out = HeldOut.of(np.stack([1 - second, second], axis=1).astype(np.float32), labels)
    write_checkpoint(tmp_path / "model.keras", replace(small_checkpoint(), held_out=held_out))
    dates = ("2026-01-31", "2026-02-01", "", "2026-02-28T12:00")
    (tmp_path / "new.csv").write_text("text,date\n" + "".join(f'"{text}",{date}\n' for text, date in zip(TEXTS, dates, strict=True)))
    return tmp_path / "model.keras"


def test_shares_as_json_are_those_in_python(model: Path, mha: Mha) -> None:
    result = mha("shares", "new.csv", "-c", "model.keras", "--json")
    (group,) = result.json
    assert (group["group"], group["num_texts"]) == (None, 4)
    found = {each.name: each for each in mha_cli.load(model).shares(TEXTS)}
    for each in group["classes"]:
        assert each["share"] == pytest.approx(found[each["name"]].share, abs=1e-4)
        assert each["counted"] == found[each["name"]].counted
    assert result.stderr == f"{ASSUMED}\n"


def test_a_table_a_page_and_groups(model: Path, mha: Mha, tmp_path: Path) -> None:
    result = mha("shares", "new.csv", "-c", "model.keras", "--by", "date:month", "--html", "shares.html").well()
    for cell in ("(empty)", "2026-01", "2026-02", "date:month"):
        assert cell in result.stdout.replace("\n", "")
    page = (tmp_path / "shares.html").read_text()
    data = json.loads(page.split("const data = ")[1].split(";\n")[0])
    assert [(group["group"], group["num_texts"]) for group in data["groups"]] == [("(empty)", 1), ("2026-01", 1), ("2026-02", 2)]
    stdin = "".join(f"{text}\n" for text in TEXTS)
    plain = mha("shares", "-", "-c", "model.keras", stdin=stdin).well()
    assert "Shares of the classes, 4 texts" in plain.stdout
    assert "█" in plain.stdout
    by_value = mha("shares", "new.csv", "-c", "model.keras", "--by", "date", "--json").json
    assert len(by_value) == 4


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--by", "text:day"], 'record 1, column "text": "the film was superb" is no date'),
        (["--by", "day"], 'new.csv:1: no column "day" among text, date'),
        (["--by", "else"], 'new.csv:1: no column "else" among text, date; set --by\n'),
        (["--by", "date", "--format", "lines"], '--by date: new.csv: plain lines have only the column "text"'),
        (["--html", "no/page.html"], "--html no/page.html: its folder does not exist"),
    ],
)
def test_what_is_refused(arguments: list[str], problem: str, model: Path, mha: Mha) -> None:
    result = mha("shares", "new.csv", "-c", "model.keras", *arguments)
    assert result.code == 2
    assert f"error: {problem}" in result.stderr


def test_headings_hold_no_control_characters(tmp_path: Path, mha: Mha) -> None:
    held_out = HeldOut.of(np.full((4, 2), 0.5, np.float32), np.zeros(4, np.int32))
    write_checkpoint(tmp_path / "model.keras", replace(small_checkpoint(("a\x1b[31m", "b\nc")), held_out=held_out))
    (tmp_path / "new.csv").write_text("text,id\x1b[31m\na film,1\n")
    shown = mha("shares", "new.csv", "-c", "model.keras", "--by", "id\x1b[31m").well().stdout
    assert "\x1b" not in shown
    assert "b\\nc" in shown


def test_many_groups_no_text_and_a_checkpoint_without_held_out_texts(model: Path, mha: Mha, tmp_path: Path) -> None:
    result = mha("shares", "-", "-c", "model.keras", stdin="")
    assert (result.code, result.stderr) == (2, "error: -: holds no text; give texts\n")
    write_checkpoint(tmp_path / "old.keras", small_checkpoint())
    result = mha("shares", "new.csv", "-c", "old.keras")
    problem = "old.keras: holds no probabilities of held-out texts; name labelled texts that it has not learnt from with --data FILE"
    assert (result.code, result.stderr) == (2, f"error: {problem}\n")
    rows = "".join(f'"{text}",{label}\n' for text, label in zip(TEXTS, ("pos", "neg", "neg", "pos"), strict=True))
    (tmp_path / "labelled.csv").write_text(f"text,label\n{rows}")
    assert mha("shares", "new.csv", "-c", "old.keras", "--data", "labelled.csv", "--json").json[0]["num_texts"] == 4
    (tmp_path / "many.csv").write_text("text,id\n" + "".join(f"a film,{number}\n" for number in range(1_001)))
    result = mha("shares", "many.csv", "-c", "model.keras", "--by", "id")
    assert result.code == 2
    assert "error: --by: more than 1,000 groups; take another column" in result.stderr


def test_sets_of_labels_and_the_rest_for_a_person(model: Path, mha: Mha, tmp_path: Path) -> None:
    classifier = mha_cli.load(model)
    sets = classifier.label_sets(TEXTS, 0.97)
    lines = mha("predict", "-c", "model.keras", "--coverage", "0.97", *TEXTS).lines
    assert [line.split("\t")[0] for line in lines] == ["|".join(labels) for labels in sets]
    as_json = [json.loads(line) for line in mha("predict", "-c", "model.keras", "--coverage", "0.97", "--json", *TEXTS).lines]
    assert [each["labels"] for each in as_json] == sets
    assert {len(labels) for labels in sets} == {1, 2}
    arguments = ("--input", "new.csv", "--coverage", "0.97", "--only-single", "unsure.csv", "-o", "sure.csv")
    result = mha("predict", "-c", "model.keras", *arguments).well()
    unsure = [number for number, labels in enumerate(sets) if len(labels) > 1]
    assert result.stderr.endswith(f"{len(unsure)} texts with several labels in unsure.csv, for `mha label`\n")
    rows = (tmp_path / "new.csv").read_text().splitlines(keepends=True)
    assert (tmp_path / "unsure.csv").read_text() == rows[0] + "".join(rows[1 + number] for number in unsure)
    assert len((tmp_path / "sure.csv").read_text().splitlines()) == 1 + len(TEXTS) - len(unsure)


def test_only_a_class_and_only_single_sets(mha: Mha, tmp_path: Path) -> None:
    made = small_checkpoint(("a", "b", "c"), seed=7)
    probabilities = np.stack([[*each.probabilities.values()] for each in Classifier(made).predict(TEXTS)])
    right = np.full((9, 3), np.sort(probabilities, axis=1)[:, 1].min())  # so that every set has at least two labels, and some have two
    right[:, 0] = 1 - right[:, 1:].sum(axis=1)
    write_checkpoint(tmp_path / "model.keras", replace(made, held_out=HeldOut.of(right, np.ones(9, np.int32))))
    sets = mha_cli.load(tmp_path / "model.keras").label_sets(TEXTS, 0.9)
    (missing, *_) = {"a", "b", "c"} - {*min(sets, key=len)}
    wanted = [text for text, labels in zip(TEXTS, sets, strict=True) if missing in labels]
    arguments = ("--coverage", "0.9", "--only", missing, "--only-single", "unsure.txt")
    assert mha("predict", "-c", "model.keras", *arguments, *TEXTS).code == 1
    assert (tmp_path / "unsure.txt").read_text().splitlines() == wanted


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-o", "./a.csv", "--only-single", "a.csv"], "--only-single a.csv: is an input or --output as well; name another file"),
        (["--only-single", "new.csv"], "--only-single new.csv: is an input or --output as well; name another file"),
        (
            ["--only-single", "a.parquet"],
            "--only-single a.parquet: --only-single writes records as they came, here in the format csv; name",
        ),
        (["--only", "pos", "--quiet", "--only-single", "a.csv"], "--quiet prints nothing; leave --only-single out"),
    ],
)
def test_files_of_unsure_texts_that_are_refused(arguments: list[str], problem: str, model: Path, mha: Mha, tmp_path: Path) -> None:
    before = (tmp_path / "new.csv").read_bytes()
    result = mha("predict", "-c", "model.keras", "-i", "new.csv", "--coverage", "0.97", *arguments)
    assert result.code == 2
    assert f"error: {problem}" in result.stderr
    assert (tmp_path / "new.csv").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"model.keras", "new.csv"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--only-single", "a.csv"], "--only-single goes with --coverage; leave it out"),
        (["--data", "a.csv"], "--data goes with --coverage; leave it out"),
        (["--coverage", "0.9", "--threshold", "0.5"], "predict takes either --coverage or --threshold or --level or --top-k, not both"),
        (["--coverage", "0.99"], "--coverage 0.99 needs 99 held-out texts, and the model has 60; ask for at most 0.983"),
    ],
)
def test_coverage_that_is_refused(arguments: list[str], problem: str, model: Path, mha: Mha) -> None:
    result = mha("predict", "-c", "model.keras", *arguments, "the film")
    assert result.code == 2
    assert f"error: {problem}" in result.stderr


def test_evaluate_scores_the_sets(trained: Run, tmp_path: Path) -> None:
    asked = ("evaluate", trained.checkpoint, "--coverage", "0.9")
    figures = run_mha(*asked, "--json", cwd=tmp_path).json
    scores = figures["sets"]
    assert scores["asked"] == 0.9
    assert 0.8 < scores["coverage"] <= 1
    assert sum(each["num_texts"] for each in scores["classes"]) == figures["num_texts"]
    table = run_mha(*asked, cwd=tmp_path).stdout
    assert "Sets of labels for a coverage of 90.0%" in table
    assert f"{scores['labels']:.2f}" in table
