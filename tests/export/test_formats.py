import dataclasses
import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.export.formats import FORMATS
from mha_cli.runtime.classifier import Classifier
from mha_cli.text.encoding import TextPipeline
from tests.checkpoints import WORDS, small_checkpoint, small_checkpoint_file
from tests.cli.command import Mha, refusal, run_mha, tree

Forward = Callable[[np.ndarray], np.ndarray]

pytestmark = pytest.mark.extras

TEXTS = ("the film was superb, not dreadful.", "it's é", "zzyzxq", "not a film " * 9, "dreadful superb the the was a a film , . not it's é")
"""Short, unknown, and longer than the model's 13 tokens."""
TOKENS = ["[PAD]", "[UNK]", *WORDS]

NGRAMS = {"max_ngram": 3, "ngram_buckets": 32, "conv_kernel_size": 5}
LINEAR = {**NGRAMS, "linear": {"max_ngram": 2, "buckets": 64, "end_decay": 3, "context_windows": [2, 7]}}
SUBWORDS = {**LINEAR, "subword_buckets": 32, "linear": LINEAR["linear"], "characters": 11}
CASES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre-three-classes": {"normalization": "pre", "class_names": ("bad", "so so", "é")},
    "two-blocks-gelu": {"num_blocks": 2, "num_heads": [3, 1], "key_dim": 5, "activation": "gelu", "pooling": "first"},
    "n-grams-and-linear": LINEAR,
    "linear-with-all-positions-alike": {**NGRAMS, "linear": {"max_ngram": 2, "buckets": 64}},
    "subwords": {"subword_buckets": 32},
    "subwords-in-linear": {**SUBWORDS, "subword_buckets": 0, "class_names": tuple(map(str, range(77)))},
    "no-positions": {"positions": "none"},
    "rotary-local-grouped": {
        "positions": "rotary", "num_blocks": 3, "num_heads": 4, "num_key_value_heads": 2, "key_dim": 6, "max_distance": 2,
        "global_every": 2, "normalization": "pre", "norm": "rms", "query_key_norm": True, "gated": True, "activation": "silu",
    },
    "linear-biases-causal-last": {"positions": "linear_biases", "causal": True, "pooling": "last"},
}  # fmt: skip
ALL_AT_ONCE = {
    **SUBWORDS,
    **CASES["pre-three-classes"],
    "num_blocks": 2,
    "positions": "sinusoidal",
    "ngram_buckets": 2**17,
}
TWO_LABELS = {**CASES["two-blocks-gelu"], **CASES["no-positions"], "pooling": "max", "task": "multi-label"}
TRACED = [
    pytest.param(format_name, model, marks=pytest.mark.exhaustive)
    for format_name, model in (
        ("saved-model", ALL_AT_ONCE),
        ("litert", ALL_AT_ONCE),
        ("litert", TWO_LABELS),
        ("litert", CASES["rotary-local-grouped"]),
        ("litert", CASES["linear-biases-causal-last"]),
    )
]
"""Formats that are traced from the layers, which have tests of their own, in seconds each; LiteRT's file is made of a SavedModel."""
UNREAD_BY_OPENVINO = [("litert", ALL_AT_ONCE)]
"""OpenVINO has no translator of LiteRT's RIGHT_SHIFT, with which n-grams and subwords are hashed, and says so."""


def openvino(path: Path) -> Forward:
    """What OpenVINO makes of any of these formats."""
    core = pytest.importorskip("openvino").Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: compiled(list(inputs.values()))[0]


def need_packages(format_name: str) -> None:
    """Skip the test of a format whose packages are not here."""
    for module in FORMATS[format_name].packages:
        pytest.importorskip(module)


def carries_vocabulary_and_settings(exported: Path, checkpoint: Checkpoint) -> None:
    """Check what stands beside the graph in a file of TensorFlow's."""
    if exported.is_file():
        with zipfile.ZipFile(exported) as archive:
            found = {name: archive.read(name).decode() for name in archive.namelist()}
    else:
        found = {path.name: path.read_text(encoding="utf-8") for path in (exported / "assets.extra").iterdir()}
    assert found.keys() == {"vocabulary.txt", "labels.txt", "mha.json"}
    assert found["vocabulary.txt"].splitlines() == TOKENS
    assert found["labels.txt"] == "".join(f"{name}\n" for name in checkpoint.class_names)
    description = json.loads(found["mha.json"])
    assert description["class_names"] == list(checkpoint.class_names)
    assert description["config"]["text"]["sequence_length"] == 13


