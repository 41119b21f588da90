"""Labels in levels, through the commands."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.config.settings import Config
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.levels import THRESHOLDS, Levels, hierarchical_scores
from tests.checkpoints import small_checkpoint
from tests.cli.command import Mha, nearly, set_all
from tests.tables import write_table

NAMES = ("hardware > printer", "hardware > screen", "software > login", "software > mail")
TEXTS = ["superb film", "dreadful", "not the film", "the superb", "film film not superb"]


@pytest.fixture(autouse=True)
def _model(cwd: Path) -> None:
    made = small_checkpoint(NAMES, seed=7)
    config = Config.model_validate(made.config.model_dump() | {"data": {"source": "files", "train": "a.csv", "label_levels": ">"}})
    made = made.__class__(**{**vars(made), "config": config, "level_threshold": 0.4})
    write_checkpoint(cwd / "model.keras", made)
    write_table(cwd / "texts.csv", zip(TEXTS, [*NAMES, NAMES[0]], strict=True), "text,label")


def nodes(cwd: Path) -> tuple[Levels, np.ndarray]:
    predictions = Classifier(read_checkpoint(cwd / "model.keras")).predict(TEXTS)
    levels = Levels(NAMES, ">")
    return levels, levels.probabilities(np.array([[*each.probabilities.values()] for each in predictions], np.float32))


def test_predict(mha: Mha, cwd: Path) -> None:
    levels, of_nodes = nodes(cwd)

    def answers(*options: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in mha("predict", "-c", "model.keras", "--input", "texts.csv", "--json", *options).lines]

    for options, chosen in (
        ((), levels.finest(of_nodes, 0.4)),
        (("--threshold", "0.3"), levels.finest(of_nodes, 0.3)),
        (("--level", "1"), levels.at_level(of_nodes, 1)),
        (("--level", "2"), levels.at_level(of_nodes, 2)),
        (("--level", "9"), levels.at_level(of_nodes, 2)),
    ):
        found = answers(*options)
        assert [answer["label"] for answer in found] == [levels.names[node] for node in chosen]
        assert [answer["path"] for answer in found] == [[*levels.paths[node]] for node in chosen]
        np.testing.assert_allclose([answer["probability"] for answer in found], of_nodes[np.arange(5), chosen], atol=1e-5)
    assert {answer["label"] for answer in answers("--threshold", "1")} == {None}
    coarse = levels.at_level(of_nodes, 1)
    software = [number for number, node in enumerate(coarse, 1) if levels.names[node] == "software"]
    assert 0 < len(software) < 5
    assert [answer["id"] for answer in answers("--level", "1", "--only", "software") if answer["label"]] == software
    printed = mha("predict", "-c", "model.keras", "--input", "texts.csv", "--level", "1", "--only", "software").stdout.splitlines()
    assert printed == ["text,label", *((cwd / "texts.csv").read_text().splitlines()[number] for number in software)]


def test_only_with_a_threshold_finds_nodes_that_are_not_the_most_probable(mha: Mha, cwd: Path) -> None:
    levels, of_nodes = nodes(cwd)
    for name in ("software", "hardware > screen"):
        column = of_nodes[:, levels.names.index(name)]
        threshold = float(np.median(column)) - 1e-4
        options = ("--only", name, "--threshold", str(threshold), "--json")
        found = mha("predict", "-c", "model.keras", "--input", "texts.csv", *options).lines
        assert [json.loads(line)["id"] for line in found] == [number for number, one in enumerate(column, 1) if one >= threshold]
    assert mha("predict", "-c", "model.keras", "--only", "hardware", "--threshold", "1", "a film").code == 1


def test_a_column_per_node(mha: Mha, cwd: Path) -> None:
    levels, of_nodes = nodes(cwd)
    mha("predict", "-c", "model.keras", "--input", "texts.csv", "--level", "1", "--one-column-per-label", "-o", "a.csv").silent()
    names, *rows = (line.split(",") for line in (cwd / "a.csv").read_text().splitlines())
    assert names == [*levels.names, "flags"]
    assert [row.index("1") for row in rows] == levels.at_level(of_nodes, 1).tolist()
    only = ("--only", "hardware", "--level", "1", "--one-column-per-label", "-o", "b.csv")
    mha("predict", "-c", "model.keras", "--input", "texts.csv", *only).silent()
    kept = [",".join(row) for row in rows if row[names.index("hardware")] == "1"]
    assert (cwd / "b.csv").read_text().splitlines()[1:] == kept


def test_labels_are_scored_however_their_levels_are_spaced(mha: Mha, cwd: Path) -> None:
    expected = mha("evaluate", "model.keras", "--data", "texts.csv", "--json").json
    (cwd / "spaced.csv").write_text((cwd / "texts.csv").read_text().replace(" > ", ">"))
    found = mha("evaluate", "model.keras", "--data", "spaced.csv", "--json").json
    assert (found["accuracy"], found["levels"]) == (expected["accuracy"], expected["levels"])


def test_batch_and_serve_answer_as_predict(mha: Mha, cwd: Path) -> None:
    answers = [json.loads(line) for line in mha("predict", "-c", "model.keras", "--input", "texts.csv", "--json").lines]
    assert {len(answer["path"]) for answer in answers} == {1, 2}
    mha("batch", "texts.csv", "-c", "model.keras", "--output", "parts", "--workers", "1").well()
    (part,) = (cwd / "parts").glob("texts-*.jsonl")
    assert [json.loads(line)["label"] for line in part.read_text().splitlines()] == [answer["label"] for answer in answers]
    pytest.importorskip("fastapi")
    from tests.serve.services import ask, service

    with service(read_checkpoint(cwd / "model.keras")) as port:
        assert ask(port, "/predict", {"texts": TEXTS}) == (200, [nearly(answer) for answer in answers])
        for text, answer in zip(TEXTS, answers, strict=True):
            found = ask(port, "/explain", {"text": text})[1]
            assert found["answer"] == nearly(answer | {"id": 1})
            assert (found["explanation"]["label"], found["attention"]["label"]) == (answer["label"], answer["label"])


@pytest.mark.parametrize(
    ("label", "below"),
    [((), None), (("--label", "software"), NAMES[2:]), (("--label", NAMES[3]), NAMES[3:])],
    ids=["answer", "node", "class"],
)
def test_explain_looks_at_a_node(label: tuple[str, ...], below: Sequence[str] | None, mha: Mha, cwd: Path) -> None:
    classifier, text = Classifier(read_checkpoint(cwd / "model.keras")), "not the film"
    whole, *without = classifier.predict([text, "the film", "not film", "not the"])
    below = below or [name for name in NAMES if name.startswith(whole.answer or "")]
    found = mha("explain", "-c", "model.keras", text, "--json", *label).json
    assert found["label"] == (label[1] if label else whole.answer)
    before, *after = (sum(each.probabilities[name] for name in below) for each in (whole, *without))
    assert found["occlusion"] == pytest.approx([before - one for one in after], abs=1e-6)
    assert found["probability"] == pytest.approx(before)
    assert mha("attention", "-c", "model.keras", text, "--json").json["label"] == whole.answer


def test_evaluate(mha: Mha, cwd: Path) -> None:
    levels, of_nodes = nodes(cwd)
    scores = mha("evaluate", "model.keras", "--data", "texts.csv", "--json").json["levels"]
    truth = levels.node_of_class[[0, 1, 2, 3, 0]]
    for level in (1, 2):
        right = levels.at_level(of_nodes, level) == levels.ancestors(truth, level)
        assert scores["accuracy"][level - 1] == right.mean()
    wrong = levels.finest(of_nodes, 0.0) != truth
    assert (scores["threshold"], scores["num_within"] + scores["num_across"]) == (0.4, wrong.sum())
    shown = mha("evaluate", "model.keras", "--data", "texts.csv").stdout
    for words in ("accuracy of level 1", "answers of 40% or more", "hierarchical F1", "in the right branch"):
        assert words in " ".join(shown.replace("│", " ").split())


def test_find_threshold(mha: Mha, cwd: Path) -> None:
    levels, of_nodes = nodes(cwd)
    truth = levels.node_of_class[[0, 1, 2, 3, 0]]
    scored = mha("evaluate", "model.keras", "--data", "texts.csv", "--find-threshold", "f1", "--output", "new.keras", "--json").json[
        "levels"
    ]
    of_thresholds = {share: hierarchical_scores(levels, levels.finest(of_nodes, share), truth)[2] for share in THRESHOLDS}
    assert scored["f1"] == max(of_thresholds.values()) > of_thresholds[0.4]
    assert read_checkpoint(cwd / "new.keras").level_threshold == scored["threshold"]


def test_what_does_not_fit_is_one_line(mha: Mha, cwd: Path) -> None:
    write_checkpoint(cwd / "flat.keras", small_checkpoint(NAMES))
    refused = mha("predict", "-c", "flat.keras", "--level", "1", "a film")
    fault = "error: --level: the labels of the model have no levels; leave it out, or train with data.label_levels\n"
    assert (refused.code, refused.stderr) == (2, fault)
    for model, asked, way_out in (("flat", "f1", "precision=P or recall=P"), ("model", "recall=0.9", "f1")):
        refused = mha("evaluate", f"{model}.keras", "--data", "texts.csv", "--find-threshold", asked)
        fault = f"error: --find-threshold: f1 is for labels in levels, and they have no other; write {way_out}\n"
        assert (refused.code, refused.stderr) == (2, fault)
    refused = mha("explain", "-c", "model.keras", "--label", "hardwear", "a film")
    assert (refused.code, refused.stderr) == (2, "error: no class 'hardwear' in model.keras; did you mean hardware?\n")
    refused = mha("predict", "-c", "model.keras", "--only", "hardwear", "a film")
    assert (refused.code, refused.stderr) == (2, "error: --only hardwear: no class of the model; did you mean hardware?\n")


def test_init_finds_levels_and_a_training_chooses_the_threshold(mha: Mha, cwd: Path) -> None:
    rng = np.random.default_rng(0)
    words = {"printer": "ink paper tray", "screen": "pixel glass dark", "login": "password user locked", "mail": "inbox send spam"}
    rows = [(" ".join(rng.choice(words[name.split(" > ")[1]].split(), 4)), name) for name in rng.choice(NAMES, 120).tolist()]
    write_table(cwd / "tickets.csv", rows, "text,label")
    assert "> (from coarse to fine)" in mha("init", "tickets.csv").stdout
    assert '  label_levels: ">"  # labels have levels' in (cwd / "tickets.yaml").read_text()
    mha("train", "--config", "tickets.yaml", "--set", "training.epochs=1", "--output", "run").well()
    assert "answers of" in mha("evaluate", "run", "--data", "tickets.csv").stdout
    assert mha("predict", "-c", "run", "--level", "1", "the ink and the paper tray").lines[0].split("\t")[0] == "hardware"


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_column_per_level(mha: Mha, cwd: Path) -> None:
    rows = [(f"{text} {number}", *name.split(" > ")) for number in range(12) for text, name in zip(TEXTS, NAMES, strict=False)]
    write_table(cwd / "levels.csv", [*rows, ("some other film", "other", "")], "text,area,team")
    settings = "data.train=levels.csv", "data.text_column=text", "data.label_column=[area, team]", "training.epochs=1"
    refused = mha("train", "--config", "text", *set_all(*settings))
    assert refused.code == 2
    assert "label_column names several columns, which is for labels in levels; set label_levels" in refused.stderr
    mha("train", "--config", "text", *set_all(*settings, "data.label_levels=>"), "--output", "run").well()
    scored = mha("evaluate", "run", "--data", "levels.csv", "--json").json
    assert [label["name"] for label in scored["classes"]] == sorted([*NAMES, "other"])
    assert len(scored["levels"]["accuracy"]) == 2


def test_init_lists_labels_with_the_same_levels_once(mha: Mha, cwd: Path) -> None:
    rows = [(f"{text} {number}", name) for number in range(9) for text, name in zip(TEXTS, NAMES, strict=False)]
    write_table(cwd / "tickets.csv", [*rows, ("some other film", "software>mail")], "text,label")
    assert [*mha("init", "tickets.csv", "--json").json["classes"]] == ["software > mail", *NAMES[:3]]
