from __future__ import annotations

import json
from shutil import copytree
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.config.settings import SampleData
from mha_cli.data.sample import SampleTexts
from tests.checkpoints import small_checkpoint, small_checkpoint_file
from tests.cli.command import Result, has_control_characters, run_here, run_mha, tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mha_cli.data.labelled_text import LabelledText
    from tests.cli.command import Run

    Evaluate = Callable[..., Result]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """``mha evaluate ARGS`` in this process, which has TensorFlow already."""
    return lambda *args: run_here("evaluate", *args, cwd=tmp_path, monkeypatch=monkeypatch)


def sample_split(split: str) -> list[LabelledText]:
    return list(SampleTexts(SampleData(num_texts=1200)).read(split))


def test_the_test_split_as_json(trained: Run, tmp_path: Path) -> None:
    """Everything is held against the same reviews sent through the standard input of `mha predict`."""
    result = run_mha("evaluate", trained.checkpoint, "--json", cwd=tmp_path)
    assert (result.code, result.stderr) == (0, "")
    figures: dict[str, Any] = json.loads(result.stdout)
    reviews = sample_split("test")
    piped = run_mha("predict", "--json", "-c", trained.checkpoint, stdin="".join(f"{review.text}\n" for review in reviews), cwd=tmp_path)
    predictions = [json.loads(line) for line in piped.lines]
    names = ["neg", "pos"]
    truth = np.array([names.index(review.label) for review in reviews])
    said = np.array([names.index(prediction["label"]) for prediction in predictions])
    probabilities = np.array([[prediction["probabilities"][name] for name in names] for prediction in predictions])

    assert (figures["data"], figures["split"], figures["num_texts"]) == ("sample", "test", len(reviews))
    assert figures["accuracy"] == (said == truth).mean()
    confusion = [[int(((truth == row) & (said == column)).sum()) for column in range(2)] for row in range(2)]
    assert figures["confusion"] == confusion
    assert figures["loss"] == pytest.approx(-np.log(probabilities[np.arange(len(truth)), truth]).mean(), abs=1e-4)
    assert figures["num_truncated"] == sum(prediction["truncated"] for prediction in predictions)
    for index, score in enumerate(figures["classes"]):
        assert score["name"] == names[index]
        assert score["num_texts"] == sum(confusion[index])
        assert score["recall"] == pytest.approx(confusion[index][index] / sum(confusion[index]))
        assert score["precision"] == pytest.approx(confusion[index][index] / sum(row[index] for row in confusion))
        assert score["f1"] == pytest.approx(2 / (1 / score["precision"] + 1 / score["recall"]))
    assert figures["macro_f1"] == pytest.approx(np.mean([score["f1"] for score in figures["classes"]]))
    shares = [sum(row) / len(truth) for row in confusion]
    assert figures["weighted_f1"] == pytest.approx(np.dot(shares, [score["f1"] for score in figures["classes"]]))
    assert figures["top_3_accuracy"] is None
    assert {(pair["true"], pair["predicted"], pair["num_texts"]) for pair in figures["confusions"]} == {
        ("neg", "pos", confusion[0][1]),
        ("pos", "neg", confusion[1][0]),
    }
    low, high = figures["accuracy_interval"]
    assert 0 < low < figures["accuracy"] < high < 1
    wins = probabilities[truth == 1, 1][:, None] - probabilities[truth == 0, 1][None, :]
    assert figures["roc_auc"] == pytest.approx(((wins > 0) + 0.5 * (wins == 0)).mean(), abs=1e-4)
    assert 0 <= figures["calibration_error"] < 0.5
    read = np.minimum([prediction["tokens"] for prediction in predictions], 64)
    for name, values in (("by_probability", probabilities.max(axis=1)), ("by_length", read)):
        assert sum(one["num_texts"] for one in figures[name]) == len(reviews)
        for one in figures[name]:
            inside = (values > one["above"]) & (values <= one["up_to"])
            assert one["num_texts"] == inside.sum()
            assert one["accuracy"] == (pytest.approx((said == truth)[inside].mean()) if inside.any() else None)
    assert [one["up_to"] for one in figures["by_probability"]] == [0.6, 0.7, 0.8, 0.9, 1]


