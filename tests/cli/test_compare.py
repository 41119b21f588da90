from __future__ import annotations

import dataclasses
import json
import random
import shutil
import xml.etree.ElementTree
from typing import TYPE_CHECKING, Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.config.loading import config_from_dict, config_to_dict, config_to_yaml
from mha_cli.plots.figures import end_of
from tests.checkpoints import WORDS, small_checkpoint
from tests.cli.command import Result, has_control_characters, refusal, run_here, tree
from tests.documentation import fits, text_block

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.command import Run

    Compare = Callable[..., Result]

MODEL = {"name", "accuracy", "accuracy_interval", "macro_f1", "loss"}
DIFFERENCE = {
    "name",
    "accuracy",
    "accuracy_interval",
    "macro_f1",
    "macro_f1_interval",
    "only_this_right",
    "only_first_right",
    "same_answers",
    "p_value",
    "verdict",
}
CLASSES = ("neg", "pos", "so-so")


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """``mha compare ARGS`` in this process, which has TensorFlow already."""
    return lambda *args: run_here("compare", *args, cwd=tmp_path, monkeypatch=monkeypatch)


def write_run(folder: Path, name: str, weights: int, own: bool = True, classes: tuple[str, ...] = CLASSES, **settings: Any) -> str:
    """A run of one's own on reviews.csv with random weights, or one from elsewhere; its path."""
    checkpoint = small_checkpoint(classes, seed=weights)
    data = {"source": "files", "train": "reviews.csv", "test": "reviews.csv", "label_column": "kind"}
    config = config_from_dict({**config_to_dict(checkpoint.config), "data": data, **settings}, "test")
    (folder / name).mkdir(parents=True)
    write_checkpoint(folder / name / "checkpoint.keras", dataclasses.replace(checkpoint, config=config))
    if own:
        (folder / name / "config.yaml").write_text(config_to_yaml(config))
    return name


@pytest.fixture
def reviews(tmp_path: Path) -> None:
    draw = random.Random(5)
    rows = [f'"{" ".join(draw.choices(WORDS, k=7))} {number}",{CLASSES[number % 3]}' for number in range(47)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,kind", *rows]))


@pytest.mark.usefixtures("untraced", "reviews")
def test_a_table_a_model_and_a_picture(compare: Compare, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, seed) for seed, name in enumerate(("runs/a", "runs/b", "old/a"))]
    result = compare(*runs, "--plot", "order.SVG")
    assert result.code == 0
    assert result.stderr == (
        "reviews.csv, split test: the model was trained on a file of that name; if these are the same texts, the figures are optimistic\n"
    )
    assert not has_control_characters(result.stdout)
    assert "reviews.csv, split test, 47 texts" in result.stdout
    for name in ("runs/b against runs/a", "old/a against runs/a"):
        assert name in result.stdout
    assert "corrected for 2 comparisons" in result.stdout
    assert xml.etree.ElementTree.parse(tmp_path / "order.SVG").getroot().tag.endswith("svg")


@pytest.mark.usefixtures("untraced", "reviews")
def test_the_same_seed_the_same_json(compare: Compare, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, seed) for seed, name in enumerate(("runs/a", "runs/b"))]
    first, again, other = (json.loads(compare(*runs, "--json", *seed).stdout) for seed in ([], ["--seed", "0"], ["--seed", "1"]))
    assert first == again
    assert first != other
    assert [model["name"] for model in first["models"]] == ["runs/a", "runs/b"]
    assert all(model.keys() == MODEL for model in first["models"])
    (one,) = first["differences"]
    assert one.keys() == DIFFERENCE
    assert one["accuracy"] == pytest.approx(first["models"][1]["accuracy"] - first["models"][0]["accuracy"])
    assert 47 * one["accuracy"] == pytest.approx(one["only_this_right"] - one["only_first_right"])
    swapped = json.loads(compare(*reversed(runs), "--json").stdout)["differences"][0]
    assert (swapped["accuracy"], swapped["p_value"]) == (pytest.approx(-one["accuracy"]), one["p_value"])


@pytest.mark.usefixtures("untraced", "reviews")
def test_the_first_says_which_texts(compare: Compare, tmp_path: Path) -> None:
    own = write_run(tmp_path, "runs/own", 0)
    secret = {"source": "files", "train": "secret.csv", "test": "secret.csv"}
    elsewhere = write_run(tmp_path, "elsewhere", 1, own=False, data=secret)
    assert json.loads(compare(own, elsewhere, "--json").stdout)["data"] == "reviews.csv"
    message = refusal(compare(elsewhere, own))
    assert message.startswith("elsewhere/checkpoint.keras: no config.yaml beside it agrees, so the data that it names is left alone")
    assert message.endswith("; say with --data what to read")
    columns = ("--label-column", "kind")
    assert json.loads(compare(elsewhere, own, "--data", "reviews.csv", *columns, "--json").stdout)["num_texts"] == 47


