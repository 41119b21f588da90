from __future__ import annotations

import io
import os
import shutil
import socket
from collections import Counter
from email.message import Message
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest

from mha_cli.config.settings import TfdsData
from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.tfds import TfdsTexts
from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError
from tests.errors import error_of as one_error

if TYPE_CHECKING:
    from pathlib import Path
    from urllib.request import Request

CATALOGUE = "https://www.tensorflow.org/datasets/catalog/overview"
TINY_VERSION = "tiny_reviews/1.0.0"
NUM_TINY = 523  # two batches and a part of a third

needs_imdb = pytest.mark.skipif(not os.environ.get("TFDS_DATA_DIR"), reason="needs the real IMDB set (TFDS_DATA_DIR)")


@pytest.fixture(autouse=True)
def _no_network_and_no_set_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    for name in ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy"]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if request.node.get_closest_marker("imdb") is None:
        monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a set of three splits, the last without labels; its third review is not UTF-8."""
    import numpy as np
    import tensorflow_datasets as tfds

    def examples(split: str, size: int, labelled: bool = True) -> list[tuple[int, dict[str, Any]]]:
        texts = [f"{split} {number}".encode() for number in range(size)]
        texts[2] = b"caf\xe9 \0 \xe2\x98\x83"
        return [
            (
                number,
                {"text": text, "label": number % 3 if labelled else -1, "stars": 5, "partly": -1 if number == 4 else 1, "tags": [text]},
            )
            for number, text in enumerate(texts)
        ]

    folder = tmp_path_factory.mktemp("tfds")
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny_reviews",
        version="1.0.0",
        features=tfds.features.FeaturesDict(
            {
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["neg", "pos", "mixed"]),
                "stars": np.int64,
                "partly": tfds.features.ClassLabel(num_classes=2),
                "tags": tfds.features.Sequence(tfds.features.Text()),
            }
        ),
        split_datasets={"extra": examples("extra", 5, labelled=False), "test": examples("test", 7), "train": examples("train", NUM_TINY)},
        data_dir=folder,
        disable_shuffling=True,
    )
    return folder


def settings(**values: object) -> TfdsData:
    return TfdsData.model_validate({"source": "tfds", "name": "tiny_reviews", **values})


def error_of(*, exit_code: int = EXIT_USAGE, **values: object) -> str:
    return one_error(TfdsTexts, settings(**values), exit_code=exit_code)


# Reading


def test_reviews_of_a_prepared_set(tiny_dir: Path) -> None:
    told: list[str] = []
    source = TfdsTexts(settings(data_dir=str(tiny_dir)), told.append)
    assert (source.name, source.splits) == ("tiny_reviews", ("train", "test", "extra"))
    assert source.class_names == ("neg", "pos", "mixed")
    reviews = list(source.read("train"))
    expected = [LabelledText(f"train {number}", ["neg", "pos", "mixed"][number % 3]) for number in range(NUM_TINY)]
    expected[2] = LabelledText("caf\ufffd \0 ☃", "mixed")
    assert reviews == expected
    assert list(source.read("train")) == reviews
    assert [review.label for review in source.read("test")] == ["neg", "pos", "mixed"] * 2 + ["neg"]
    assert told == []


def test_splits_are_those_of_the_config_first(tiny_dir: Path) -> None:
    source = TfdsTexts(settings(data_dir=str(tiny_dir), train_split="test", test_split="train[90%:]"))
    assert source.splits == ("test", "train[90%:]", "extra", "train")
    assert [review.text for review in source.read("train[90%:]")] == [f"train {number}" for number in range(471, NUM_TINY)]
    assert len(list(source.read("train+test"))) == NUM_TINY + 7


def test_unlabelled_texts_are_those_of_the_named_split(tiny_dir: Path) -> None:
    source = TfdsTexts(settings(data_dir=str(tiny_dir), unlabelled_split="extra"))
    assert list(source.unlabelled() or ()) == ["extra 0", "extra 1", "caf\ufffd \0 ☃", "extra 3", "extra 4"]
    assert TfdsTexts(settings(data_dir=str(tiny_dir))).unlabelled() is None


@pytest.mark.parametrize(("split", "label_key", "number"), [("extra", "label", 1), ("test", "partly", 5)])
def test_a_text_without_a_label(split: str, label_key: str, number: int, tiny_dir: Path) -> None:
    texts = TfdsTexts(settings(data_dir=str(tiny_dir), label_key=label_key)).read(split)
    assert len(list(islice(texts, number - 1))) == number - 1
    with pytest.raises(MhaError) as raised:
        next(texts)
    assert str(raised.value) == f"tiny_reviews: text {number} of the split {split} has no label; choose a split with labels"


def test_the_data_folder_of_the_environment_at_the_time(tiny_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(tiny_dir))
    assert len(list(TfdsTexts(settings()).read("test"))) == 7
    monkeypatch.setenv("TFDS_DATA_DIR", "")
    os.symlink(tiny_dir, tmp_path / "tensorflow_datasets")
    assert len(list(TfdsTexts(settings()).read("test"))) == 7
    assert len(list(TfdsTexts(settings(data_dir="~/tensorflow_datasets")).read("test"))) == 7
    assert len(list(TfdsTexts(settings(name="tiny_reviews:1.*.*")).read("test"))) == 7


# What the config gets wrong


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"train_split": "trian"}, 'tiny_reviews has no split "trian" (data.train_split); did you mean train?'),
        ({"test_split": "train[:900]"}, 'tiny_reviews has no split "train[:900]" (data.test_split); did you mean train?'),
        ({"unlabelled_split": "x"}, 'tiny_reviews has no split "x" (data.unlabelled_split); choose from extra, test, train'),
        ({"label_key": "\x1b"}, 'tiny_reviews: no feature "\\x1b" that is a class label (data.label_key); choose from label, partly'),
        ({"text_key": "tags"}, 'tiny_reviews: no feature "tags" that is a text (data.text_key); choose from text'),
        ({"label_key": "stars"}, 'tiny_reviews: no feature "stars" that is a class label (data.label_key); choose from label, partly'),
    ],
)
def test_splits_and_features_that_are_not_there(tiny_dir: Path, values: dict[str, Any], expected: str) -> None:
    assert error_of(data_dir=str(tiny_dir), **values) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("imdb_revews", "neither in the TFDS catalogue nor in {folder}; did you mean imdb_reviews?"),
        ("zzzzzzzz", f"neither in the TFDS catalogue nor in {{folder}}; for the names see {CATALOGUE}"),
        (
            "imdb_reviews:9.9.9",
            "Dataset imdb_reviews cannot be loaded at version 9.9.9, only: 1.0.0; "
            f"for names and versions see {CATALOGUE}, or remove the set's folder if it is damaged",
        ),
    ],
)
def test_unknown_name(tmp_path: Path, name: str, expected: str) -> None:
    assert error_of(name=name, data_dir=str(tmp_path)) == f'data.name is "{name}": {expected.format(folder=tmp_path)}'


@pytest.mark.parametrize(
    "name", ["huggingface:imdb", "../imdb", "a b", "imdb_reviews/", "imdb_reviews/plain_text/data_dir=x", "ïmdb", "a\x1b"]
)
def test_what_is_no_name_never_reaches_tfds(tmp_path: Path, name: str) -> None:
    hint = f"write NAME, NAME/CONFIG or NAME/CONFIG:VERSION; for the names see {CATALOGUE}"
    shown = name.replace("\x1b", "\\x1b")
    assert error_of(name=name, data_dir=str(tmp_path)) == f'data.name is "{shown}", not the name of a TFDS set; {hint}'


def test_features_of_a_set_of_the_catalogue_are_checked_before_the_download(tmp_path: Path) -> None:
    expected = 'glue: no feature "text" that is a text (data.text_key); choose from sentence'
    assert error_of(name="glue", data_dir=str(tmp_path)) == expected
    assert error_of(name="mnist", text_key="image", data_dir=str(tmp_path)).endswith("that is a text (data.text_key); choose another set")


def test_data_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "create it, or name the one that holds your TFDS sets"
    (tmp_path / "file").touch()
    for folder in ("none", "file"):
        assert error_of(data_dir=f"{tmp_path}/{folder}") == f"data.data_dir: {tmp_path}/{folder}: no such folder; {hint}"
    assert error_of(data_dir="a\0b") == f"data.data_dir: a\\x00b: no such folder; {hint}"
    monkeypatch.setenv("TFDS_DATA_DIR", f"{tmp_path}/none")
    assert error_of() == f"TFDS_DATA_DIR: {tmp_path}/none: no such folder; {hint}"


# Damage


def test_files_that_cannot_be_read(tiny_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_dir, tmp_path / "copy")
    version = tmp_path / "copy" / TINY_VERSION
    (records,) = version.glob("*-test.tfrecord*")
    source = TfdsTexts(settings(data_dir=str(tmp_path / "copy")))
    records.write_bytes(b"")
    for expected in ("Input dataset was expected to contain 7 elements but contained only 0 elements.", "No such file or directory"):
        with pytest.raises(MhaError) as raised:
            list(source.read("test"))
        assert raised.value.exit_code == EXIT_FAILURE
        message = str(raised.value)
        assert message.startswith("tiny_reviews: the split test cannot be read: ")
        assert expected in message
        assert "{{" not in message and "[Op" not in message
        assert message.endswith(f"; remove {version}, and fetch or copy the set again")
        records.unlink(missing_ok=True)


def test_a_folder_that_names_a_module_imports_nothing(tiny_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(tiny_dir, tmp_path / "data")
    path = tmp_path / "data" / TINY_VERSION / "features.json"
    path.write_text(path.read_text().replace("tensorflow_datasets.core.features.text_feature.Text", "somebodys_module.Text"))
    assert error_of(data_dir=str(tmp_path / "data")) == (
        'data.name is "tiny_reviews": its features.json names somebodys_module.Text, which is none of TFDS\'s features; '
        f"for names and versions see {CATALOGUE}, or remove the set's folder if it is damaged"
    )


def test_a_set_that_is_not_whole(tiny_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_dir, tmp_path / "copy")
    (tmp_path / "copy" / TINY_VERSION / "dataset_info.json").write_text("{")
    expected = 'data.name is "tiny_reviews": Failed to load JSON: '
    assert error_of(data_dir=str(tmp_path / "copy")).startswith(expected)
    half = tmp_path / "imdb_reviews" / "plain_text" / "1.0.0"
    half.mkdir(parents=True)
    expected = f'imdb_reviews has no split "train" (data.train_split); remove {half}, and fetch or copy the set again'
    assert error_of(name="imdb_reviews", data_dir=str(tmp_path)) == expected


# Preparing


def test_no_network_fails_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "data").mkdir()
    with pytest.raises(MhaError) as raised:
        TfdsTexts(settings(name="imdb_reviews", data_dir=str(tmp_path / "data")), told.append)
    assert raised.value.exit_code == EXIT_FAILURE
    assert str(raised.value) == (
        f"imdb_reviews cannot be downloaded to {tmp_path}/data: <urlopen error [Errno -2] Name or service not known>; "
        "on a machine with network run `python -c \"import tensorflow_datasets as tfds; tfds.load('imdb_reviews')\"`, "
        "copy its folder ~/tensorflow_datasets here, and set TFDS_DATA_DIR or data.data_dir to the copy"
    )
    assert told == [f"downloading imdb_reviews to {tmp_path}/data"]
    assert list((tmp_path / "data").iterdir()) == []


@pytest.fixture(scope="module")
def made_builder() -> Any:
    """The class of a set that TFDS knows and can prepare without a download; ``fails`` makes it fail halfway."""
    import tensorflow_datasets as tfds

    class MadeReviews(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        fails = ""

        def _info(self) -> Any:
            features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=["neg", "pos"])}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {"train": self._generate_examples("train"), "test": self._generate_examples("test")}

        def _generate_examples(self, split: str) -> Any:
            for number in range(3):
                yield number, {"text": f"{split} {number}", "label": number % 2}
            if self.fails:
                raise RuntimeError(self.fails)

    return MadeReviews


def test_a_set_is_prepared_once(made_builder: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    values = {"name": "made_reviews", "data_dir": str(tmp_path)}
    first = list(TfdsTexts(settings(**values), told.append).read("train"))
    assert told == [f"downloading made_reviews to {tmp_path}"]
    assert sorted(first) == [LabelledText("train 0", "neg"), LabelledText("train 1", "pos"), LabelledText("train 2", "neg")]
    assert list(TfdsTexts(settings(**values), told.append).read("train")) == first
    assert len(told) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "made_reviews" in captured.err


def test_a_failure_halfway_can_be_tried_again(made_builder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"name": "made_reviews", "data_dir": str(tmp_path)}
    monkeypatch.setattr(made_builder, "fails", "the line\nbroke\x1b")
    message = error_of(exit_code=EXIT_FAILURE, **values)
    assert message.startswith(f"made_reviews cannot be downloaded to {tmp_path}: the line; on a machine with network run ")
    monkeypatch.setattr(made_builder, "fails", "")
    assert len(list(TfdsTexts(settings(**values)).read("train"))) == 3


@pytest.mark.parametrize("answer", [404, None])
def test_a_server_that_answers_is_enough(answer: int | None, made_builder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(request: Request, timeout: float) -> io.BytesIO:
        assert (request.full_url, request.get_method()) == ("http://there.test/1", "HEAD")
        raise HTTPError(request.full_url, answer, "", Message(), None) if answer else TimeoutError("timed out")

    monkeypatch.setattr("mha_cli.data.tfds.urlopen", urlopen)
    monkeypatch.setattr(made_builder, "url_infos", dict.fromkeys(["gs://bucket/file", "http://there.test/1", "http://other.test/2"]))
    values = {"name": "made_reviews", "data_dir": str(tmp_path)}
    if answer:
        assert len(list(TfdsTexts(settings(**values)).read("train"))) == 3
    else:
        assert "timed out" in error_of(exit_code=EXIT_FAILURE, **values)


# The real set


@pytest.mark.imdb
@needs_imdb
def test_imdb() -> None:
    source = TfdsTexts(settings(name="imdb_reviews", unlabelled_split="unsupervised"))
    assert (source.splits, source.class_names) == (("train", "test", "unsupervised"), ("neg", "pos"))
    for split in ("train", "test"):
        reviews = list(source.read(split))
        assert Counter(review.label for review in reviews) == {"neg": 12_500, "pos": 12_500}
        assert all(review.text.strip() for review in reviews)
        assert list(islice(source.read(split), 300)) == reviews[:300]
    assert sum(1 for _ in source.unlabelled() or ()) == 50_000
