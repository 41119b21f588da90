import random
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests import checkpoints
from tests.checkpoints import WORDS, small_checkpoint
from tests.cli.command import Mha, has_control_characters, refusal

CLASSES = ("neg", "pos", "so-so")
OPTIMISTIC = "the model was trained on a file of that name; if these are the same texts, the figures are optimistic"


def write_run(folder: Path, name: str, weights: int, own: bool = True, classes: tuple[str, ...] = CLASSES, **settings: Any) -> str:
    """A run on reviews.csv with random weights; its path."""
    data = {"source": "files", "train": "reviews.csv", "test": "reviews.csv", "label_column": "kind"}
    checkpoints.write_run(folder / name, small_checkpoint(classes, seed=weights), own, **{"data": data, **settings})
    return name


@pytest.fixture(autouse=True)
def reviews(tmp_path: Path) -> None:
    draw = random.Random(5)
    rows = [f'"{" ".join(draw.choices(WORDS, k=7))} {number}",{CLASSES[number % 3]}' for number in range(47)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,kind", *rows]))


def test_a_table_a_model_and_a_picture(mha: Mha, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, seed) for seed, name in enumerate(("runs/a", "runs/b", "old/a"))]
    result = mha("compare", *runs, "--plot", "order.SVG")
    assert (result.code, result.stderr) == (0, f"reviews.csv, split test: {OPTIMISTIC}\n")
    assert not has_control_characters(result.stdout)
    for words in ("reviews.csv, split test, 47 texts", "runs/b against runs/a", "old/a against runs/a", "corrected for 2 comparisons"):
        assert words in result.stdout
    assert xml.etree.ElementTree.parse(tmp_path / "order.SVG").getroot().tag.endswith("svg")


def test_the_same_seed_the_same_json(mha: Mha, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, seed) for seed, name in enumerate(("runs/a", "runs/b"))]
    first, again, other = (mha("compare", *runs, "--json", *seed).json for seed in ([], ["--seed", "0"], ["--seed", "1"]))
    assert first == again != other
    assert [model["name"] for model in first["models"]] == ["runs/a", "runs/b"]
    assert all(model.keys() == {"name", "accuracy", "accuracy_interval", "macro_f1", "loss"} for model in first["models"])
    (one,) = first["differences"]
    texts = {"only_this_right", "only_first_right", "same_answers"}
    assert one.keys() == {"name", "accuracy", "accuracy_interval", "macro_f1", "macro_f1_interval", "p_value", "verdict"} | texts
    assert one["accuracy"] == pytest.approx(first["models"][1]["accuracy"] - first["models"][0]["accuracy"])
    assert 47 * one["accuracy"] == pytest.approx(one["only_this_right"] - one["only_first_right"])


def test_the_first_says_which_texts(mha: Mha, tmp_path: Path) -> None:
    own = write_run(tmp_path, "runs/own", 0)
    secret = {"source": "files", "train": "secret.csv", "test": "secret.csv"}
    elsewhere = write_run(tmp_path, "elsewhere", 1, own=False, data=secret)
    assert mha("compare", own, elsewhere, "--json").json["data"] == "reviews.csv"
    assert "no config.yaml beside it agrees" in refusal(mha("compare", elsewhere, own))
    named = ("--data", "reviews.csv", "--label-column", "kind")
    assert mha("compare", elsewhere, own, *named, "--json").json["num_texts"] == 47


def test_validation_parts_have_to_be_the_same(mha: Mha, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, 0, seed=seed) for name, seed in (("runs/a", 3), ("runs/b", 3), ("runs/c", 4))]
    result = mha("compare", *runs[:2], "--split", "validation", "--json").json
    assert (result["split"], result["num_texts"]) == ("validation", 5)
    assert result["differences"][0]["verdict"] == "right on the very same texts as runs/a"
    message = "runs/c/checkpoint.keras: holds out other texts in training than runs/a/checkpoint.keras; say with --split which to take"
    assert refusal(mha("compare", *runs, "--split", "validation")) == message


def test_other_classes_are_refused_before_any_text_is_read(mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").unlink()
    first = write_run(tmp_path, "runs/a", 0)
    for name, classes, shown in (("runs/b", ("no", "pos"), "neg, no, so-so"), ("c", ("x", "y"), "neg, pos, so-so, x, y")):
        said = refusal(mha("compare", first, write_run(tmp_path, name, 0, classes=classes)))
        other = "runs/a/checkpoint.keras"
        assert said == f"{name}/checkpoint.keras: has other classes than {other}: {shown}; take models of the same classes"