@pytest.mark.parametrize(
    ("format_name", "model"),
    [*(("onnx", model) for model in CASES.values()), *TRACED],
    ids=[*(f"onnx-{name}" for name in CASES), "saved-model", "litert", "litert-two-labels", "litert-rotary", "litert-linear-biases"],
)
def test_the_export_says_what_predict_says(format_name: str, model: dict[str, Any], mha: Mha, tmp_path: Path) -> None:
    """TensorFlow and LiteRT write in a process of their own, where native code would be heard on stderr."""
    need_packages(format_name)
    small_checkpoint_file(tmp_path / "a.keras", **model)
    output = "exported.tflite" if format_name == "litert" else "exported"  # OpenVINO knows the format by its suffix
    run = mha if format_name == "onnx" else partial(run_mha, cwd=tmp_path)
    said = run("export", "a.keras", "--format", format_name, "--output", output, "--json").silent().json
    assert said.keys() == {"path", "format", "num_bytes", "num_texts", "largest_difference", "tolerance", "num_changed", "accuracy"}
    assert (said["path"], said["format"], said["tolerance"]) == (output, format_name, 1e-4)
    assert said["num_texts"] >= 40
    assert 0 <= said["largest_difference"] < 1e-5
    assert (said["num_changed"], said["accuracy"]) == (0, None)
    exported = {name: content for name, content in tree(tmp_path).items() if name.startswith("exported")}
    assert said["num_bytes"] == sum(len(content) for content in exported.values() if content is not None)

    checkpoint = read_checkpoint(tmp_path / "a.keras")
    expected = np.array([list(prediction.probabilities.values()) for prediction in Classifier(checkpoint).predict(TEXTS)])
    pipeline = TextPipeline(checkpoint.config.text, checkpoint.vocabulary)
    reviews = [pipeline.encode(text).tokens for text in TEXTS]
    padded = np.zeros((len(TEXTS), 13, *reviews[0].shape[1:]), np.int32)
    for row, review in enumerate(reviews):
        padded[row, : len(review)] = review
    runtimes = [FORMATS[format_name].load] + [openvino] * ((format_name, model) not in UNREAD_BY_OPENVINO)
    for forward in [runtime(tmp_path / output) for runtime in runtimes]:
        for row, review in enumerate(reviews):
            alone = forward({"token_ids": np.array([review], np.int32)})
            assert alone.shape == (1, len(checkpoint.class_names))
            np.testing.assert_allclose(alone[0], expected[row], atol=1e-5)
        np.testing.assert_allclose(forward({"token_ids": padded}), expected, atol=1e-5)
    if format_name != "onnx":
        carries_vocabulary_and_settings(tmp_path / output, checkpoint)
        weights = sum(weight.nbytes for weight in checkpoint.weights.values())
        assert weights < said["num_bytes"] < weights + 500_000  # every weight once


@pytest.mark.parametrize("format_name", ["onnx", "litert"])
def test_padding_is_never_looked_at(format_name: str, mha: Mha, tmp_path: Path) -> None:
    need_packages(format_name)
    checkpoint = small_checkpoint()
    large = {path: weight * (3e4 if "key_kernel" in path or "query_kernel" in path else 1) for path, weight in checkpoint.weights.items()}
    write_checkpoint(tmp_path / "a.keras", dataclasses.replace(checkpoint, weights=large))  # scores of some 10⁹
    result = mha("export", "a.keras", "--format", format_name, "--output", "exported", "--json").silent()
    assert result.json["largest_difference"] < 1e-4


