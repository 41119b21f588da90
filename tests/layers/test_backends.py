"""The layers and the classifier give the same numbers under PyTorch and JAX as under TensorFlow.

``python test_backends.py RESULTS.npz`` writes the results under the backend that KERAS_BACKEND names.
"""

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.layers import (
    BlockwiseAttention,
    FastAttention,
    FoldedAttention,
    GlobalMaxPooling1D,
    LastPosition,
    MultiHeadAttention,
    TransformerEncoder,
    blockwise_attention,
)
from mha_cli.layers.fast.attention import IMPLEMENTATIONS
from mha_cli.model.classifier import build_classifier
from tests.layers.attention_cases import (
    BATCH,
    KEYS,
    LONGER,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    cross,
    masks_of,
    output_and_gradients,
    prefix_mask,
    random,
)
from tests.layers.layer_contract import randomize
from tests.reviews import with_characters

ROOT = Path(__file__).parents[2]
LABELS = np.array([[1.0], [0.0], [1.0]], np.float32)


def numbers(outputs: Any) -> dict[str, np.ndarray]:
    return {f"output_{number}": keras.ops.convert_to_numpy(x) for number, x in enumerate(keras.tree.flatten(outputs))}


def layer_results(layer: keras.Layer, arrays: dict[str, Any], **call: Any) -> dict[str, np.ndarray]:
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in arrays.items()}
    layer(**tensors)
    randomize(layer)
    return numbers(layer(**tensors, **call))


def model_results(
    num_classes: int = 2,
    train: bool = False,
    length: int = 13,
    characters: int = 0,
    linear: Any = None,
    attention: str = "auto",
    **model: Any,
) -> dict[str, np.ndarray]:
    """The output, and on request the weights after one step of plain gradient descent."""
    text = {"vocabulary_size": 29, "sequence_length": length, "subword_characters": characters}
    sizes = {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17, "dropout": 0.0}
    config = config_from_dict({"text": text, "model": {**sizes, **model}, "linear": linear}, "test")
    classifier = build_classifier(config, 23, num_classes, attention=attention)
    randomize(classifier)
    token_ids = np.where(prefix_mask([length, 5, 2], length), np.random.default_rng(0).integers(1, 23, (BATCH, length)), 0)
    tokens = with_characters(token_ids.astype(np.int32), characters)
    results = numbers(classifier(keras.ops.convert_to_tensor(tokens)))
    if train:
        classifier.compile(optimizer=keras.optimizers.SGD(0.1), loss="binary_crossentropy", run_eagerly=keras.backend.backend() != "jax")
        classifier.train_on_batch(tokens, LABELS)
        results |= {f"trained_{weight.path}": keras.ops.convert_to_numpy(weight) for weight in classifier.trainable_variables}
    return results


def attention_results() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    inputs, masks = cross(), masks_of(QUERIES, KEYS)
    for implementation in ("fused", "per_head", "blockwise", "folded"):
        layer = IMPLEMENTATIONS[implementation](**SIZES)
        yield f"{implementation}-weights", layer_results(layer, inputs, return_attention_scores=True)
    layer = MultiHeadAttention(**SIZES, head_by_head=True, attention_score="additive")
    yield "additive", layer_results(layer, {**inputs, **masks["padding"]})
    yield "unscaled", layer_results(FoldedAttention(**SIZES, use_scale=False, use_bias=False), inputs)
    longer = {"query": random(BATCH, LONGER, QUERY_WIDTH), "query_mask": prefix_mask([LONGER, 257, 5], LONGER)}
    yield "longer", layer_results(BlockwiseAttention(**SIZES), longer, use_causal_mask=True)
    yield "auto-long", layer_results(FastAttention(2, 3), {"query": random(1, 1031, 7)}, use_causal_mask=True)


def gradient_results() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Every implementation with every mask, and once more where the forward pass is computed again for the gradient."""
    inputs = {name: keras.ops.convert_to_tensor(x) for name, x in cross().items()}
    upstream = random(BATCH, QUERIES, SIZES["output_dim"], seed=9)
    for implementation in ("fused", "per_head", "blockwise", "folded"):
        layer = IMPLEMENTATIONS[implementation](**SIZES)
        layer(**inputs)
        randomize(layer)
        for name, masks in masks_of(QUERIES, KEYS).items():
            call = functools.partial(layer, **masks)
            for kind, function in (("", call), ("-remat", keras.remat(call))):
                yield f"gradient-{implementation}-{name}{kind}", numbers(output_and_gradients(function, [*inputs.values()], upstream))


def parts_results() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The parts since 2017, with their gradients, and a text in blocks of neighbours."""
    inputs, masks = cross(13, KEYS), masks_of(13, KEYS)["all-together"]
    sizes = {"num_heads": 4, "key_dim": 6, "value_dim": 5, "output_dim": 11}
    parts: dict[str, dict[str, Any]] = {
        "near": {"rotary_base": 50.0, "max_distance": 1, "num_key_value_heads": 2, "query_key_norm": "rms"},
        "biases": {"linear_biases": True, "num_key_value_heads": 1, "query_key_norm": "layer"},
    }
    masks = {name: mask for name, mask in masks.items() if name not in ("attention_mask", "head_mask")}
    for implementation in ("fused", "blockwise"):
        for name, arguments in parts.items():
            layer = IMPLEMENTATIONS[implementation](**sizes, **arguments)
            yield f"parts-{implementation}-{name}", layer_results(layer, inputs, return_attention_scores=True, **masks)
            tensors = [keras.ops.convert_to_tensor(x) for x in inputs.values()]
            upstream = random(BATCH, 13, 11, seed=9)
            yield f"parts-gradient-{implementation}-{name}", numbers(output_and_gradients(layer, tensors, upstream))
    near = FastAttention(2, 4, max_distance=2, rotary_base=50.0)
    yield "parts-long", layer_results(near, {"query": random(1, 8209, 3), "value_mask": prefix_mask([8111], 8209)})


