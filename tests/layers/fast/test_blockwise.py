import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from mha_cli.layers import blockwise_attention, scaled_dot_product_attention
from mha_cli.layers.fast import fused
from tests.layers.attention_cases import (
    EXACT,
    assert_same_gradient,
    finite_differences,
    output_and_gradients,
    paper_softmax,
    random,
    random_mask,
)

BATCH, HEADS, KEY_DIM, VALUE_DIM, BLOCK = 2, 3, 5, 7, 5
LENGTHS = [(3, 11), (10, 7), (13, 2), (1, 1)]  # queries and keys; below the block length, twice it, above it


def inputs_of(queries: int, keys: int) -> list[Any]:
    shapes = [(BATCH, HEADS, queries, KEY_DIM), (BATCH, HEADS, keys, KEY_DIM), (BATCH, HEADS, keys, VALUE_DIM)]
    return [tf.constant(random(*shape, seed=seed)) for seed, shape in enumerate(shapes)]


def assert_same_gradients(gradients: list[Any], expected: list[Any]) -> None:
    """Those of queries, keys and values; where a single key is looked at, the first two are zero only but for rounding."""
    largest = max(float(np.abs(np.asarray(gradient)).max()) for gradient in expected)
    for name, one, other in zip("qkv", gradients, expected, strict=True):
        assert_same_gradient(one, other, name, least=0.1 * largest)


def by_blocks(mask: Any = None) -> Callable[..., Any]:
    return lambda q, k, v: blockwise_attention(q, k, v, mask, block_length=BLOCK)


def by_torch(inputs: list[Any], mask: np.ndarray | None, upstream: np.ndarray) -> tuple[np.ndarray, list[torch.Tensor]]:
    """The output of PyTorch's function, and the gradients of its product with ``upstream``."""
    tensors = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]
    mask = None if mask is None else torch.tensor(np.atleast_2d(mask))
    output = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
    (output * torch.tensor(upstream)).sum().backward()
    return output.detach().numpy(), [x.grad for x in tensors]


MASKS = {
    "none": None,
    "padding": (BATCH, 1, 1, "keys"),
    "per-head": (BATCH, HEADS, "queries", "keys"),
    "keys-per-head": (BATCH, HEADS, 1, "keys"),
    "queries": (BATCH, 1, "queries", 1),
    "three-axes": (HEADS, "queries", "keys"),
    "two-axes": ("queries", "keys"),
}


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # a single key
@pytest.mark.parametrize(
    ("lengths", "mask_shape"), [*(((13, 7), name) for name in MASKS), *((each, name) for each in LENGTHS for name in ("none", "per-head"))]
)
def test_equals_torch(lengths: tuple[int, int], mask_shape: str) -> None:
    (queries, keys), shape = lengths, MASKS[mask_shape]
    sizes = {"queries": queries, "keys": keys}
    inputs, mask = inputs_of(queries, keys), None if shape is None else random_mask(*(sizes.get(size, size) for size in shape))
    upstream = random(BATCH, HEADS, queries, VALUE_DIM)
    mixed, *gradients = output_and_gradients(by_blocks(mask), inputs, upstream)
    theirs, their_gradients = by_torch(inputs, mask, upstream)
    assert mixed.shape == theirs.shape
    np.testing.assert_allclose(mixed, theirs, **EXACT)
    assert_same_gradients(gradients, their_gradients)


def seed_of(number: int) -> Any:
    return keras.random.SeedGenerator(number).next()


def dropped_weights(q: Any, k: Any, mask: Any, dropout: float, seed: Any, block_length: int = BLOCK) -> np.ndarray:
    """P ∘ Z, the attention weights after dropout: what mixing gives where the values are unit vectors."""
    batch, heads, keys, _ = k.shape
    units = tf.broadcast_to(tf.eye(keys), (batch, heads, keys, keys))
    return np.array(blockwise_attention(q, k, units, mask, dropout, seed, block_length))


def test_dropout_zeroes_its_share_and_scales_the_rest_up() -> None:
    q, k, _ = inputs_of(53, 59)
    _, weights = scaled_dot_product_attention(q, k, k)
    for dropout in (0.1, 0.5):
        left = dropped_weights(q, k, None, dropout, seed_of(3)) / np.array(weights)
        dropped = left == 0
        assert abs(dropped.mean() - dropout) < 0.02  # 18,762 weights: five standard deviations
        np.testing.assert_allclose(left[~dropped], 1 / (1 - dropout), rtol=1e-4)


def test_same_seed_same_numbers_and_every_block_head_and_call_its_own() -> None:
    q, k, v = inputs_of(10, 11)
    seeds = keras.random.SeedGenerator(3)
    first, second = seeds.next(), seeds.next()
    same = [np.array(blockwise_attention(q, k, v, None, 0.5, seed_of(3), BLOCK)) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    np.testing.assert_array_equal(blockwise_attention(q, k, v, None, 0.5, first, BLOCK), same[0])
    dropped = [dropped_weights(q, k, None, 0.5, seed) == 0 for seed in (first, second, seed_of(4))]
    parts = [mask[entry, head, start : start + BLOCK] for mask in dropped for entry in (0, 1) for head in (0, 1, 2) for start in (0, BLOCK)]
    assert len({part.tobytes() for part in parts}) == len(parts)


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (13, 7)])
def test_gradient_with_dropout_equals_finite_differences(queries: int, keys: int) -> None:
    inputs, mask = inputs_of(queries, keys), random_mask(1, HEADS, queries, keys)
    mask[..., 1, :] = False
    seed, upstream = seed_of(3), random(BATCH, HEADS, queries, VALUE_DIM, seed=9)
    mixed, *gradients = output_and_gradients(lambda q, k, v: blockwise_attention(q, k, v, mask, 0.3, seed, BLOCK), inputs, upstream)
    kept = np.where(dropped_weights(*inputs[:2], mask, 0.3, seed) == 0, 0.0, 1 / 0.7)  # the seed draws them alike
    q, k, v = exact = [x.numpy().astype(float) for x in inputs]

    def reference() -> np.ndarray:
        return np.asarray((paper_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(KEY_DIM), mask) * kept) @ v)

    np.testing.assert_allclose(mixed, reference(), **EXACT)
    for name, gradient, x in zip("qkv", gradients, exact, strict=True):
        assert_same_gradient(gradient, finite_differences(lambda: float((reference() * upstream).sum()), x), name)


def test_no_block_of_weights_outlives_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def softmax(scores: Any, mask: Any = None) -> Any:
        weights = fused.softmax(scores, mask)
        made.append(weakref.ref(weights))
        return weights

    monkeypatch.setattr("mha_cli.layers.fast.blockwise.softmax", softmax)
    inputs = inputs_of(13, 11)
    with tf.GradientTape() as tape:  # which keeps what it thinks the backward pass will need
        tape.watch(inputs)
        mixed = by_blocks()(*inputs)
        assert len(made) >= 3
        assert all(weights() is None for weights in made)
    assert all(gradient is not None for gradient in tape.gradient(mixed, inputs))
