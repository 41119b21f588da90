"""Texts with several labels each, from the file to the answer, through the real command."""

import dataclasses
import json
import random
import shlex
import shutil
from collections.abc import Callable
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
from tests.cli.command import COMMANDS, TRACED_SOON, Mha, Result, Run, run_here, set_all
from tests.tables import write_table
from tests.training.numpy_trainer import in_numpy

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
RUN, ODD = "runs/visits", "runs/odd"  # the second with thresholds by which it makes mistakes


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
    """``mha train --config text`` in NumPy on a table with the separator, and the folder of both runs. Not to be written to."""
    cwd = tmp_path_factory.mktemp("several")
    write_table(cwd / "visits.csv", ((text, "|".join(labels)) for text, labels in rows(240)), "text,labels")
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        result = run_here("train", "--config", "text", *set_all("data.train=visits.csv", *SETTINGS), cwd=cwd).well()
    with_thresholds(cwd / RUN, cwd / ODD, food=0.0, price=1.0, staff=0.5)
    return Run(cwd, result)


@pytest.fixture
def cwd(trained: Run) -> Path:
    return trained.cwd


def with_thresholds(run: Path, copy: Path, **thresholds: float) -> None:
    """A copy of a run that answers by other thresholds."""
    path = shutil.copytree(run, copy) / "checkpoint.keras"
    write_checkpoint(path, dataclasses.replace(read_checkpoint(path), thresholds=thresholds))


def lines_of(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.well().lines]


def test_the_data_make_the_run_one_of_several_labels(trained: Run) -> None:
    assert "visits.csv: several labels per text, 1.2 on average" in trained.result.stderr
    assert " MB for each of 3 labels" in trained.result.stderr
    assert "task: multi-label" in (trained.cwd / RUN / "config.yaml").read_text()


SHOWN = {
    f"attention -c {RUN} '{ROW}'": "; block 0, mean over the heads: entropy ",
    f"batch visits.csv -c {ODD} -o parts --workers 1": "240 texts",
    f"compare {RUN} {ODD}": "less accurate than runs/visits, hardly by chance",
    "data visits.csv --set data.label_separator=|": "labels per text",
    f"doctor {ODD}": "food 0.0000, price none, staff 0.5000",
    f"evaluate {RUN}": "micro F1",
    f"explain -c {RUN} --label staff '{ROW}'": "What decides for staff",
    "init visits.csv -o found.yaml": "labels per text",
    f"shares visits.csv -c {RUN}": "Shares of the classes, 240 texts",
    f"predict -c {ODD} --threshold 0 '{ROW}'": "food|price|staff",
}
"""Commands, and something that they show."""


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_takes_several_labels(line: str, mha: Mha) -> None:
    assert SHOWN[line] in mha(*shlex.split(line)).well().stdout


def test_every_command_is_among_them() -> None:
    of_their_own = {"label", "report", "serve", "train"}
    assert {line.split()[0] for line in (*SHOWN, *EXACT)} | of_their_own == {*COMMANDS} | of_their_own


EXACT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    f"shuffle-test {ODD} --shuffles 1": ("", lambda found: found[0]["accuracy"]),
    f"heads {ODD} --split test": ("", lambda found: found["accuracy"]),
    f"compare {RUN} {ODD}": ("", lambda found: found["models"][1]["accuracy"]),
    f"export {ODD} -f saved-model -o saved --data visits.csv": ("--data visits.csv", lambda found: found["accuracy"]["export"]),
    f"export {ODD} -f onnx -o visits.onnx --data visits.csv": ("--data visits.csv", lambda found: found["accuracy"]["export"]),
}
"""Commands whose accuracy is the share of texts with exactly their labels, and options with which `mha evaluate` reads the same texts."""


@pytest.mark.parametrize("line", EXACT)
@pytest.mark.usefixtures("untraced")
def test_a_text_is_right_with_exactly_its_labels(line: str, mha: Mha) -> None:
    if "onnx" in line:
        pytest.importorskip("onnxruntime")
    options, accuracy = EXACT[line]
    expected = mha("evaluate", ODD, *options.split(), "--json").json["exact_match"]
    assert accuracy(mha(*shlex.split(line), "--json").well().json) == expected < 1


def test_figures_are_those_of_scikit_learn(mha: Mha, trained: Run) -> None:
    """On other texts, which stand in JSON with lists of labels."""
    given = rows(120, seed=1)
    path = trained.cwd / "others.jsonl"
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in given))
    figures = mha("evaluate", RUN, "--data", "others.jsonl", "--json").json
    answers = lines_of(mha("predict", "-c", RUN, "--input", "others.jsonl", "--json"))
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


def test_a_label_that_no_text_has_or_gets_is_left_out_of_figures(mha: Mha, trained: Run) -> None:
    given = [(text, "|".join(labels)) for text, labels in rows(80, seed=1) if "staff" not in labels]
    write_table(trained.cwd / "two.csv", given, "text,labels")
    figures = mha("evaluate", RUN, "--data", "two.csv", "--json").json
    assert [one["f1"] for one in figures["labels"]][2] is None and figures["macro_f1"] > 0.8
    assert "staff" not in mha("evaluate", RUN, "--data", "two.csv").stdout


