"""The layers and the classifier give the same numbers under PyTorch and JAX as under TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backend_run
import keras
import numpy as np
import pytest
from attention_cases import (
    BATCH,
    KEYS,
    LONGER,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    cross,
    masks_of,
    prefix_mask,
    random,
)
from layer_contract import randomize

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.layers import GlobalMaxPooling1D, MultiHeadAttention, NgramLinear, PositionalEmbedding, TransformerEncoder
from tests.reviews import with_characters

if TYPE_CHECKING:
    from collections.abc import Iterator

IMPLEMENTATIONS = ("auto", "fused", "per_head", "blockwise", "folded")
Case = tuple[dict[str, Any], dict[str, np.ndarray]]


def layer_case(layer: keras.Layer, inputs: dict[str, np.ndarray], **call: Any) -> Case:
    return {"layer": keras.saving.serialize_keras_object(layer), "call": call}, inputs


def model_case(num_classes: int = 2, train: bool = False, length: int = 13, characters: int = 0, linear: Any = None, **model: Any) -> Case:
    text = {"vocabulary_size": 29, "sequence_length": length, "subword_characters": characters}
    sizes = {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17, "dropout": 0.0}
    config = config_to_dict(config_from_dict({"text": text, "model": {**sizes, **model}, "linear": linear}, "test"))
    token_ids = np.where(prefix_mask([length, 5, 2], length), np.random.default_rng(0).integers(1, 23, (BATCH, length)), 0)
    case = {"config": config, "vocabulary_size": 23, "num_classes": num_classes, "train": train}
    return case, {"token_ids": with_characters(token_ids.astype(np.int32), characters)}


def attention_cases() -> Iterator[tuple[str, Case]]:
    inputs = cross()
    masks = {name: masks_of(QUERIES, KEYS)[name] for name in ("padding", "causal", "all-together")}
    for implementation in IMPLEMENTATIONS:
        layer = MultiHeadAttention(**SIZES, implementation=implementation)
        yield f"{implementation}-weights", layer_case(layer, inputs, return_attention_scores=True)
        for name, mask in masks.items():
            causal = {"use_causal_mask": True} if "use_causal_mask" in mask else {}
            arrays = {argument: array for argument, array in mask.items() if argument not in causal}
            yield f"{implementation}-{name}", layer_case(layer, {**inputs, **arrays}, **causal)
        longer = {"query": random(BATCH, LONGER, QUERY_WIDTH), "query_mask": prefix_mask([LONGER, 257, 5], LONGER)}
        yield f"{implementation}-longer", layer_case(layer, longer, use_causal_mask=True)
    for implementation in ("fused", "per_head"):
        layer = MultiHeadAttention(**SIZES, implementation=implementation, attention_score="additive")
        yield f"{implementation}-additive", layer_case(layer, {**inputs, **masks["padding"]})
    for implementation in ("fused", "folded"):
        layer = MultiHeadAttention(**SIZES, implementation=implementation, use_scale=False, use_bias=False)
        yield f"{implementation}-unscaled", layer_case(layer, inputs)
    yield "auto-long", layer_case(MultiHeadAttention(2, 3), {"query": random(1, 1031, 7)}, use_causal_mask=True)


def all_cases() -> dict[str, Case]:
    x, real = random(BATCH, QUERIES, 14), prefix_mask([5, 2, 0], QUERIES)
    ngrams = {"max_ngram": 3, "ngram_buckets": 32}
    return {
        **dict(attention_cases()),
        "encoder-post": layer_case(TransformerEncoder(14, 17, 2, activation="gelu"), {"inputs": x, "mask": real}),
        "encoder-pre": layer_case(TransformerEncoder(14, 17, 2, normalization="pre"), {"inputs": x, "head_mask": random(2)}),
        "pooling": layer_case(GlobalMaxPooling1D(), {"inputs": x, "mask": real}),
        "embedding": layer_case(
            PositionalEmbedding(13, 23, 5, "sinusoidal", token_options={"max_ngram": 5, "ngram_buckets": 64, "conv_kernel_size": 5}),
            {"token_ids": np.array([[1, 22, 3, 4, 5, 6, 7], [8, 9, 0, 0, 0, 0, 0]], np.int32)},
        ),
        "scores": layer_case(
            NgramLinear(3, 32, 2, 4, [1, 3], 5), {"token_ids": np.array([[7, 2, 7, 2, 7, 22], [7, 7, 0, 0, 0, 0], [0] * 6], np.int32)}
        ),
        "model": model_case(train=True),
        "model-ngrams": model_case(train=True, **ngrams),
        "model-convolution": model_case(train=True, **ngrams, conv_kernel_size=3),
        "model-five-classes": model_case(5, **ngrams, positions="sinusoidal", normalization="pre", activation="gelu"),
        "model-linear": model_case(train=True, linear={"max_ngram": 2, "buckets": 32, "end_decay": 3, "context_windows": [2]}),
        "model-subwords": model_case(
            train=True, characters=11, subword_buckets=32, linear={"max_ngram": 1, "buckets": 32, "subwords": True}
        ),
        "model-additive": model_case(train=True, attention_score="additive"),
        "model-unscaled": model_case(use_scale=False, positions="none"),
        "model-heads-by-block": model_case(num_blocks=2, num_heads=[3, 1], key_dim=5),
        "model-per-head": model_case(train=True, attention_implementation="per_head"),
        "model-folded": model_case(train=True, key_dim=17),
        "model-blockwise": model_case(train=True, attention_implementation="blockwise", length=LONGER, **ngrams),
    }


@pytest.fixture(scope="module")
def given_and_expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A file of cases, inputs and random weights, and what they give under TensorFlow."""
    cases = all_cases()
    given: dict[str, np.ndarray] = {"cases": np.array(json.dumps({name: case for name, (case, _) in cases.items()}))}
    expected = backend_run.second_derivatives()
    for name, (case, inputs) in cases.items():
        layer = backend_run.make(case)
        layer(**inputs) if "layer" in case else layer(*inputs.values())
        randomize(layer)
        weights = layer.get_weights()
        given |= {f"{name}/input/{key}": array for key, array in inputs.items()}
        given |= {f"{name}/weight/{number}": weight for number, weight in enumerate(weights)}
        expected |= {f"{name}/{key}": array for key, array in backend_run.results_of(case, inputs, weights).items()}
    path = tmp_path_factory.mktemp("backends") / "given.npz"
    np.savez(path, **given)
    return path, expected


@pytest.mark.process
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_gives_the_same_numbers_as_tensorflow(backend: str, given_and_expected: tuple[Path, dict[str, np.ndarray]], tmp_path: Path) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    given, expected = given_and_expected
    run = subprocess.run(
        [sys.executable, Path(backend_run.__file__), given, tmp_path / "results.npz"],
        env={**os.environ, "KERAS_BACKEND": backend, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},  # most of JAX's time is XLA's
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(tmp_path / "results.npz") as file:
        results = dict(file)
    assert results.pop("backend") == backend
    dropped = results.pop("dropout").reshape(4, -1)
    assert 0.2 < dropped.mean() < 0.8
    assert len({calls_and_blocks.tobytes() for calls_and_blocks in dropped}) == 4  # every block of every call draws its own
    assert results.keys() == expected.keys()
    assert sum("/trained_" in name for name in results) > 50
    for name, result in results.items():
        assert np.isfinite(result).all(), name
        np.testing.assert_allclose(result, expected[name], atol=2e-5, rtol=1e-5, err_msg=name)  # numbers of up to 20, rounded
