import os
import shutil
import socket
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mha_cli.config.settings import TfdsData
from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, printable
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.tfds import TfdsTexts
from tests.errors import error_of as one_error

CATALOGUE = "https://www.tensorflow.org/datasets/catalog/overview"
OR_DAMAGED = f"for names and versions see {CATALOGUE}, or remove the set's folder if it is damaged"
SIZES = {"extra": 5, "test": 7, "train": 523}  # two batches and a part of a third
CLASSES = ["neg", "pos", "mixed"]


@pytest.fixture(autouse=True)
def _no_network_and_no_set_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    for name in ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy"]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def made_builder() -> Any:
    """The class of a set that TFDS knows and prepares without a download; ``fails`` makes it fail halfway.

    It has three splits, the last without labels; the third review of each is not UTF-8.
    """
    import numpy as np
    import tensorflow_datasets as tfds

    class MadeReviews(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        fails = ""

        def _info(self) -> Any:
            features = {
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=CLASSES),
                "stars": np.int64,
                "partly": tfds.features.ClassLabel(num_classes=2),
                "tags": tfds.features.Sequence(tfds.features.Text()),
            }
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True)

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {split: self._generate_examples(split) for split in SIZES}

        def _generate_examples(self, split: str) -> Any:
            for number in range(SIZES[split]):
                text = b"caf\xe9 \0 \xe2\x98\x83" if number == 2 else f"{split} {number}".encode()
                label = -1 if split == "extra" else number % 3
                yield number, {"text": text, "label": label, "stars": 5, "partly": -1 if number == 4 else 1, "tags": [text]}
            if self.fails:
                raise RuntimeError(self.fails)

    return MadeReviews


