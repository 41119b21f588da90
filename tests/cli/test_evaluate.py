import dataclasses
import json
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.config.settings import SampleData
from mha_cli.runtime.classifier import Classifier
from mha_cli.sources.sample import SampleTexts
from tests.checkpoints import small_checkpoint, write_run
from tests.cli.command import Mha, Run, has_control_characters, run_mha, tree


def test_the_test_split_as_json(trained: Run, tmp_path: Path) -> None:
    """The figures are those of the same texts sent through the standard input of `mha predict`."""
    figures = run_mha("evaluate", trained.checkpoint, "--json", cwd=tmp_path).silent().json
    texts = list(SampleTexts(SampleData(num_texts=400)).read("test"))
    piped = run_mha("predict", "--json", "-c", trained.checkpoint, stdin="".join(f"{one.text}\n" for one in texts), cwd=tmp_path)
    predictions = [json.loads(line) for line in piped.lines]
    names = ["neg", "pos"]
    truth = np.array([names.index(one.label) for one in texts])
    said = np.array([names.index(prediction["label"]) for prediction in predictions])
    probabilities = np.array([[prediction["probabilities"][name] for name in names] for prediction in predictions])
    assert (figures["data"], figures["split"], figures["num_texts"]) == ("sample", "test", len(texts))
    assert figures["accuracy"] == (said == truth).mean()
    assert figures["confusion"] == [[int(((truth == row) & (said == column)).sum()) for column in range(2)] for row in range(2)]
    assert figures["loss"] == pytest.approx(-np.log(probabilities[np.arange(len(truth)), truth]).mean(), abs=1e-4)
    assert figures["num_truncated"] == sum(prediction["truncated"] for prediction in predictions)
    assert [one["up_to"] for one in figures["by_probability"]] == [0.6, 0.7, 0.8, 0.9, 1]
    assert sum(one["num_texts"] for one in figures["by_length"]) == len(texts)


def test_a_table_for_people(trained: Run, mha: Mha) -> None:
    figures = mha("evaluate", trained.checkpoint, "--split", "twins", "--json").json
    result = mha("evaluate", trained.checkpoint, "--split", "twins").silent()
    assert not has_control_characters(result.stdout)
    low, high = figures["accuracy_interval"]
    assert f"{figures['accuracy']:.2%} (95 % interval {low:.2%} to {high:.2%})" in result.stdout
    words = ("sample, split twins", "ROC AUC", "calibration error", "precision", "recall", "F1", "as neg", "as pos", "0 texts")
    for word in (*words, f"weighted F1       │ {figures['weighted_f1']:.4f}", "up to 60%", "90% to 100%", "up to 16", "48 to 64"):
        assert word in result.stdout
    assert "top-3" not in result.stdout
    assert "Most frequent confusions" not in result.stdout


