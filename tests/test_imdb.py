"""The main job on the real reviews: train a small model, score it, and pipe the test split through `mha predict`."""

import json
import os
from pathlib import Path

import pytest

from mha_cli.runs import PACKAGED
from tests.cli.command import CONFIGS, run_mha, set_all

DATA = os.environ.get("TFDS_DATA_DIR", "")

pytestmark = [pytest.mark.imdb, pytest.mark.skipif(not DATA, reason="needs the real IMDB set (TFDS_DATA_DIR)")]

SMALL = (
    "data.train_split=train[:4000]",
    "data.test_split=test[:2000]",
    "text.sequence_length=128",
    "model.ngram_buckets=32768",
    "linear.buckets=262144",
    "model.embed_dim=32",
    "training.epochs=1",
    "training.learning_rate=0.004",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imdb")
    arguments = ("train", "--config", CONFIGS / "imdb.yaml", *set_all(*SMALL), "--output", "run")
    run_mha(*arguments, cwd=folder, env={"TFDS_DATA_DIR": DATA}).well()
    return folder


def test_evaluate_and_piped_predictions_agree(trained: Path) -> None:
    import tensorflow_datasets as tfds

    evaluation = run_mha("evaluate", "run/checkpoint.keras", "--json", cwd=trained, env={"TFDS_DATA_DIR": DATA}).well().json
    assert evaluation["num_texts"] == 2_000
    assert evaluation["accuracy"] > 0.8

    reviews = list(tfds.as_numpy(tfds.load("imdb_reviews", split="test[:2000]", data_dir=DATA, download=False)))
    assert not any(b"\n" in review["text"] for review in reviews)  # one review per line
    stdin = b"\n".join(review["text"] for review in reviews)
    piped = run_mha("predict", "--json", "--checkpoint", "run/checkpoint.keras", cwd=trained, stdin=stdin).well()
    predictions = [json.loads(line) for line in piped.lines]
    assert [prediction["id"] for prediction in predictions] == list(range(1, 2_001))
    right = sum(prediction["label"] == ("neg", "pos")[review["label"]] for prediction, review in zip(predictions, reviews, strict=True))
    assert right / 2_000 == pytest.approx(evaluation["accuracy"], abs=1e-4)


def test_the_packaged_model_is_as_good_as_its_card_says(tmp_path: Path) -> None:
    scored = run_mha("evaluate", PACKAGED, "--data", "tfds:imdb_reviews", "--json", cwd=tmp_path, env={"TFDS_DATA_DIR": DATA}).well()
    card = (CONFIGS.parent / "docs" / "model-card.md").read_text()
    accuracy = scored.json["accuracy"]
    assert f"**{100 * accuracy:.2f} %**" in card