def test_answers_are_all_labels_that_reach_their_thresholds(mha: Mha, trained: Run) -> None:
    (one,) = lines_of(mha("predict", "-c", RUN, "--json", ROW))
    assert sorted(one["labels"]) == ["food", "price"]
    assert one["probability"] == min(one["probabilities"][name] for name in one["labels"])
    (prediction,) = mha_cli.load(trained.cwd / RUN).predict([ROW])
    assert (prediction.answer, prediction.labels) == ("|".join(one["labels"]), tuple(one["labels"]))
    for options, shown in {
        "": f"{prediction.answer}\t{one['probability']:.4f}\t-\n",
        "--only staff": "",
        "--only food": f"{ROW}\n",
        "--threshold 1": "\t\t-\n",
    }.items():
        assert mha("predict", "-c", RUN, *options.split(), ROW).stdout == shown
    assert len(mha("predict", "-c", RUN, "--top-k", "2", ROW).stdout.split("\t")) == 5
    staff = mha("explain", "-c", RUN, "--json", "--gradients", "--label", "staff", ROW).json
    assert (staff["label"], staff["probability"]) == ("staff", pytest.approx(one["probabilities"]["staff"], abs=1e-6))


def test_a_batch_and_a_service_answer_as_predict_does(mha: Mha, trained: Run) -> None:
    expected = lines_of(mha("predict", "-c", RUN, "--json", "-i", "visits.csv"))
    mha("batch", "visits.csv", "--output", "answers", "-c", RUN, "--workers", "1").well()
    (part,) = (trained.cwd / "answers").glob("*.jsonl")
    assert [json.loads(line)["labels"] for line in part.read_text().splitlines()] == [one["labels"] for one in expected]
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    from tests.serve.services import ask, service

    with service(read_checkpoint(trained.cwd / RUN / "checkpoint.keras")) as port:
        assert ask(port, "/predict", {"texts": [text for text, _ in rows(240)]}) == (200, expected)
        assert ask(port, "/explain", {"text": ROW})[1]["explanation"]["label"] in ("food", "price")