@pytest.mark.usefixtures("untraced", "reviews")
def test_validation_parts_have_to_be_the_same(compare: Compare, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, 0, seed=seed) for name, seed in (("runs/a", 3), ("runs/b", 3), ("runs/c", 4))]
    result = json.loads(compare(*runs[:2], "--split", "validation", "--json").stdout)
    assert (result["split"], result["num_texts"]) == ("validation", 5)
    assert result["differences"][0]["verdict"] == "right on the very same texts as runs/a"
    message = "runs/c/checkpoint.keras: holds out other texts in training than runs/a/checkpoint.keras; say with --split which to take"
    assert refusal(compare(*runs, "--split", "validation")) == message


@pytest.mark.process
def test_a_model_without_positions_is_less_accurate(
    compare: Compare, compared: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(compared.cwd / "both", tmp_path / "runs")
    runs = ["runs/with-positions", "runs/without-positions"]
    before = tree(tmp_path)
    result = json.loads(compare(*runs, "--json").stdout)
    assert tree(tmp_path) == before
    for run, model in zip(runs, result["models"], strict=True):
        alone = json.loads(run_here("evaluate", run, "--json", cwd=tmp_path, monkeypatch=monkeypatch).stdout)
        assert {name: alone[name] for name in MODEL - {"name"}} == {name: pytest.approx(model[name]) for name in MODEL - {"name"}}
    (one,) = result["differences"]
    assert one["accuracy_interval"][0] < one["accuracy"] < one["accuracy_interval"][1] < 0
    assert one["verdict"] == "less accurate than runs/with-positions, hardly by chance"
    assert fits(compare(*runs).stdout, text_block("compare.md", "mha compare runs/with-positions runs/without-positions"))


# Bad input


def test_other_classes_are_refused_before_any_text_is_read(compare: Compare, tmp_path: Path) -> None:
    first = write_run(tmp_path, "runs/a", 0)  # there is no reviews.csv
    fewer, more = (
        write_run(tmp_path, name, 0, classes=classes) for name, classes in (("runs/b", ("no", *CLASSES[1:])), ("c", (*CLASSES, "x")))
    )
    names = [f"{name}/checkpoint.keras" for name in (first, fewer, more)]
    way_out = "compare models of the same classes"
    assert refusal(compare(first, fewer)) == f"{names[1]}: has other classes than {names[0]}: neg, no; {way_out}"
    assert refusal(compare(first, more)) == f"{names[2]}: has other classes than {names[0]}: x; {way_out}"


def test_n_gram_scores_that_have_learnt_from_the_validation_part(compare: Compare, tmp_path: Path, reviews: None) -> None:
    text, model = {"vocabulary_size": 29, "sequence_length": 13}, {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17}
    scores = {"score_ngrams": 1, "score_buckets": 8}
    path = tmp_path / "runs" / "a"
    path.mkdir(parents=True)
    checkpoint = small_checkpoint(CLASSES, **scores)
    data = {"source": "files", "train": "reviews.csv", "label_column": "kind"}
    config = config_from_dict({"data": data, "text": text, "model": model | scores, "training": {"refit_scores": True}}, "test")
    for name in ("a", "b"):
        (path.parent / name).mkdir(exist_ok=True)
        write_checkpoint(path.parent / name / "checkpoint.keras", dataclasses.replace(checkpoint, config=config))
        (path.parent / name / "config.yaml").write_text(config_to_yaml(config))
    assert read_checkpoint(path / "checkpoint.keras").config.training.refit_scores
    message = refusal(compare("runs/a", "runs/b", "--split", "validation"))
    assert message.startswith("reviews.csv, validation part: the n-gram scores have learnt from it in the end (training.refit_scores)")


def test_models_in_one_folder_have_names_of_their_own_in_a_picture() -> None:
    names = [f"/data/experiments/2026-05/imdb/run-{letter}" for letter in "ab"]
    assert [end_of(name) for name in names] == ["…xperiments/2026-05/imdb/run-a", "…xperiments/2026-05/imdb/run-b"]
    assert (len(end_of(names[0])), end_of("runs/$a")) == (30, r"runs/\$a")
