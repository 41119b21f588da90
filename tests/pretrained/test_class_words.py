"""Classes in words, with a tiny encoder whose features mean little: what counts is what is learnt from, and what is said."""

import csv
from pathlib import Path

import keras
import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.preparation.class_texts import WORTH
from mha_cli.preparation.prepare import prepare
from mha_cli.runtime.encoder_features import EncoderFeatures
from mha_cli.training.frozen import FrozenEncoder
from tests.cli.command import Mha, refusal, set_all
from tests.pretrained.tiny import tiny_folder

TEXTS = [f"{word} {word} {word} {number}" for number in range(30) for word in ("dreadful", "superb")]
BAD, GOOD, GREAT = "dreadful dreadful dreadful 1", "superb superb superb 1", "superb superb superb 2"
CLASSES = {"bad": BAD, "good": [GOOD, GREAT]}
TRAIN = ("train", "--config", "pretrained", "--set", "model.pretrained=encoder")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A folder with an encoder, texts with and without labels, and classes in words."""
    tiny_folder(tmp_path / "encoder", "bert")
    with (tmp_path / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "body"), *enumerate(TEXTS)])
    with (tmp_path / "labelled.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("body", "label"), *((text, "good" if "superb" in text else "bad") for text in TEXTS)])
    (tmp_path / "classes.yaml").write_text(f"bad: {BAD}\ngood:\n- {GOOD}\n- {GREAT}\n")
    (tmp_path / "classes.csv").write_text(f"class,words\nbad,{BAD}\ngood,{GOOD}\ngood,{GREAT}\n")
    return tmp_path


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("classes", ["classes.yaml", "classes.csv"])
def test_a_training_without_labels(mha: Mha, cwd: Path, classes: str) -> None:
    result = mha(*TRAIN, "--set", "data.unlabelled=texts.csv", "--classes", classes).well()
    shown = " ".join((result.stdout + result.stderr).replace("│", " ").split())
    assert "not known: no text has a label" in shown
    assert "%" not in shown.replace("98 % up to", "")  # no accuracy of guesses about guesses
    checkpoint = read_checkpoint(cwd / "runs/texts/checkpoint.keras")
    assert checkpoint.class_names == ("bad", "good")
    assert checkpoint.metrics == {"epoch": 1.0, "guessed_texts": 60.0}
    assert checkpoint.config.data.text_column == checkpoint.text_column == "body"
    assert checkpoint.config.classes["good"] == [GOOD, GREAT]
    assert len(mha("predict", "--input", "texts.csv", "--json").well().stdout.splitlines()) == 60
    scored = mha("evaluate", "runs/texts", "--data", "labelled.csv", "--json").json
    assert scored["num_texts"] == 60
    mha("report", "runs/texts", "--data", "labelled.csv").well()
    assert "the config names no test data; give labelled texts: --data FILE" in refusal(mha("evaluate", "runs/texts"))


@pytest.mark.parametrize(
    ("settings", "classes", "expected"),
    [
        ((), "bad: dreadful\ngood:\n", "classes: no words for good; without labels, every class needs a line of words"),
        ((), "bad: dreadful\n", "classes: texts without labels need two classes in words, or more; name them with --classes FILE"),
        (("model.pretrained=null",), "bad: x\ngood: y\n", "texts without labels need a pretrained encoder; take --config pretrained"),
        (("task=multi-label",), f"bad: {BAD}\ngood: {GOOD}\n", "task=multi-label, and every text has one label"),
        ((), "{}", "classes.yaml: no class in it; write a line `name: words` for each class"),
        ((), "bad: [1]\ngood: x\n", "classes.yaml:1: the words of bad are no text; write a line, or a list of lines"),
        ((), "'': x\ngood: x\n", "classes.yaml:1: the label is empty"),
        ((), "bad:\ngood:\n", "classes: no words for bad, good"),
        (("data.test_share=0.2",), "bad: x\ngood: y\n", "data.test_share is about labels, and the texts have none without data.train"),
    ],
)
def test_what_cannot_be_learnt_without_labels(mha: Mha, cwd: Path, settings: tuple[str, ...], classes: str, expected: str) -> None:
    (cwd / "classes.yaml").write_text(classes)
    assert expected in refusal(mha(*TRAIN, *set_all("data.unlabelled=texts.csv", *settings), "--classes", "classes.yaml"))
    assert not (cwd / "runs").exists()


def test_words_are_texts_of_their_class(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cwd)
    given = {"source": "files", "train": "labelled.csv"}
    plain, taught = (
        prepare(config_from_dict({"data": given, "model": {"pretrained": "encoder"}, "classes": classes}, "test"))
        for classes in ({"bad": "", "good": []}, CLASSES)
    )
    assert plain.train.weights is None
    assert taught.num_labelled == plain.num_labelled == len(TEXTS)
    assert taught.train.labels[-3:].tolist() == [0, 1, 1]
    assert taught.train.weights is not None
    assert taught.train.weights.tolist() == [1.0] * len(plain.train) + [WORTH, WORTH / 2, WORTH / 2]
    assert len(taught.validation) == len(plain.validation)


def test_a_class_may_have_words_alone(cwd: Path) -> None:
    model = mha_cli.train(
        "pretrained", TEXTS, ["bad", "good"] * 30, classes=CLASSES | {"other": "the weather"},
        pretrained=cwd / "encoder", trainable_blocks=0,
    )  # fmt: skip
    assert model.classes == ("bad", "good", "other")
    assert model.predict([TEXTS[0]])[0].label == "bad"


def test_a_program_trains_without_labels(cwd: Path) -> None:
    model = mha_cli.train("pretrained", TEXTS, classes=CLASSES, pretrained=cwd / "encoder")
    assert model.checkpoint.metrics.keys() == {"epoch", "guessed_texts"}
    classifier = mha_cli.MHAClassifier("pretrained", classes=CLASSES, pretrained=cwd / "encoder").fit(TEXTS)
    assert classifier.predict(TEXTS).tolist() == [one.label for one in model.predict(TEXTS)]
    assert classifier.classes_.tolist() == ["bad", "good"]


def test_words_need_something_to_compare_them_by(mha: Mha, cwd: Path) -> None:
    small = ("model.embed_dim=8", "model.num_heads=2", "training.epochs=1", "data.source=files", "data.train=labelled.csv")
    result = mha("train", "--config", "sample", *set_all(*small), "--classes", "classes.yaml").well()
    assert "classes: their words are not read" in result.stderr


@pytest.mark.usefixtures("untraced")
def test_features_equal_those_of_the_layers(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cwd)
    data = prepare(config_from_dict({"data": {"source": "files", "train": "labelled.csv"}, "model": {"pretrained": "encoder"}}, "test"))
    learner, features = FrozenEncoder(data.config, data, cwd / "features"), EncoderFeatures(Path("encoder"))
    pooled = keras.Model(learner.model.input, learner.model.get_layer("pooling").output)
    tokenize = data.pretrained.piece_tokenizer(data.config.text) if data.pretrained else None
    assert tokenize
    theirs = np.concatenate([np.array(pooled(tokenize.ids(text)[None])) for text in TEXTS[:8]])
    np.testing.assert_allclose(features(TEXTS[:8]), theirs / np.linalg.norm(theirs, axis=1, keepdims=True), atol=1e-5)
