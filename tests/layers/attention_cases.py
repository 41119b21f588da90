"""What the tests of attention share: random numbers and masks, the paper in float64, the same layer by others, finite differences."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from mha_cli.layers import MultiHeadAttention
from tests.layers.layer_contract import randomize

# Distinct primes, so that no two axes can be mistaken for each other.
BATCH, QUERIES, KEYS, HEADS, KEY_DIM, VALUE_DIM = 3, 5, 7, 2, 11, 13
QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH, OUTPUT_DIM = 17, 19, 23, 29
SIZES = {"num_heads": HEADS, "key_dim": KEY_DIM, "value_dim": VALUE_DIM, "output_dim": OUTPUT_DIM}
LONGER = 263  # more than a block of queries
EXACT = {"atol": 1e-5, "rtol": 1e-5}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def random_mask(*shape: int, seed: int = 0) -> np.ndarray:
    """Bool; every row of the last axis allows at least its first key."""
    mask = np.random.default_rng((seed, *shape)).random(shape) < 0.5
    mask[..., 0] = True
    return mask


def prefix_mask(lengths: list[int], size: int) -> np.ndarray:
    return np.arange(size) < np.array(lengths)[:, None]


def cross(queries: int = QUERIES, keys: int = KEYS) -> dict[str, np.ndarray]:
    """Query, value and key of three widths."""
    return {
        "query": random(BATCH, queries, QUERY_WIDTH),
        "value": random(BATCH, keys, VALUE_WIDTH),
        "key": random(BATCH, keys, KEY_WIDTH),
    }


def masks_of(queries: int, keys: int) -> dict[str, dict[str, Any]]:
    per_query = np.random.default_rng(0).integers(0, keys + 1, (BATCH, queries))
    whole = random_mask(BATCH, HEADS, queries, keys)
    whole[0, 1, 2] = False  # a head's query that may look nowhere
    return {
        "none": {},
        "padding": {"value_mask": prefix_mask([keys, 3, 0], keys), "query_mask": prefix_mask([queries, 2, 1], queries)},
        "causal": {"use_causal_mask": True},
        "for-all": {"attention_mask": random_mask(queries, keys)},
        "for-all-heads": {"attention_mask": random_mask(BATCH, queries, keys)},
        "per-head": {"attention_mask": whole},
        "valid-lengths": {"valid_lengths": np.array([keys, 3, 0])},
        "valid-lengths-per-query": {"valid_lengths": per_query},
        "head-mask": {"head_mask": random(HEADS)},
        "head-mask-per-entry": {"head_mask": random(BATCH, HEADS)},
        "all-together": {
            "value_mask": prefix_mask([keys, 4, 2], keys),
            "key_mask": prefix_mask([keys, 5, 2], keys),
            "query_mask": prefix_mask([queries, 2, 1], queries),
            "use_causal_mask": True,
            "attention_mask": whole,
            "valid_lengths": per_query,
            "head_mask": random(BATCH, HEADS),
        },
    }


def built(layer: MultiHeadAttention, *inputs: np.ndarray) -> MultiHeadAttention:
    layer(*inputs)
    randomize(layer)
    return layer


def keras_twin(layer: MultiHeadAttention, query: np.ndarray, value: np.ndarray, key: np.ndarray | None = None) -> Any:
    """Keras's layer with the same weights, which stand in the same order."""
    theirs = keras.layers.MultiHeadAttention(
        layer.num_heads, layer.key_dim, value_dim=layer.value_dim, output_shape=layer.output_dim, use_bias=layer.use_bias
    )
    theirs.build(query.shape, value.shape, None if key is None else key.shape)
    theirs.set_weights(layer.get_weights())
    return theirs


def weights_of(layer: MultiHeadAttention) -> dict[str, np.ndarray]:
    """Every weight of a layer by name, in float64."""
    return {weight.name: np.array(weight, dtype=np.float64) for weight in layer.trainable_variables}


def paper(layer: MultiHeadAttention, x: dict[str, np.ndarray], allowed: Any = True, gate: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """What a layer should give: the output, and its attention weights."""
    return paper_attention({**weights_of(layer), **x}, np.array(allowed), gate, layer.use_scale)


def paper_attention(
    x: Mapping[str, np.ndarray], allowed_BHLM: np.ndarray, gate_BH: np.ndarray | None = None, use_scale: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's equations in float64, one einsum each.

    Args:
        x: the inputs ``query``, ``value`` and ``key``, and the weights by name; with a ``score_kernel`` the attention_score is additive.
        allowed_BHLM: bool, broadcastable; True where a query may look at a key.
        gate_BH: number that multiplies what a head gives.
        use_scale: whether dot products are divided by √d_k.
    """
    q = np.einsum("bld,dhk->blhk", x["query"].astype(float), x["query_kernel"]) + x.get("query_bias", 0.0)
    k = np.einsum("bmd,dhk->bmhk", x["key"].astype(float), x["key_kernel"]) + x.get("key_bias", 0.0)
    v = np.einsum("bmd,dhv->bmhv", x["value"].astype(float), x["value_kernel"]) + x.get("value_bias", 0.0)
    if "score_kernel" in x:
        scores = np.einsum("hk,blmhk->bhlm", x["score_kernel"], np.tanh(q[:, :, None] + k[:, None]))
    else:
        scores = np.einsum("blhk,bmhk->bhlm", q, k) / (np.sqrt(q.shape[-1]) if use_scale else 1.0)
    weights = paper_softmax(scores, allowed_BHLM)
    mixed = np.einsum("bhlm,bmhv->blhv", weights, v)
    if gate_BH is not None:
        mixed = mixed * gate_BH[:, None, :, None]
    return np.einsum("blhv,hvo->blo", mixed, x["output_kernel"]) + x.get("output_bias", 0.0), weights


def paper_softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Softmax over the allowed positions of the last axis, in float64; zeros where there is none."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True)) * allowed
    sums = exponentials.sum(axis=-1, keepdims=True)
    return np.divide(exponentials, sums, out=np.zeros_like(exponentials), where=sums > 0)


def output_and_gradients(function: Callable[..., Any], inputs: list[Any], upstream: np.ndarray) -> list[np.ndarray]:
    """The output, and the gradients of its product with ``upstream``, in float32, by the backend's own differentiation."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        output, pull = jax.vjp(function, *inputs)
        gradients = pull(upstream.astype(output.dtype))
    elif backend == "torch":
        import torch

        inputs = [x.detach().requires_grad_() for x in inputs]
        output = function(*inputs)
        gradients = torch.autograd.grad(output, inputs, torch.tensor(upstream).to(output))
    else:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs)
        gradients = tape.gradient(output, inputs, tf.cast(upstream, output.dtype))
    return [keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in (output, *gradients)]


def finite_differences(function: Callable[[], float], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Gradient of ``function``, which reads ``x`` (float64), by central differences."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        middle = x[index]
        x[index] = middle + step
        above = function()
        x[index] = middle - step
        gradient[index] = (above - function()) / (2 * step)
        x[index] = middle
    return gradient


def assert_same_gradient(gradient: Any, expected: Any, name: str = "", least: float = 1e-3) -> None:
    """Equal but for float32's rounding, which goes with the largest entry, or with ``least`` where that is larger."""
    expected = np.array(expected)
    largest = max(float(np.abs(expected).max()), least)
    np.testing.assert_allclose(np.array(gradient), expected, atol=1e-5 * largest, rtol=1e-4, err_msg=name)