@pytest.mark.usefixtures("untraced")
def test_a_table_for_people(trained: Run, evaluate: Evaluate) -> None:
    figures = json.loads(evaluate(trained.checkpoint, "--split", "twins", "--json").stdout)
    result = evaluate(trained.checkpoint, "--split", "twins")
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    assert "sample, split twins" in result.stdout
    low, high = figures["accuracy_interval"]
    assert f"{figures['accuracy']:.2%} (95 % interval {low:.2%} to {high:.2%})" in result.stdout
    words = ("ROC AUC", "calibration error", "precision", "recall", "F1", "as neg", "as pos", "0 texts")
    assert "top-3" not in result.stdout
    assert "Most frequent confusions" not in result.stdout
    for word in (*words, f"weighted F1       │ {figures['weighted_f1']:.4f}", "up to 60%", "90% to 100%", "up to 16", "48 to 64"):
        assert word in result.stdout


def test_the_split_held_out_in_training(trained: Run, evaluate: Evaluate) -> None:
    figures = json.loads(evaluate(trained.checkpoint, "--split", "validation", "--json").stdout)
    kept = json.loads((trained.directory / "metrics.json").read_text())["metrics"]
    assert (figures["split"], figures["num_texts"]) == ("validation", 120)
    assert figures["accuracy"] == kept["validation_accuracy"]
    assert figures["loss"] == pytest.approx(kept["validation_loss"], abs=1e-5)
    assert figures["calibration_error"] == pytest.approx(kept["calibration_error_after"], abs=1e-4)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("small", [False, True])