def test_accuracy_and_changed_answers_are_counted(mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always_positive = dataclasses.replace(
        FORMATS["int8"], load=lambda path: lambda inputs: np.array([[0.0, 1.0]] * len(inputs["token_ids"])), tolerance=1.0
    )
    monkeypatch.setitem(FORMATS, "int8", always_positive)
    small_checkpoint_file(tmp_path / "a.keras", seed=11)
    texts = [*TEXTS, "a superb film", "not a film", "dreadful, dreadful"]
    (tmp_path / "reviews.csv").write_text("review,stars\n" + "".join(f'"{text}",pos\n' for text in texts))
    said = [prediction.label for prediction in Classifier(read_checkpoint(tmp_path / "a.keras")).predict(texts)]
    assert set(said) == {"neg", "pos"}
    columns = ("--text-column", "review", "--label-column", "stars")
    found = mha("export", "a.keras", "-f", "int8", "-o", "b", "--data", "reviews.csv", *columns, "--json").json
    assert found["num_changed"] > 0
    assert found["accuracy"] == {
        "data": "reviews.csv, split test",
        "num_texts": len(texts),
        "checkpoint": pytest.approx(said.count("pos") / len(texts)),
        "export": 1.0,
        "num_changed": said.count("neg"),
    }
    shown = mha("export", "a.keras", "-f", "int8", "-o", "c", "--data", "reviews.csv", *columns).stdout
    assert f"100.00%; of the checkpoint {said.count('pos') / len(texts):.2%}" in shown
    assert f"to {said.count('neg')} of them" in shown


def test_an_onnx_file_carries_vocabulary_and_settings(mha: Mha, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    small_checkpoint_file(tmp_path / "a.keras", ("bad", "é"))
    shown = mha("export", "a.keras", "-f", "onnx", "-o", "a.onnx").silent().stdout
    for words in ("Export to onnx", "of a probability (allowed: 1e-04)", "not scored; --data SOURCE scores checkpoint and export"):
        assert words in shown
    found = onnxruntime.InferenceSession(tmp_path / "a.onnx").get_modelmeta().custom_metadata_map
    assert found.keys() == {"class_names", "text", "vocabulary", "config"}
    assert json.loads(found["class_names"]) == ["bad", "é"]
    assert found["vocabulary"].split("\n") == TOKENS
    assert json.loads(found["text"])["sequence_length"] == 13
    assert json.loads(found["config"])["text"] == json.loads(found["text"])
    model = onnx.load(tmp_path / "a.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (18, 8)
    assert {node.domain for node in model.graph.node} == {""}


def test_an_export_that_answers_differently_is_refused(mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: Path) -> Forward:
        return lambda inputs: np.full((len(inputs["token_ids"]), 2), np.nan)

    monkeypatch.setitem(FORMATS, "int8", dataclasses.replace(FORMATS["int8"], load=load))
    small_checkpoint_file(tmp_path / "a.keras")
    result = mha("export", "a.keras", "-f", "int8", "-o", "exported")
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: --format int8: a probability differs by nan from the checkpoint's, more than 2e-01; "
        "nothing was written; take another format\n"
    )
    assert list(tree(tmp_path)) == ["a.keras"]


def test_what_appears_meanwhile_is_not_replaced(mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(checkpoint: object, path: Path) -> None:
        path.write_text("export")
        (tmp_path / "exported").write_text("mine")

    changed = dataclasses.replace(FORMATS["saved-model"], write=write, load=lambda path: lambda token_ids: 0, tolerance=float("inf"))
    monkeypatch.setitem(FORMATS, "saved-model", changed)
    small_checkpoint_file(tmp_path / "a.keras")
    message = refusal(mha("export", "a.keras", "-f", "saved-model", "-o", "exported"))
    assert message == "exported: has come to exist meanwhile; choose another name, or remove it"
    assert (tmp_path / "exported").read_text() == "mine"
    assert sorted(tree(tmp_path)) == ["a.keras", "exported"]


def test_an_interrupted_export_leaves_nothing(mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(checkpoint: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setitem(FORMATS, "int8", dataclasses.replace(FORMATS["int8"], write=write))
    small_checkpoint_file(tmp_path / "a.keras")
    assert mha("export", "a.keras", "-f", "int8", "-o", "small.keras").code == 130
    assert list(tree(tmp_path)) == ["a.keras"]