def results() -> dict[str, np.ndarray]:
    """Every result under the current backend, with the same random inputs and weights under all of them."""
    x, real = random(BATCH, QUERIES, 14), prefix_mask([5, 2, 0], QUERIES)
    words = {"max_ngram": 3, "ngram_buckets": 32, "subword_buckets": 32, "conv_kernel_size": 3}
    linear = {"max_ngram": 2, "buckets": 32, "end_decay": 3, "context_windows": [2]}
    several = {"num_blocks": 2, "num_heads": [3, 1], "key_dim": 5, "positions": "sinusoidal"}
    gates = {"gated": True, "activation": "silu", "norm": "rms", "normalization": "pre"}
    since = {**gates, "causal": True, "attention_options": {"rotary_base": 50.0, "num_key_value_heads": 1, "query_key_norm": "rms"}}
    cases = {
        **dict(attention_results()),
        **dict(gradient_results()),
        **dict(parts_results()),
        "encoder": layer_results(TransformerEncoder(14, 17, 2, normalization="pre"), {"inputs": x, "mask": real, "head_mask": random(2)}),
        "encoder-since-2017": layer_results(TransformerEncoder(14, 17, 2, 6, **since), {"inputs": x, "mask": real}),
        "pooling": layer_results(GlobalMaxPooling1D(), {"inputs": x, "mask": real}),
        "pooling-last": layer_results(LastPosition(), {"inputs": x, "mask": real}),
        "model-words": model_results(train=True, characters=11, linear=linear, **words),
        "model-five-classes": model_results(5, normalization="pre", activation="gelu", **several),
        "model-rotary": model_results(train=True, positions="rotary", key_dim=6, num_blocks=2, max_distance=2, global_every=2, **gates),
        "model-causal": model_results(positions="linear_biases", causal=True, pooling="last", num_key_value_heads=1, query_key_norm=True),
        "model-folded": model_results(attention="folded", key_dim=17, positions="none"),
        "model-blockwise": model_results(train=True, attention="blockwise", length=LONGER),
    }
    return {f"{name}/{key}": array for name, case in cases.items() for key, array in case.items()}


def dropped_weights() -> np.ndarray:
    """Which attention weights two calls one after the other drop, by call and block of five queries, (2, 2, 5, 7)."""
    q, k = (keras.ops.ones((1, 1, length, 3)) for length in (10, 7))
    units = keras.ops.eye(7)[None, None]
    seeds = keras.random.SeedGenerator(3)
    calls = [blockwise_attention(q, k, units, None, 0.5, seeds.next(), 5) for _ in range(2)]
    return np.stack([keras.ops.convert_to_numpy(weights).reshape(2, 5, 7) == 0 for weights in calls])


def results_under(backend: str, path: Path) -> dict[str, np.ndarray]:
    """The results under a backend, by a process of its own, with kernels that the processor does not choose."""
    chosen = {"TF_ENABLE_ONEDNN_OPTS": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # most of JAX's time is XLA's
    run = subprocess.run(
        [sys.executable, __file__, path],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), **chosen},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    found = results_under("tensorflow", tmp_path_factory.mktemp("tensorflow") / "results.npz")
    return {name: array for name, array in found.items() if name not in ("backend", "dropped")}


@pytest.mark.process
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_gives_the_same_numbers_as_tensorflow(backend: str, expected: dict[str, np.ndarray], tmp_path: Path) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    found = results_under(backend, tmp_path / "results.npz")
    assert found.pop("backend") == backend
    dropped = found.pop("dropped").reshape(4, -1)
    assert 0.2 < dropped.mean() < 0.8
    assert len({calls_and_blocks.tobytes() for calls_and_blocks in dropped}) == 4  # every block of every call draws its own
    assert found.keys() == expected.keys()
    assert sum("/trained_" in name for name in found) > 30
    for name, result in found.items():
        assert np.isfinite(result).all(), name
        rounding = 1e-6 * max(20.0, np.abs(expected[name]).max(initial=0.0))
        np.testing.assert_allclose(result, expected[name], atol=rounding, rtol=1e-5, err_msg=name)


if __name__ == "__main__":
    np.savez(sys.argv[1], backend=np.array(keras.backend.backend()), dropped=dropped_weights(), **results())
