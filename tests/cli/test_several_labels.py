"""Texts with several labels each, from the file to the answer, through the real command."""

import dataclasses
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.config.loading import config_to_dict
from mha_cli.config.settings import FilesData, MemoryData
from mha_cli.preparation.training_on import config_to_train_on
from mha_cli.runs import PACKAGED
from mha_cli.sources.files import FileTexts
from tests.checkpoints import write_run
from tests.cli.command import TRACED_SOON, Mha, Result, Run, refusal, run_here, set_all
from tests.tables import write_table

WORDS = {"food": "soup cake bread", "price": "cheap costly bargain", "staff": "waiter smile rude"}
SETTINGS = (
    *TRACED_SOON,
    "data.label_separator=|",
    "data.test_share=0.2",
    "model.embed_dim=8",
    "model.num_heads=2",
    "model.feed_forward_dim=8",
    "linear.buckets=4096",
    "linear.context_windows=[2]",
    "training.epochs=2",
)
ROW = "the soup was cheap and good"


def rows(num_texts: int, seed: int = 0) -> list[tuple[str, list[str]]]:
    """Texts of one sentence, with a word for each of their labels, which some do not have."""
    rng, found = random.Random(seed), []
    for number in range(num_texts):
        labels = [label for label in WORDS if rng.random() < 0.4]
        words = [rng.choice(WORDS[label].split()) for label in labels] + rng.sample(
            ["we", "came", "on", "a", "sunny", "day", "to", "that", "place"], 4
        )
        rng.shuffle(words)
        found.append((f"{' '.join(words)} {number % 7}", labels))
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``mha train --config text`` on a table with the separator, and the folder that it ran in. Not to be written to."""
    cwd = tmp_path_factory.mktemp("several")
    write_table(cwd / "visits.csv", ((text, "|".join(labels)) for text, labels in rows(240)), "text,labels")
    return Run(cwd, run_here("train", "--config", "text", *set_all("data.train=visits.csv", *SETTINGS), cwd=cwd))


@pytest.fixture
def cwd(trained: Run) -> Path:
    return trained.cwd


def lines_of(result: Result) -> list[Any]:
    assert result.code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_data_make_the_run_one_of_several_labels(trained: Run) -> None:
    assert trained.result.code == 0, trained.result.stderr
    assert "visits.csv: several labels per text, 1.2 on average" in trained.result.stderr
    assert " MB for each of 3 labels" in trained.result.stderr
    assert "task: multi-label" in (trained.cwd / "runs/visits/config.yaml").read_text()


def test_figures_are_those_of_scikit_learn(mha: Mha, trained: Run) -> None:
    """On other texts, which stand in JSON with lists of labels."""
    given = rows(120, seed=1)
    path = trained.cwd / "others.jsonl"
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in given))
    figures = mha("evaluate", "runs/visits", "--data", "others.jsonl", "--json").json
    answers = lines_of(mha("predict", "-c", "runs/visits", "--input", "others.jsonl", "--json"))
    truth, said = (
        np.array([[name in found for name in WORDS] for found in lists])
        for lists in ([row[1] for row in given], [one["labels"] for one in answers])
    )
    probabilities = np.array([[one["probabilities"][name] for name in WORDS] for one in answers])
    means = {f"{mean}_f1": metrics.f1_score(truth, said, average=mean) for mean in ("micro", "macro", "weighted")}
    expected = means | {"exact_match": metrics.accuracy_score(truth, said), "hamming_loss": metrics.hamming_loss(truth, said)}
    assert {name: figures[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    ranking = metrics.label_ranking_average_precision_score(truth, probabilities)
    assert figures["ranking_average_precision"] == pytest.approx(ranking, abs=1e-6)
    assert figures["loss"] == pytest.approx(metrics.log_loss(truth.ravel(), probabilities.ravel()), abs=1e-4)
    assert figures["micro_f1"] > 0.8  # it has learnt
    for number, (one, name) in enumerate(zip(figures["labels"], WORDS, strict=True)):
        shares = metrics.precision_recall_fscore_support(truth[:, number], said[:, number], average="binary")[:3]
        assert (one["name"], one["num_texts"]) == (name, int(truth[:, number].sum()))
        assert (one["precision"], one["recall"], one["f1"]) == pytest.approx(shares, abs=1e-12)
        assert one["average_precision"] == pytest.approx(
            metrics.average_precision_score(truth[:, number], probabilities[:, number]), abs=1e-6
        )
    shown = mha("evaluate", "runs/visits").stdout
    assert "micro F1" in shown and "average" in shown


def test_a_label_that_no_text_has_or_gets_is_left_out_of_figures(mha: Mha, trained: Run) -> None:
    given = [(text, "|".join(labels)) for text, labels in rows(80, seed=1) if "staff" not in labels]
    write_table(trained.cwd / "two.csv", given, "text,labels")
    figures = mha("evaluate", "runs/visits", "--data", "two.csv", "--json").json
    assert [one["f1"] for one in figures["labels"]][2] is None and figures["macro_f1"] > 0.8
    assert "staff" not in mha("evaluate", "runs/visits", "--data", "two.csv").stdout


def test_answers_are_all_labels_that_reach_their_thresholds(mha: Mha, trained: Run) -> None:
    (one,) = lines_of(mha("predict", "-c", "runs/visits", "--json", ROW))
    assert sorted(one["labels"]) == ["food", "price"]
    assert one["probability"] == min(one["probabilities"][name] for name in one["labels"])
    in_a_cell = "|".join(one["labels"])
    assert mha("predict", "-c", "runs/visits", ROW).stdout == f"{in_a_cell}\t{one['probability']:.4f}\t-\n"
    assert mha("predict", "-c", "runs/visits", "--only", "staff", ROW).code == 1
    assert mha("predict", "-c", "runs/visits", "--only", "food", ROW).stdout == f"{ROW}\n"
    assert mha("predict", "-c", "runs/visits", "--threshold", "1", ROW).stdout == "\t\t-\n"
    everything = mha("predict", "-c", "runs/visits", "--threshold", "0", ROW).stdout.split("\t")[0]
    assert sorted(everything.split("|")) == sorted(WORDS)
    assert len(mha("predict", "-c", "runs/visits", "--top-k", "2", ROW).stdout.split("\t")) == 5
    mha("batch", "visits.csv", "--output", "parts", "-c", "runs/visits", "--workers", "1")
    (part,) = (trained.cwd / "parts").glob("*.jsonl")
    found = [json.loads(line)["labels"] for line in part.read_text().splitlines()]
    assert found == [one["labels"] for one in lines_of(mha("predict", "-c", "runs/visits", "--json", "-i", "visits.csv"))]


def test_thresholds_for_a_precision_are_found_and_written(mha: Mha) -> None:
    args = ("--data", "visits.csv", "--find-threshold", "recall=1", "--output", "found.keras", "--json")
    figures = mha("evaluate", "runs/visits", *args).json
    assert [(one["recall"], one["reached"]) for one in figures["labels"]] == [(1.0, True)] * 3
    again = mha("evaluate", "found.keras", "--data", "visits.csv", "--json").json
    assert [one["threshold"] for one in again["labels"]] == [one["threshold"] for one in figures["labels"]]
    assert again["micro_f1"] == figures["micro_f1"]


@pytest.mark.usefixtures("untraced")
def test_pruning_counts_with_the_thresholds(mha: Mha, trained: Run) -> None:
    path = shutil.copytree(trained.cwd / "runs/visits", trained.cwd / "strict") / "checkpoint.keras"
    write_checkpoint(path, dataclasses.replace(read_checkpoint(path), thresholds=dict.fromkeys(WORDS, 0.9999)))
    pruning = mha("heads", "strict", "--prune", "1", "--output", "strict/pruned.keras", "--retrain", "1", "--json").json["pruning"]
    for when, name in (("before", "strict"), ("after", "strict/pruned.keras")):
        scored = mha("evaluate", name, "--data", "visits.csv", "--split", "validation", "--json").json
        assert scored["exact_match"] == pruning[f"accuracy_{when}"]
    assert pruning["accuracy_before"] < 0.7 < pruning["accuracy_after"]  # thresholds are chosen again, for the new weights


def test_python_gives_and_takes_lists(trained: Run) -> None:
    model = mha_cli.load(trained.cwd / "runs/visits")
    (prediction,) = model.predict([ROW])
    assert prediction.labels is not None and sorted(prediction.labels) == ["food", "price"]
    assert prediction.answer == "|".join(prediction.labels)
    texts, labels = zip(*rows(50, seed=2), strict=True)
    assert mha_cli.evaluate(model, texts, labels).num_texts == 50


def test_a_text_with_a_label_near_its_threshold_is_labelled_next(mha: Mha, trained: Run) -> None:
    texts = [f"{text} by then" for text, _ in rows(40, seed=3)]
    (trained.cwd / "new.txt").write_text("\n".join(texts))
    (found,) = lines_of(result := mha("data", "new.txt", "--next", "1", "-c", "runs/visits", "--json"))
    thresholds = read_checkpoint(trained.cwd / "runs/visits/checkpoint.keras").thresholds
    answers = mha_cli.load(trained.cwd / "runs/visits").predict(texts)
    margins = {one.text: min(abs(one.probabilities[name] - thresholds[name]) for name in WORDS) for one in answers}
    assert sorted(margins, key=margins.__getitem__).index(found["text"]) < 10
    assert found["labels"] == "" and "column labels, '|' between them; an empty cell means no label" in result.stderr


@pytest.mark.parametrize("form", [pytest.param("onnx", marks=pytest.mark.extras), "saved-model"])
def test_exports_give_the_same_probabilities(form: str, mha: Mha) -> None:
    """The command compares them itself, and scores both."""
    if form == "onnx":
        pytest.importorskip("onnxruntime")
    given = ("runs/visits", "--data", "visits.csv", "--json")
    accuracy = mha("export", *given, "--format", form, "--output", f"visits-{form}").json["accuracy"]
    exact = mha("evaluate", *given).json["exact_match"]
    assert (accuracy["checkpoint"], accuracy["export"], accuracy["num_changed"]) == (exact, exact, 0)


def test_the_inside_can_be_looked_at(mha: Mha, trained: Run) -> None:
    found = mha("explain", "-c", "runs/visits", "--json", "--gradients", ROW).json
    assert found["label"] in ("food", "price")
    staff = mha("explain", "-c", "runs/visits", "--json", "--label", "staff", ROW).json
    answer = mha_cli.load(trained.cwd / "runs/visits").predict([ROW])[0]
    assert (staff["label"], staff["probability"]) == ("staff", pytest.approx(answer.probabilities["staff"], abs=1e-6))
    assert staff["occlusion"] != found["occlusion"]
    assert "no class 'stuff' in" in refusal(mha("explain", "-c", "runs/visits", "--label", "stuff", ROW))
    assert mha("shuffle-test", "runs/visits", "--shuffles", "1", "--json").code == 0
    assert mha("heads", "runs/visits", "--max-texts", "20", "--json").code == 0


def test_a_report(mha: Mha, trained: Run) -> None:
    pytest.importorskip("jinja2")
    checkpoint = read_checkpoint(trained.cwd / "runs/visits/checkpoint.keras")
    certain = {name: {"food": 0.001, "price": 0.999, "staff": 0.5}[name] for name in checkpoint.class_names}  # so that there are mistakes
    (trained.cwd / "runs/odd").mkdir()
    write_checkpoint(trained.cwd / "runs/odd/checkpoint.keras", dataclasses.replace(checkpoint, thresholds=certain))
    (trained.cwd / "runs/odd/config.yaml").write_bytes((trained.cwd / "runs/visits/config.yaml").read_bytes())
    result = mha("report", "runs/odd")
    assert (result.code, result.stdout) == (0, "written: runs/odd/report.html\n")
    page = (trained.cwd / "runs/odd/report.html").read_text("utf-8")
    found = mha("evaluate", "runs/odd", "--json").json
    for figure in (f"{found['micro_f1']:.4f}", f"{found['exact_match']:.2%}", f"{found['ranking_average_precision']:.4f}"):
        assert figure in page
    for label in found["labels"]:
        row = page.split(f'<th scope="row">{label["name"]}</th>')[1].split("</tr>")[0]
        assert f"{label['threshold']:.4f}" in row
        assert f"{label['average_precision']:.2%}" in row
    mistakes = page.split('<ol class="mistakes">')[1]
    assert "<li>not <b>price</b>" in mistakes
    assert "<li><b>food</b>" in mistakes
    assert "Confusion matrix" not in page


def test_models_are_compared_by_exactly_right_texts(mha: Mha, trained: Run) -> None:
    shutil.copytree(trained.cwd / "runs/visits", trained.cwd / "runs/other")
    path, order = trained.cwd / "runs/other/checkpoint.keras", [2, 0, 1]  # of the classes, which does not matter
    checkpoint = read_checkpoint(path)
    weights = {name: value[..., order] if name.startswith("classifier") else value for name, value in checkpoint.weights.items()}
    weights["classifier/bias"] = weights["classifier/bias"] + np.float32([0, 9, 0])  # every text is about one thing more
    names = tuple(checkpoint.class_names[number] for number in order)
    write_checkpoint(path, dataclasses.replace(checkpoint, weights=weights, class_names=names))
    found = mha("compare", "runs/visits", "runs/other", "--json").json
    for score in found["models"]:
        alone = mha("evaluate", score["name"], "--json").json
        assert (score["accuracy"], score["macro_f1"]) == pytest.approx((alone["exact_match"], alone["macro_f1"]))
    (one,) = found["differences"]
    assert one["accuracy"] < -0.3
    assert max(one["accuracy_interval"][1], one["macro_f1_interval"][1]) < 0
    assert one["verdict"] == "less accurate than runs/visits, hardly by chance"
    assert one["only_first_right"] - one["only_this_right"] == pytest.approx(-one["accuracy"] * found["num_texts"])


def test_wrong_labels_are_found_by_text_and_label(mha: Mha, trained: Run) -> None:
    given = [(text, "|".join(labels)) for text, labels in rows(240, seed=5)]
    given[6], given[8] = ("soup cake to that place", ""), ("a sunny day we came", "staff")
    write_table(trained.cwd / "wrong.csv", given, "text,labels")
    report = mha("data", "wrong.csv", "--label-issues", "2", "--set", "data.label_separator=|", "--json").json
    issues = {one["line"]: (one["label"], one["suggested"]) for one in report["label_issues"]}
    assert issues == {8: ("", "food"), 10: ("staff", "")}
    assert report["num_contradicted"] >= 2 and report["accuracy"] > 0.95


REFUSED = {
    "training.class_weights=balanced": "training.class_weights=balanced weighs texts by their one class, and texts have several labels; "
    "take none",
    f"training.teacher={PACKAGED}": "visits.csv: multi-label texts, and training.teacher is a single-label model; take another model",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_settings_of_one_class_are_refused(setting: str, mha: Mha) -> None:
    args = ("--set", "data.train=visits.csv", "--set", "data.label_separator=|", "--set", "data.label_column=labels", "--set", setting)
    assert REFUSED[setting] in refusal(mha("train", "--config", "text", *args, "--output", "refused"))


def test_one_label_per_text_is_no_multi_label_task(mha: Mha, trained: Run) -> None:
    (trained.cwd / "single.csv").write_text("text,label\n" + "good,pos\nbad,neg\n" * 10)
    result = mha("train", "--config", "text", "--set", "data.train=single.csv", "--set", "task=multi-label", "--output", "refused")
    assert "task=multi-label, and every text has one label; set data.label_separator, or give lists of labels" in result.stderr


def test_init_finds_the_separator(mha: Mha, trained: Run) -> None:
    result = mha("init", "visits.csv", "--output", "found.yaml")
    assert "labels per text" in result.stdout and "together" in result.stdout
    assert '  label_separator: "|"  # several labels per text, such as ' in (trained.cwd / "found.yaml").read_text()


def test_data_takes_a_separator_that_init_would_not_find(mha: Mha, trained: Run) -> None:
    (trained.cwd / "words.csv").write_text(
        "text,label\n" + "".join(f"a text {row},{('soup price', 'soup', 'price')[row % 3]}\n" for row in range(9))
    )
    figures = mha("data", "words.csv", "--set", "data.label_separator= ", "--json").json["train"]["texts"]
    assert figures["classes"] == {"price": 6, "soup": 6}


def test_init_finds_a_column_of_lists(mha: Mha, trained: Run) -> None:
    (trained.cwd / "lists-of.jsonl").write_text("".join(json.dumps({"body": text, "topics": found}) + "\n" for text, found in rows(60)))
    layout = mha("init", "lists-of.jsonl", "--output", "lists.yaml", "--json").json["layout"]
    assert (layout["label_column"], layout["label_separator"]) == ("topics", None)


def test_a_model_of_lists_reads_cells_with_vertical_bars(mha: Mha, trained: Run) -> None:
    checkpoint = read_checkpoint(trained.cwd / "runs/visits/checkpoint.keras")
    config = checkpoint.config.model_copy(update={"data": MemoryData()})
    write_checkpoint(trained.cwd / "of-lists.keras", dataclasses.replace(checkpoint, config=config))
    args = ("--data", "visits.csv", "--label-column", "labels", "--json")
    assert mha("evaluate", "of-lists.keras", *args).json["num_texts"] == 240


def test_another_separator_is_refused_with_that_of_the_model(mha: Mha, trained: Run) -> None:
    (trained.cwd / "semicolons.csv").write_text("text,labels\nsoup,food;price\n")
    line = "semicolons.csv:2: the class is 'food;price'; the model knows food, price, staff, which '|' separates in one cell"
    assert line in refusal(mha("evaluate", "runs/visits", "--data", "semicolons.csv"))


def test_a_model_of_one_class_refuses_lists(mha: Mha, small: Path, trained: Run) -> None:
    (trained.cwd / "lists.jsonl").write_text('{"text": "fine", "label": ["neg", "pos"]}\n')
    line = "lists.jsonl:1: the label is a list; give every text one class, as the model does"
    assert line in refusal(mha("evaluate", small, "--data", "lists.jsonl"))


def test_a_run_takes_in_a_further_label(trained: Run, tmp_path: Path) -> None:
    more = [(f"{text} loud", [*labels, "noise"]) if row % 3 else (text, labels) for row, (text, labels) in enumerate(rows(90, seed=1))]
    write_table(tmp_path / "more.csv", ((text, "|".join(labels)) for text, labels in more), "text,labels")
    args = ("train", "--from", "runs/visits", "--set", f"data.train={tmp_path / 'more.csv'}", "--output", tmp_path / "run")
    assert run_here(*args, cwd=trained.cwd).code == 0
    model = mha_cli.load(tmp_path / "run")
    assert model.classes == (*WORDS, "noise")
    assert {*model.predict([f"{ROW} and loud"])[0].labels} == {"food", "price", "noise"}


def test_a_table_comes_after_lists(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its cells the labels are separated as in the answers."""
    monkeypatch.chdir(tmp_path)
    checkpoint = read_checkpoint(trained.cwd / "runs/visits/checkpoint.keras")
    write_run(Path("run"), checkpoint, data={**config_to_dict(checkpoint.config)["data"], "train": "lists.jsonl", "label_separator": None})
    for name in ("lists", "more"):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows(20)))
    Path("more.csv").write_text("text,labels\nthe soup was cheap,food|price\n")
    settings = config_to_train_on(Path("run"), ["data.train=more.csv"]).data
    assert [*FileTexts(FilesData.model_validate(settings.model_dump())).read("train")][-1].label == ("food", "price")