def test_thresholds_are_found_and_kept_and_predict_goes_by_them(
    small: bool, evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "model.keras", small_checkpoint(seed=11), small)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["superb", "dreadful", "the", "film", "not"], 5)) for _ in range(60)]
    labels = rng.choice(["neg", "pos"], 60).tolist()
    (tmp_path / "more.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(texts, labels, strict=True)))
    arguments = ("model.keras", "--data", "more.csv", "--find-threshold", "recall=0.2", "--json")
    before = (tmp_path / "model.keras").read_bytes()
    asked = evaluate(*arguments)
    assert asked.stderr == "these thresholds are in no checkpoint yet: --output FILE writes one\n"
    assert (tmp_path / "model.keras").read_bytes() == before
    done = evaluate(*arguments, "--output", "model.keras")
    assert (done.code, done.stderr) == (0, "model.keras: written, with these thresholds, which mha predict goes by\n")

    found = json.loads(done.stdout)["thresholds"]
    assert found == json.loads(asked.stdout)["thresholds"]
    own, earlier = read_checkpoint(tmp_path / "model.keras"), small_checkpoint(seed=11)
    assert own.thresholds == {score["name"]: score["threshold"] for score in found}
    assert all(score["reached"] and score["threshold"] > 0.5 for score in found)
    for path, weight in own.weights.items():
        np.testing.assert_allclose(weight, earlier.weights[path], atol=0.02 if small else 0, err_msg=path)

    said = run_here("predict", "-c", "model.keras", "--input", "more.csv", cwd=tmp_path, monkeypatch=monkeypatch)
    answers = [line.split("\t")[0] for line in said.lines]
    for score in found:
        right = sum(answer == score["name"] == label for answer, label in zip(answers, labels, strict=True))
        assert (answers.count(score["name"]), right) == (score["num_answers"], score["num_right"])
        assert labels.count(score["name"]) == score["num_texts"]
        assert score["recall"] >= 0.2
    assert 0 < answers.count("") < 60

    again = json.loads(evaluate("model.keras", "--data", "more.csv", "--json").stdout)["thresholds"]
    assert again == [score | {"reached": None} for score in found]
    shown = evaluate("model.keras", "--data", "more.csv").stdout
    assert f"Thresholds: {1 - answers.count('') / 60:.1%} of the texts are answered, " in shown
    assert f"{found[0]['threshold']:.4f}" in shown


@pytest.mark.usefixtures("untraced")
def test_thresholds_of_many_classes(evaluate: Evaluate, tmp_path: Path) -> None:
    names = tuple(f"class{number}" for number in range(17))
    small_checkpoint_file(tmp_path / "many.keras", names)
    (tmp_path / "more.csv").write_text("text,label\n" + "".join(f"the film,{name}\na superb film,{name}\n" for name in names))
    shown = evaluate("many.keras", "--data", "more.csv", "--find-threshold", "precision=1").stdout
    assert "17 of 17 classes cannot be as good as that" in shown
    assert "the 15 that find least, of 17 (--json has all)" in shown
    assert "0.0% of the texts are answered, 0.0% of these rightly" in shown
    assert shown.count("│ none │") + shown.count("│      none │") == 15


def test_thresholds_are_chosen_on_the_part_held_out_and_go_into_a_run(trained: Run, evaluate: Evaluate, tmp_path: Path) -> None:
    copytree(trained.directory, tmp_path / "mine")
    done = evaluate("mine", "--find-threshold", "precision=0.9", "--output", "mine", "--json")
    assert (done.code, done.stderr) == (0, "mine/checkpoint.keras: written, with these thresholds, which mha predict goes by\n")
    figures = json.loads(done.stdout)
    assert (figures["split"], figures["num_texts"]) == ("validation", 120)
    found, before = read_checkpoint(tmp_path / "mine" / "checkpoint.keras"), read_checkpoint(trained.checkpoint)
    assert found.thresholds == {score["name"]: score["threshold"] for score in figures["thresholds"]}
    assert (found.keras_config, found.metrics) == (before.keras_config, before.metrics)
    for path, weight in before.weights.items():
        np.testing.assert_array_equal(weight, found.weights[path], err_msg=path)


@pytest.mark.usefixtures("untraced")
def test_a_file_of_ones_own(trained: Run, evaluate: Evaluate, tmp_path: Path) -> None:
    reviews = sample_split("twins")[:40]
    rows = [{"review": review.text, "stars": review.label} for review in reviews]
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    columns = ("--text-column", "review", "--label-column", "stars")
    figures = json.loads(evaluate(trained.checkpoint, "--data", "mine.jsonl", *columns, "--json").stdout)
    assert (figures["data"], figures["split"], figures["num_texts"]) == ("mine.jsonl", "test", 40)
    assert tree(tmp_path).keys() == {"mine.jsonl"}


@pytest.mark.usefixtures("untraced")
def test_one_class_has_no_roc_curve(small: Path, evaluate: Evaluate, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\nthe film,pos\nsuperb,pos\n")
    assert json.loads(evaluate(small, "--data", "mine.csv", "--json").stdout)["roc_auc"] is None
    assert "not defined: a class does not occur" in evaluate(small, "--data", "mine.csv").stdout


@pytest.mark.usefixtures("untraced")
def test_class_names_may_hold_anything(evaluate: Evaluate, tmp_path: Path) -> None:
    names = ("[bold]\x1b[31mred[/]", "a\tb\nc", "🙂")
    checkpoint = small_checkpoint_file(tmp_path / "odd.keras", names)
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps({"text": "the film", "label": name}) for name in names))
    result = evaluate(checkpoint, "--data", "mine.jsonl")
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    for shown in (r"[bold]\x1b[31mred[/]", r"as a\tb\nc", "🙂"):
        assert shown in result.stdout
    as_json = evaluate(checkpoint, "--data", "mine.jsonl", "--json").stdout
    assert not has_control_characters(as_json)
    assert [score["name"] for score in json.loads(as_json)["classes"]] == list(names)