@pytest.fixture(scope="module")
def tiny_dir(made_builder: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the same set under a name that TFDS does not know."""
    folder = tmp_path_factory.mktemp("tfds")
    made_builder(data_dir=folder).download_and_prepare()
    (folder / "made_reviews").rename(folder / "tiny_reviews")
    return folder


def source(
    name: str = "tiny_reviews", data_dir: Path | str = "", told: Callable[[str], None] = lambda _: None, **values: object
) -> TfdsTexts:
    with pytest.MonkeyPatch.context() as patch:
        if data_dir:
            patch.setenv("TFDS_DATA_DIR", str(data_dir))
        return TfdsTexts(TfdsData.model_validate({"source": "tfds", "name": name, **values}), told)


def pairs(texts: Any) -> list[tuple[str, str]]:
    return [(one.text, one.label) for one in texts]


def error_of(name: str = "tiny_reviews", exit_code: int = EXIT_USAGE, **values: object) -> str:
    return one_error(lambda: source(name, **values), exit_code=exit_code)


# Reading


def test_reviews_of_a_prepared_set(tiny_dir: Path) -> None:
    told: list[str] = []
    texts = source(data_dir=tiny_dir, told=told.append)
    assert (texts.name, texts.splits, texts.class_names) == ("tiny_reviews", ("train", "test", "extra"), tuple(CLASSES))
    expected = [(f"train {number}", CLASSES[number % 3]) for number in range(SIZES["train"])]
    expected[2] = ("caf\ufffd \0 ☃", "mixed")
    assert pairs(texts.read("train")) == expected == pairs(texts.read("train"))
    assert [(one.label, one.file, one.line) for one in islice(texts.read("test"), 2)] == [
        ("neg", "tiny_reviews, split test", 1),
        ("pos", "tiny_reviews, split test", 2),
    ]
    assert told == []
    merged = source(data_dir=tiny_dir, merge_labels={"mixed": "neg"})
    assert merged.class_names == tuple(name for name in CLASSES if name != "mixed")
    assert pairs(merged.read("train")) == [(text, label.replace("mixed", "neg")) for text, label in expected]


def test_splits_are_those_of_the_config_first(tiny_dir: Path) -> None:
    texts = source(data_dir=tiny_dir, train_split="test", test_split="train[90%:]")
    assert texts.splits == ("test", "train[90%:]", "extra", "train")
    assert [one.text for one in texts.read("train[90%:]")] == [f"train {number}" for number in range(471, SIZES["train"])]
    assert len(list(texts.read("train+test"))) == SIZES["train"] + SIZES["test"]


def test_unlabelled_texts_are_those_of_the_named_split(tiny_dir: Path) -> None:
    texts = source(data_dir=tiny_dir, unlabelled_split="extra").unlabelled()
    assert list(texts or ()) == ["extra 0", "extra 1", "caf\ufffd \0 ☃", "extra 3", "extra 4"]
    assert source(data_dir=tiny_dir).unlabelled() is None


@pytest.mark.parametrize(("split", "label_key", "number"), [("extra", "label", 1), ("test", "partly", 5)])
def test_a_text_without_a_label(split: str, label_key: str, number: int, tiny_dir: Path) -> None:
    found: list[LabelledText] = []
    error = one_error(found.extend, source(data_dir=tiny_dir, label_key=label_key).read(split))
    assert error == f"tiny_reviews: text {number} of the split {split} has no label; choose a split with labels"
    assert len(found) == number - 1


def test_the_data_folder_of_the_environment_at_the_time(tiny_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(tiny_dir))
    assert source().splits
    monkeypatch.setenv("TFDS_DATA_DIR", "")
    os.symlink(tiny_dir, tmp_path / "tensorflow_datasets")
    for texts in (source(), source(data_dir="~/tensorflow_datasets"), source("tiny_reviews:1.*.*")):
        assert texts.splits


# What the config gets wrong


NOT_IN = "neither in the TFDS catalogue nor in {folder}"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"train_split": "trian"}, 'tiny_reviews has no split "trian" (data.train_split); did you mean train?'),
        ({"unlabelled_split": "x"}, 'tiny_reviews has no split "x" (data.unlabelled_split); choose from extra, test, train'),
        ({"label_key": "\x1b"}, 'tiny_reviews: no feature "\\x1b" that is a class label (data.label_key); choose from label, partly'),
        ({"label_key": "stars"}, 'tiny_reviews: no feature "stars" that is a class label (data.label_key); choose from label, partly'),
        # Features of a set of the catalogue are checked before the download.
        ({"name": "glue"}, 'glue: no feature "text" that is a text (data.text_key); choose from sentence'),
        ({"name": "imdb_revews"}, f'data.name is "imdb_revews": {NOT_IN}; did you mean imdb_reviews?'),
        ({"name": "zzzzzzzz"}, f'data.name is "zzzzzzzz": {NOT_IN}; for the names see {CATALOGUE}'),
        (
            {"name": "imdb_reviews:9.9.9"},
            f'data.name is "imdb_reviews:9.9.9": Dataset imdb_reviews cannot be loaded at version 9.9.9, only: 1.0.0; {OR_DAMAGED}',
        ),
        *(
            (
                {"name": name},
                f'data.name is "{printable(name)}", not the name of a TFDS set; '
                f"write NAME, NAME/CONFIG or NAME/CONFIG:VERSION; for the names see {CATALOGUE}",
            )
            for name in ("huggingface:imdb", "../imdb", "imdb_reviews/plain_text/data_dir=x", "ïmdb", "a\x1b")
        ),
    ],
)
def test_names_splits_and_features_that_are_not_there(tiny_dir: Path, values: dict[str, Any], expected: str) -> None:
    assert error_of(data_dir=tiny_dir, **values) == expected.format(folder=tiny_dir)


def test_data_folder_that_is_not_there(tmp_path: Path) -> None:
    hint = "create it, or name the one that holds your TFDS sets"
    (tmp_path / "file").touch()
    for folder in ("none", "file"):
        assert error_of(data_dir=f"{tmp_path}/{folder}") == f"TFDS_DATA_DIR: {tmp_path}/{folder}: no such folder; {hint}"


# Damage


@pytest.fixture
def copied(tiny_dir: Path, tmp_path: Path) -> Path:
    """The folder of a version, to be damaged."""
    shutil.copytree(tiny_dir, tmp_path / "copy")
    return tmp_path / "copy" / "tiny_reviews/1.0.0"


def test_files_that_cannot_be_read(copied: Path) -> None:
    (records,) = copied.glob("*-test.tfrecord*")
    texts = source(data_dir=copied.parents[1])
    records.write_bytes(b"")
    for expected in ("Input dataset was expected to contain 7 elements but contained only 0 elements.", "No such file or directory"):
        message = one_error(list, texts.read("test"), exit_code=EXIT_FAILURE)
        assert message.startswith("tiny_reviews: the split test cannot be read: ")
        assert expected in message
        assert "{{" not in message and "[Op" not in message
        assert message.endswith(f"; remove {copied}, and fetch or copy the set again")
        records.unlink(missing_ok=True)


def test_a_folder_that_names_a_module_imports_nothing(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = copied / "features.json"
    path.write_text(path.read_text().replace("tensorflow_datasets.core.features.text_feature.Text", "somebodys_module.Text"))
    found = "its features.json names somebodys_module.Text, which is none of TFDS's features"
    assert error_of(data_dir=copied.parents[1]) == f'data.name is "tiny_reviews": {found}; {OR_DAMAGED}'


def test_a_set_that_is_not_whole(copied: Path, tmp_path: Path) -> None:
    (copied / "dataset_info.json").write_text("{")
    assert error_of(data_dir=copied.parents[1]).startswith('data.name is "tiny_reviews": Failed to load JSON: ')
    half = tmp_path / "imdb_reviews" / "plain_text" / "1.0.0"
    half.mkdir(parents=True)
    expected = f'imdb_reviews has no split "train" (data.train_split); remove {half}, and fetch or copy the set again'
    assert error_of("imdb_reviews", data_dir=tmp_path) == expected


# Preparing


def test_no_network_fails_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert error_of("imdb_reviews", EXIT_FAILURE, data_dir=tmp_path / "data") == (
        f"imdb_reviews cannot be downloaded to {tmp_path}/data: <urlopen error [Errno -2] Name or service not known>; "
        "on a machine with network run `python -c \"import tensorflow_datasets as tfds; tfds.load('imdb_reviews')\"`, "
        "copy its folder ~/tensorflow_datasets here, and set TFDS_DATA_DIR to the copy"
    )
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.usefixtures("made_builder")
def test_a_set_is_prepared_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    first, second = (pairs(source("made_reviews", tmp_path, told.append).read("test")) for _ in range(2))
    assert first == second
    assert told == [f"downloading made_reviews to {tmp_path}"]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "made_reviews" in captured.err


def test_a_failure_halfway_can_be_tried_again(made_builder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_builder, "fails", "the line\nbroke\x1b")
    message = error_of("made_reviews", EXIT_FAILURE, data_dir=tmp_path)
    assert message.startswith(f"made_reviews cannot be downloaded to {tmp_path}: the line; on a machine with network run ")
    monkeypatch.setattr(made_builder, "fails", "")
    assert source("made_reviews", data_dir=tmp_path).splits