def test_thresholds_for_a_precision_are_found_and_written(mha: Mha) -> None:
    args = ("--data", "visits.csv", "--find-threshold", "recall=1", "--output", "found.keras", "--json")
    figures = mha("evaluate", RUN, *args).json
    assert [(one["recall"], one["reached"]) for one in figures["labels"]] == [(1.0, True)] * 3
    again = mha("evaluate", "found.keras", "--data", "visits.csv", "--json").json
    assert [one["threshold"] for one in again["labels"]] == [one["threshold"] for one in figures["labels"]]
    assert again["micro_f1"] == figures["micro_f1"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("untraced")
def test_pruning_counts_with_the_thresholds(mha: Mha, trained: Run) -> None:
    pruning = mha("heads", ODD, "--prune", "1", "--output", "pruned.keras", "--retrain", "1", "--json").json["pruning"]
    for when, name in (("before", ODD), ("after", "pruned.keras")):
        scored = mha("evaluate", name, "--data", "visits.csv", "--split", "validation", "--json").json
        assert scored["exact_match"] == pruning[f"accuracy_{when}"]
    assert pruning["accuracy_before"] < pruning["accuracy_after"]  # thresholds are chosen again, for the new weights


def test_a_text_with_a_label_near_its_threshold_is_labelled_next(mha: Mha, trained: Run) -> None:
    texts = [f"{text} by then" for text, _ in rows(40, seed=3)]
    (trained.cwd / "new.txt").write_text("\n".join(texts))
    (found,) = lines_of(result := mha("data", "new.txt", "--next", "1", "-c", RUN, "--json"))
    thresholds = read_checkpoint(trained.cwd / RUN / "checkpoint.keras").thresholds
    answers = mha_cli.load(trained.cwd / RUN).predict(texts)
    margins = {one.text: min(abs(one.probabilities[name] - thresholds[name]) for name in WORDS) for one in answers}
    assert margins[found["text"]] <= sorted(margins.values())[9] + 1e-5
    assert found["labels"] == "" and "column labels, '|' between them; an empty cell means no label" in result.stderr


def test_a_report(mha: Mha, trained: Run) -> None:
    pytest.importorskip("jinja2")
    mha("report", ODD).well()
    page = (trained.cwd / ODD / "report.html").read_text("utf-8")
    found = mha("evaluate", ODD, "--json").json
    for figure in (f"{found['micro_f1']:.4f}", f"{found['exact_match']:.2%}", f"{found['ranking_average_precision']:.4f}"):
        assert figure in page
    for label in found["labels"]:
        row = page.split(f'<th scope="row">{label["name"]}</th>')[1].split("</tr>")[0]
        assert f"{label['average_precision']:.2%}" in row
    mistakes = page.split('<ol class="mistakes">')[1]
    assert "<li>not <b>price</b>" in mistakes
    assert "<li><b>food</b>" in mistakes
    assert "Confusion matrix" not in page


def test_wrong_labels_are_found_by_text_and_label(mha: Mha, trained: Run) -> None:
    given = [(text, "|".join(labels)) for text, labels in rows(240, seed=5)]
    given[6], given[8] = ("soup cake to that place", ""), ("a sunny day we came", "staff")
    write_table(trained.cwd / "wrong.csv", given, "text,labels")
    report = mha("data", "wrong.csv", "--label-issues", "2", "--set", "data.label_separator=|", "--json").json
    issues = {one["line"]: (one["label"], one["suggested"]) for one in report["label_issues"]}
    assert issues == {8: ("", "food"), 10: ("staff", "")}
    assert report["num_contradicted"] >= 2 and report["accuracy"] > 0.95


REFUSED = {
    "train --config text --set data.train=visits.csv --set data.label_separator=| --set training.class_weights=balanced -o refused": (
        "training.class_weights=balanced weighs texts by their one class, and texts have several labels; take none"
    ),
    f"train --config text --set data.train=visits.csv --set data.label_separator=| --set training.teacher={PACKAGED} -o refused": (
        "visits.csv: multi-label texts, and training.teacher is a single-label model; take another model"
    ),
    "train --config text --set data.train=single.csv --set task=multi-label -o refused": (
        "task=multi-label, and every text has one label; set data.label_separator, or give lists of labels"
    ),
    f"evaluate {RUN} --data semicolons.csv": (
        "semicolons.csv:2: the class is 'food;price'; the model knows food, price, staff, which '|' separates in one cell"
    ),
    f"evaluate {PACKAGED} --data lists.jsonl": "lists.jsonl:1: the label is a list; give every text one class, as the model does",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_does_not_fit_the_task_is_refused(line: str, mha: Mha, cwd: Path) -> None:
    (cwd / "single.csv").write_text("text,label\n" + "good,pos\nbad,neg\n" * 10)
    (cwd / "semicolons.csv").write_text("text,labels\nsoup,food;price\n")
    (cwd / "lists.jsonl").write_text('{"text": "fine", "label": ["neg", "pos"]}\n')
    result = mha(*shlex.split(line))
    assert result.code == 2
    assert REFUSED[line] in result.stderr.splitlines()[-1]


def test_init_finds_the_separator_or_a_column_of_lists(mha: Mha, cwd: Path) -> None:
    mha("init", "visits.csv", "--output", "separated.yaml").well()
    assert '  label_separator: "|"  # several labels per text, such as ' in (cwd / "separated.yaml").read_text()
    (cwd / "lists-of.jsonl").write_text("".join(json.dumps({"body": text, "topics": found}) + "\n" for text, found in rows(60)))
    layout = mha("init", "lists-of.jsonl", "--output", "lists.yaml", "--json").json["layout"]
    assert (layout["label_column"], layout["label_separator"]) == ("topics", None)


def test_a_model_of_lists_reads_cells_with_vertical_bars(mha: Mha, trained: Run) -> None:
    checkpoint = read_checkpoint(trained.cwd / RUN / "checkpoint.keras")
    config = checkpoint.config.model_copy(update={"data": MemoryData()})
    write_checkpoint(trained.cwd / "of-lists.keras", dataclasses.replace(checkpoint, config=config))
    args = ("--data", "visits.csv", "--label-column", "labels", "--json")
    assert mha("evaluate", "of-lists.keras", *args).json["num_texts"] == 240


def test_a_run_takes_in_a_further_label(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_numpy(monkeypatch.setattr)
    more = [(f"{text} loud", [*labels, "noise"]) if row % 3 else (text, labels) for row, (text, labels) in enumerate(rows(90, seed=1))]
    write_table(tmp_path / "more.csv", ((text, "|".join(labels)) for text, labels in more), "text,labels")
    args = ("train", "--from", RUN, "--set", f"data.train={tmp_path / 'more.csv'}", "--output", tmp_path / "run")
    assert run_here(*args, cwd=trained.cwd).code == 0
    model = mha_cli.load(tmp_path / "run")
    assert model.classes == (*WORDS, "noise")
    assert {*model.predict([f"{ROW} and loud"])[0].labels} == {"food", "price", "noise"}


def test_a_table_comes_after_lists(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its cells the labels are separated as in the answers."""
    monkeypatch.chdir(tmp_path)
    checkpoint = read_checkpoint(trained.cwd / RUN / "checkpoint.keras")
    write_run(Path("run"), checkpoint, data={**config_to_dict(checkpoint.config)["data"], "train": "lists.jsonl", "label_separator": None})
    for name in ("lists", "more"):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows(20)))
    Path("more.csv").write_text("text,labels\nthe soup was cheap,food|price\n")
    settings = config_to_train_on(Path("run"), ["data.train=more.csv"]).data
    assert [*FileTexts(FilesData.model_validate(settings.model_dump())).read("train")][-1].label == ("food", "price")