@pytest.mark.parametrize("small", [False, True])
def test_thresholds_are_found_and_kept_and_predict_goes_by_them(small: bool, mha: Mha, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model.keras", small_checkpoint(seed=11), small)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["superb", "dreadful", "the", "film", "not"], 5)) for _ in range(60)]
    labels = rng.choice(["neg", "pos"], 60).tolist()
    (tmp_path / "more.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(texts, labels, strict=True)))
    arguments = ("evaluate", "model.keras", "--data", "more.csv", "--find-threshold", "recall=0.2", "--json")
    before = tree(tmp_path)
    asked = mha(*arguments)
    assert asked.stderr == "these thresholds are in no checkpoint yet: --output FILE writes one\n"
    assert tree(tmp_path) == before
    done = mha(*arguments, "--output", "model.keras")
    assert (done.code, done.stderr) == (0, "model.keras: written with these thresholds; mha predict applies them\n")

    found = done.json["thresholds"]
    assert found == asked.json["thresholds"]
    own, earlier = read_checkpoint(tmp_path / "model.keras"), small_checkpoint(seed=11)
    assert own.thresholds == {score["name"]: score["threshold"] for score in found}
    assert all(score["reached"] and score["threshold"] > 0.5 for score in found)
    for path, weight in own.weights.items():
        np.testing.assert_allclose(weight, earlier.weights[path], atol=0.02 if small else 0, err_msg=path)

    answers = [line.split("\t")[0] for line in mha("predict", "-c", "model.keras", "--input", "more.csv").lines]
    for score in found:
        right = sum(answer == score["name"] == label for answer, label in zip(answers, labels, strict=True))
        assert (answers.count(score["name"]), right) == (score["num_answers"], score["num_right"])
        assert labels.count(score["name"]) == score["num_texts"]
        assert score["recall"] >= 0.2
    assert 0 < answers.count("") < 60
    again = mha("evaluate", "model.keras", "--data", "more.csv", "--json").json["thresholds"]
    assert again == [score | {"reached": None} for score in found]
    shown = mha("evaluate", "model.keras", "--data", "more.csv").stdout
    assert f"Thresholds: {1 - answers.count('') / 60:.1%} of the texts are answered, " in shown
    assert f"{found[0]['threshold']:.4f}" in shown


def test_thresholds_are_chosen_on_the_part_held_out_and_go_into_a_run(trained: Run, mha: Mha, tmp_path: Path) -> None:
    copytree(trained.directory, tmp_path / "mine")
    done = mha("evaluate", "mine", "--find-threshold", "precision=0.9", "--output", "mine", "--json")
    assert (done.code, done.stderr) == (0, "mine/checkpoint.keras: written with these thresholds; mha predict applies them\n")
    assert done.json["split"] == "validation"
    found, before = read_checkpoint(tmp_path / "mine" / "checkpoint.keras"), read_checkpoint(trained.checkpoint)
    assert found.thresholds
    assert (found.keras_config, found.metrics) == (before.keras_config, before.metrics)


@pytest.mark.parametrize("own", [True, False])
def test_training_texts_are_counted_and_labels_merged(own: bool, mha: Mha, tmp_path: Path) -> None:
    data = {"source": "files", "train": "mine.csv", "merge_labels": {"POS": "pos"}}
    run = write_run(tmp_path / "run", small_checkpoint(), own, data=data)
    (tmp_path / "mine.csv").write_text("text,label\nthe film,pos\nsuperb,POS\ndull,neg\nfair,pos\nfair,neg\n")
    (tmp_path / "more.csv").write_text("text,label\nthe film,POS\nsuperb,neg\nnew,pos\nfair,neg\n")
    said = "more.csv, split test: texts that are also training texts: 3, 1 of them with another label"
    assert (said in mha("evaluate", run, "--data", "more.csv").well().stderr) == own
    (tmp_path / "mine.csv").unlink()
    assert "training texts" not in mha("evaluate", run, "--data", "more.csv").well().stderr
    assert mha_cli.evaluate(mha_cli.load(run), ["the film"], ["POS"]).num_texts == 1


def test_one_class_has_no_roc_curve(small: Path, mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\nthe film,pos\nsuperb,pos\n")
    assert mha("evaluate", small, "--data", "mine.csv", "--json").json["roc_auc"] is None
    assert "not defined: a class does not occur" in mha("evaluate", small, "--data", "mine.csv").stdout


def test_the_linear_model_alone_where_it_is_sure(mha: Mha, tmp_path: Path) -> None:
    """Both commands let it answer, and both let the encoder read every text on request."""
    model = small_checkpoint(linear={"buckets": 16})
    sure = dataclasses.replace(model, linear_alone=LinearAlone(0.0, 2.0, (0.1,)))
    write_checkpoint(tmp_path / "model.keras", sure)
    texts = ["superb film", "dreadful", "not the film", "the superb"]
    (tmp_path / "more.csv").write_text("text,label\n" + "".join(f"{text},pos\n" for text in texts))

    def figures(*options: str) -> tuple[float, list[float], list[float]]:
        scored = mha("evaluate", "model.keras", "--data", "more.csv", "--json", *options).json
        answered = mha("predict", "-c", "model.keras", "--json", *options, stdin="".join(f"{text}\n" for text in texts)).lines
        probabilities = [json.loads(line)["probabilities"]["pos"] for line in answered]
        return scored["encoded_share"], [scored["loss"]], probabilities

    for share, checkpoint, options in ((0.0, sure, ()), (1.0, model, ("--always-encode",))):
        expected = [prediction.probabilities["pos"] for prediction in Classifier(checkpoint).predict(texts)]
        found_share, loss, probabilities = figures(*options)
        assert found_share == share
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
        np.testing.assert_allclose(loss, [-np.log(expected).mean()], atol=1e-5)
    shown = mha("evaluate", "model.keras", "--data", "more.csv").stdout
    assert "read by the encoder" in shown
    assert "read by the encoder 0.0% of the texts" in " ".join(shown.replace("│", " ").split())
    assert "read by" not in mha("evaluate", "model.keras", "--data", "more.csv", "--always-encode").stdout
