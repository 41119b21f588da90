"""mha in Python: the same code as the commands, for texts that a program holds."""

import json
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mha_cli as mha
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config import settings
from mha_cli.config.loading import section_of
from mha_cli.config.settings import LinearConfig
from mha_cli.runs import PACKAGED
from mha_cli.sources.sample import SampleTexts
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import run_here

REVIEWS = list(SampleTexts(settings.SampleData(num_texts=300)).read("train"))
TEXTS, LABELS = [review.text for review in REVIEWS], [review.label for review in REVIEWS]
SMALL: dict[str, Any] = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8, "epochs": 2}


@pytest.fixture(scope="module")
def trained(trained_in_numpy: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[mha.Classifier, Path, list[str]]:
    """A classifier, its run directory, and what was said while it was trained."""
    folder, lines = tmp_path_factory.mktemp("api") / "run", list[str]()
    return mha.train("text", TEXTS, LABELS, output=folder, log=lines.append, **SMALL), folder, lines


def test_all_names_are_there_and_nothing_else() -> None:
    assert sorted(set(dir(mha))) == mha.__all__
    assert all(hasattr(mha, name) for name in mha.__all__)
    with pytest.raises(AttributeError, match="module 'mha_cli' has no attribute 'lode'"):
        mha.lode  # noqa: B018


def test_answers_come_without_tensorflow_and_the_import_without_numpy() -> None:
    program = """
import sys
import mha_cli as mha
assert "numpy" not in sys.modules
answer, = mha.load().predict(["A superb film."])
assert not {"tensorflow", "keras", "sklearn", "typer"} & sys.modules.keys(), sys.modules.keys()
print(answer.label, round(answer.probability, 4))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pos 0.9")


def test_load_takes_what_predict_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small_checkpoint_file(tmp_path / "model.keras")
    texts = ["the film was superb", "", "xyzzy"]
    shown = run_here("predict", "-c", path, "--json", *texts, cwd=tmp_path)
    monkeypatch.setenv("MHA_CHECKPOINT", str(path))
    for model in (mha.load(path), mha.load(str(path)), mha.load()):
        assert model.classes == ("neg", "pos")
        for prediction, line in zip(model.predict(texts), map(json.loads, shown.lines), strict=True):
            assert (prediction.label, prediction.empty, prediction.all_unknown) == (line["label"], line["empty"], line["all_unknown"])
            assert prediction.probabilities == pytest.approx(line["probabilities"], abs=1e-6)
    assert model.predict([]) == []
    assert [prediction.text for prediction in model.predict(text for text in texts)] == texts


class Frame:
    """A table as pandas has it: iterating over it gives the names of its columns."""

    columns = property(iter)

    def __iter__(self) -> Iterator[str]:
        return iter(("text", "label"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("the film", "a single text where several are wanted; give a list of texts, such as [text]"),
        (["the film", None], "texts[1] is None; give texts as strings"),
        (Frame(), 'texts are of type Frame; give a list, or a column of a table, such as frame["text"]'),
        ({"text": TEXTS}, 'texts are of type dict; give a list, or a column of a table, such as frame["text"]'),
        (None, 'texts are of type NoneType; give a list, or a column of a table, such as frame["text"]'),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts: Any, message: str) -> None:
    model = mha.load(PACKAGED)
    for call in (lambda: model.predict(texts), lambda: mha.evaluate(model, texts, [0, 1]), lambda: mha.train("text", texts, [0, 1])):
        with pytest.raises(mha.MhaError, match=f"^{re.escape(message)}$"):
            call()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("xy", "a single label where several are wanted; give a list of labels, such as [label]"),
        (Frame(), 'labels are of type Frame; give a list, or a column of a table, such as frame["label"]'),
        ([0, 1, 2], "2 texts and 3 labels; give a label for every text"),
        (["x", ["x", {"y": 1}]], "labels[1]: the label is an object; give every text a class"),
    ],
)
def test_what_is_no_list_of_labels_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(mha.MhaError, match=f"^{re.escape(message)}"):
        mha.train("text", ["a", "b"], labels)
    with pytest.raises(mha.MhaError, match=r"^the given texts: no texts"):
        mha.train("text", [], [])


def test_training_and_figures_are_those_of_the_commands(trained: tuple[mha.Classifier, Path, list[str]], tmp_path: Path) -> None:
    model, folder, lines = trained
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": one.text, "label": one.label}) + "\n" for one in REVIEWS))
    given = [part for name, value in SMALL.items() for part in ("--set", f"{section_of(name)}.{name}={value}")]
    command = ("train", "--config", "text", "--set", "data.train=texts.jsonl", *given, "-o", "run")
    done = run_here(*command, cwd=tmp_path).well()
    theirs, ours = read_checkpoint(tmp_path / "run" / "checkpoint.keras"), read_checkpoint(folder / "checkpoint.keras")
    assert ours.config.model_copy(update={"data": None}) == theirs.config.model_copy(update={"data": None})
    assert ours.weights.keys() == theirs.weights.keys()
    for name, weight in ours.weights.items():
        np.testing.assert_array_equal(weight, theirs.weights[name])
        np.testing.assert_array_equal(weight, model.checkpoint.weights[name])
    assert sum(line.startswith("epoch ") for line in lines) == 2
    assert any(line.startswith("300 texts in 2 classes; ") for line in lines)

    told = run_here("evaluate", folder, "--data", "texts.jsonl", "--json", cwd=tmp_path).well()
    found, shown = mha.evaluate(model, TEXTS, LABELS), told.json
    assert (found.accuracy, found.confusion, found.num_texts) == (shown["accuracy"], shown["confusion"], 300)
    with pytest.raises(mha.MhaError, match=r"^labels\[0\]: the class is 'dull'; the model knows "):
        mha.evaluate(model, ["a"], ["dull"])

    message = "error: the texts were given by a Python program, which alone has them; name others, with --data or in the config\n"
    for command in (("evaluate", folder), ("train", "--config", folder / "config.yaml")):
        done = run_here(*command, cwd=tmp_path)
        assert (done.code, done.stderr) == (2, message)


@pytest.mark.usefixtures("trained_in_numpy")
def test_nothing_is_left_behind_where_no_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"data": {"source": "sample", "validation_share": 0.2}, "training": {"epochs": 1}, "model": {"embed_dim": 4, "num_heads": 1}}
    given = {"batch_size": np.int64(8), "vocabulary_size": 50, "linear": {"max_ngram": np.int64(1), "buckets": 64}}
    model = mha.train(config, TEXTS[:60], [label == "pos" for label in LABELS[:60]], **given)
    assert model.classes == ("False", "True")
    assert model.checkpoint.config.data.validation_share == 0.2
    assert model.checkpoint.config.linear == LinearConfig(max_ngram=1, buckets=64)
    assert len(model.checkpoint.vocabulary) <= 50
    assert repr(model).startswith("<Classifier in memory: ")
    assert list(tmp_path.iterdir()) == []
    model.save("mine.keras")
    assert mha.load("mine.keras").predict(TEXTS[:3]) == model.predict(TEXTS[:3])
    assert pickle.loads(pickle.dumps(model)).predict(TEXTS[:3]) == model.predict(TEXTS[:3])


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        ("tetx", {}, r"tetx: no such recipe; choose from "),
        ("text", {"epoch": 3}, r"epoch is not a setting; did you mean epochs\?"),
        ("text", {"epochs": 0}, r"^text: training\.epochs is 0; it should be greater than or equal to 1"),
        ({"model": {"num_head": 3}}, {}, r"config: model\.num_head is not a setting; did you mean num_heads\?"),
        ("text", {"train": "x.csv"}, r"train is not a setting"),
        ({"model": 5}, {"embed_dim": 8}, r"config: model is 5, not a section of settings"),
        ({"data": 5}, {}, r"config: data is 5, not a section of settings"),
    ],
)
def test_a_setting_that_is_none(config: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(mha.MhaError, match=message):
        mha.train(config, TEXTS, LABELS, **given)


@pytest.mark.usefixtures("trained_in_numpy")
def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    texts, labels = ([f"{word} caf\udce9" for word in words[:60]] for words in (TEXTS, LABELS))
    model = mha.train("text", texts, labels, output=tmp_path / "run", **SMALL | {"epochs": 1})
    assert model.classes == ("neg caf\ufffd", "pos caf\ufffd")
    assert mha.load(tmp_path / "run").predict(["superb caf\udce9"]) == model.predict(["superb caf\udce9"])


ROOTS = {"bad": ("langweilig", "furchtbar", "schrecklich"), "good": ("glanzvoll", "herrlich", "wunderbar")}


@pytest.mark.usefixtures("trained_in_numpy")
def test_an_unknown_word_is_read_by_its_characters() -> None:
    """The model has never seen the words: some have endings of their own, the others are misspelt."""
    rng, labels = random.Random(0), ["bad", "good"] * 20
    texts = [f"Der Film war {rng.choice(ROOTS[label])}{rng.choice(('', 'e', 'er', 'es', 'en'))}" for label in labels]
    model = mha.train("text", texts, labels, **SMALL)
    words = {"herrlichstes": "good", "herlich": "good", "langweiligste": "bad", "langweillig": "bad"}
    answers = model.predict(f"Der Film war {word}" for word in words)
    assert [answer.label for answer in answers] == [*words.values()]
    assert all(answer.num_unknown == 1 for answer in answers)
    assert len({answer.probability for answer in answers}) == 4


def test_no_two_settings_have_one_name() -> None:
    sections = (settings.Config, settings.DataSettings, settings.TextConfig, settings.ModelConfig, settings.TrainingConfig)
    names = [name for section in sections for name in section.model_fields]
    assert len(names) == len(set(names))
