import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from mha_cli.layers import MultiHeadAttention, blockwise_attention, scaled_dot_product_attention
from mha_cli.layers.fast.attention import IMPLEMENTATIONS as FAST
from tests.covering import pairwise
from tests.layers.attention_cases import (
    BATCH,
    EXACT,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    LONGER,
    OUTPUT_DIM,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    VALUE_DIM,
    VALUE_WIDTH,
    assert_same_gradient,
    built,
    cross,
    finite_differences,
    masks_of,
    paper,
    paper_attention,
    prefix_mask,
    random,
    random_mask,
    weights_of,
)
from tests.layers.layer_contract import randomize

SCORES: dict[str, dict[str, Any]] = {"dot": {}, "unscaled": {"use_scale": False}, "additive": {"attention_score": "additive"}}
IMPLEMENTATIONS = {**FAST, "all_heads": MultiHeadAttention}
DEFINED = {
    "dot": ("all_heads", "fused", "per_head", "blockwise", "folded"),
    "unscaled": ("all_heads", "fused", "per_head", "blockwise", "folded"),
    "additive": ("all_heads", "fused", "per_head"),
}
EVERY_KIND = [
    (implementation, attention_score) for attention_score, implementations in DEFINED.items() for implementation in implementations
]


@functools.cache
def cross_layer(implementation: str = "fused", **arguments: Any) -> MultiHeadAttention:
    """A layer that tests share: none of them changes its weights."""
    return built(IMPLEMENTATIONS[implementation](**SIZES, **arguments), *cross().values())


def assert_same_output(output: Any, expected: Any) -> None:
    """Equal but for float32's rounding, which goes with the largest entry: implementations and processors add in an order of their own."""
    np.testing.assert_allclose(output, expected, atol=1e-5 * max(1.0, np.abs(np.array(expected)).max()), rtol=1e-5)


# The implementations agree


def output_and_gradients(layer: MultiHeadAttention, x: dict[str, np.ndarray], **masks: Any) -> tuple[np.ndarray, dict[str, Any]]:
    inputs = {name: tf.constant(value) for name, value in x.items()}
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = layer(**inputs, **masks)
        loss = tf.reduce_sum(output * random(*output.shape, seed=9))
    weights = {weight.name: weight.value for weight in layer.trainable_variables}
    return np.array(output), tape.gradient(loss, {**inputs, **weights})


def assert_same_gradients(gradients: dict[str, Any], expected: dict[str, Any], attention_score: str = "dot_product") -> None:
    assert gradients.keys() == expected.keys()
    rounding = max(1e-4, 1e-6 * max(float(np.abs(np.array(gradient)).max()) for gradient in expected.values()))
    for name, gradient in gradients.items():
        if name == "key_bias" and attention_score == "dot_product":  # the same for all keys: softmax does not see it
            assert np.abs(gradient).max() < rounding
        else:
            assert_same_gradient(gradient, expected[name], name)


@functools.cache
def fused_results(attention_score: str, masks: str) -> tuple[np.ndarray, dict[str, Any]]:
    return output_and_gradients(cross_layer(**SCORES[attention_score]), cross(), **masks_of(QUERIES, KEYS)[masks])


@pytest.mark.parametrize(
    ("implementation", "attention_score", "masks"),
    pairwise(
        [*IMPLEMENTATIONS],
        [*SCORES],
        [*masks_of(QUERIES, KEYS)],
        valid=lambda implementation, attention_score, _: implementation in ("auto", *DEFINED[attention_score]),
    ),
)
def test_all_implementations_equal_the_paper_and_one_another(implementation: str, attention_score: str, masks: str) -> None:
    x, given = cross(), masks_of(QUERIES, KEYS)[masks]
    layer = cross_layer(implementation, **SCORES[attention_score])
    allowed, gate = np.ones((BATCH, HEADS, QUERIES, KEYS), bool), None
    for name, mask in given.items():
        if name == "head_mask":
            gate = np.broadcast_to(mask, (BATCH, HEADS))
        elif name == "use_causal_mask":
            allowed = allowed & np.tri(QUERIES, KEYS, dtype=bool)
        elif name == "valid_lengths":
            allowed = allowed & (np.arange(KEYS) < mask.reshape(BATCH, 1, -1, 1))
        elif name == "attention_mask":
            allowed = allowed & (mask[:, None] if mask.ndim == 3 else mask)
        else:
            allowed = allowed & (mask[:, None, :, None] if name == "query_mask" else mask[:, None, None, :])
    expected, expected_weights = paper(layer, x, allowed, gate)
    output, gradients = output_and_gradients(layer, x, **given)
    assert_same_output(output, expected)
    fused_output, fused_gradients = fused_results(attention_score, masks)
    assert_same_output(output, fused_output)
    assert_same_gradients(gradients, fused_gradients, layer.attention_score)
    fused = cross_layer(**SCORES[attention_score])
    assert [(weight.name, weight.shape) for weight in layer.weights] == [(weight.name, weight.shape) for weight in fused.weights]
    with_weights, weights = layer(**x, **given, return_attention_scores=True)
    assert_same_output(with_weights, output)
    np.testing.assert_allclose(weights, expected_weights, **EXACT)
    assert (np.array(weights)[~allowed] == 0).all()


@pytest.mark.parametrize(
    ("implementation", "masks"),
    [
        *(("blockwise", masks) for masks in masks_of(LONGER, LONGER)),
        *((implementation, masks) for implementation in ("per_head", "folded") for masks in ("none", "all-together")),
    ],
)
def test_all_implementations_agree_over_several_blocks(implementation: str, masks: str) -> None:
    x, given = cross(LONGER, LONGER), masks_of(LONGER, LONGER)[masks]
    output, gradients = output_and_gradients(cross_layer(), x, **given)
    ours, our_gradients = output_and_gradients(cross_layer(implementation), x, **given)
    assert_same_output(ours, output)
    assert_same_gradients(our_gradients, gradients)


def test_dropped_weights_do_not_sum_to_one_and_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = random_mask(KEYS) * 2.0
    monkeypatch.setattr(keras.random, "dropout", lambda weights, rate, seed: weights * kept)
    wide = max(KEY_WIDTH, VALUE_WIDTH)
    sizes = {**SIZES, "key_dim": wide, "value_dim": wide}
    layers = [built(IMPLEMENTATIONS[implementation](**sizes, dropout=0.5), *cross().values()) for implementation in ("fused", "auto")]
    fused, auto = (layer(**cross(), training=True) for layer in layers)
    assert_same_output(auto, fused)
    assert np.abs(np.array(fused) - np.array(layers[0](**cross()))).max() > 0.1


# Nothing there

EMPTY = {"no-keys": (BATCH, QUERIES, 0), "no-queries": (BATCH, 0, KEYS), "no-entries": (0, QUERIES, KEYS), "nothing": (0, 0, 0)}


@pytest.mark.parametrize("implementation", [*IMPLEMENTATIONS])
def test_of_nothing_comes_the_output_bias(implementation: str) -> None:
    wide = max(KEY_WIDTH, VALUE_WIDTH)  # which auto folds
    layer = built(IMPLEMENTATIONS[implementation](**{**SIZES, "key_dim": wide, "value_dim": wide}), *cross().values())
    weights = {weight.name: weight.value for weight in layer.trainable_variables}

    def run(query: Any, value: Any, key: Any, value_mask: Any, attention_mask: Any) -> Any:
        with tf.GradientTape() as tape:
            output = layer(query, value, key, value_mask=value_mask, attention_mask=attention_mask, use_causal_mask=True)
            loss = tf.reduce_sum(output)
        return output, tape.gradient(loss, weights)

    specs = [tf.TensorSpec([None, None, width]) for width in (QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH)]
    masks = [tf.TensorSpec([None, None], tf.bool), tf.TensorSpec([None, HEADS, None, None], tf.bool)]
    compiled = tf.function(run, input_signature=[*specs, *masks])
    for batch, queries, keys in EMPTY.values():
        x = [random(batch, size, width) for size, width in ((queries, QUERY_WIDTH), (keys, VALUE_WIDTH), (keys, KEY_WIDTH))]
        inputs = [tf.constant(each) for each in (*x, np.ones((batch, keys), bool), np.ones((batch, HEADS, queries, keys), bool))]
        for function in (run, compiled) if implementation == "auto" else (run,):
            output, gradients = function(*inputs)
            np.testing.assert_array_equal(output, np.broadcast_to(layer.output_bias, (batch, queries, OUTPUT_DIM)))
            for name, gradient in gradients.items():
                np.testing.assert_array_equal(gradient, np.full(gradient.shape, batch * queries if name == "output_bias" else 0.0))
        _, attention_weights = layer(*x, return_attention_scores=True)
        assert attention_weights.shape == (batch, HEADS, queries, keys)


@pytest.mark.filterwarnings("error:You are using a softmax")
@pytest.mark.parametrize(("implementation", "attention_score"), EVERY_KIND)
def test_a_single_key_is_looked_at_without_a_warning(implementation: str, attention_score: str) -> None:
    layer, x = cross_layer(implementation, **SCORES[attention_score]), cross(keys=1)
    allowed = prefix_mask([1, 1, 0], 1)
    output, gradients = output_and_gradients(layer, x, value_mask=allowed)
    assert_same_output(output, paper(layer, x, allowed[:, None, None])[0])
    for name in ("query", "key"):  # nothing but this key is there to be looked at
        assert gradients[name] is None or np.abs(gradients[name]).max() < 1e-6


# Gradients


@pytest.mark.parametrize("attention_score", SCORES)
def test_gradients_equal_finite_differences(attention_score: str) -> None:
    """Of the fused implementation, which the others equal."""
    x = {"query": random(2, 2, 3), "value": random(2, 5, 2), "key": random(2, 5, 3)}
    layer = built(MultiHeadAttention(2, 3, value_dim=2, output_dim=5, **SCORES[attention_score]), *x.values())
    allowed = random_mask(2, 2, 2, 5)
    allowed[1, :, 1] = False
    gate, upstream = np.array([[1.0, -0.5], [2.0, 0.3]]), random(2, 2, 5, seed=9)
    _, gradients = output_and_gradients(layer, x, attention_mask=allowed, head_mask=gate.astype(np.float32))

    exact = {**weights_of(layer), **{name: value.astype(float) for name, value in x.items()}}

    def loss() -> float:
        return float((paper_attention(exact, allowed, gate, layer.use_scale)[0] * upstream).sum())

    assert_same_gradients(gradients, {name: finite_differences(loss, exact[name]) for name in gradients}, layer.attention_score)


# Mixed precision


@pytest.mark.parametrize(("implementation", "attention_score"), EVERY_KIND)
def test_mixed_precision_is_close_to_float32(implementation: str, attention_score: str) -> None:
    x = cross()
    layers = [IMPLEMENTATIONS[implementation](**SIZES, dtype=dtype, **SCORES[attention_score]) for dtype in ("float32", "mixed_bfloat16")]
    for layer in layers:
        layer(*x.values())
        randomize(layer, scale=0.2)
    exact, mixed = (layer(**x, valid_lengths=[7, 3, 0]) for layer in layers)
    assert mixed.dtype == tf.bfloat16
    # A processor without instructions for bfloat16 rounds sums, too, and errs about twice as far.
    np.testing.assert_allclose(tf.cast(mixed, "float32"), exact, atol=4e-2 * np.abs(exact).max())
    (_, weights), (_, mixed_weights) = (layer(**x, valid_lengths=[7, 3, 0], return_attention_scores=True) for layer in layers)
    assert mixed_weights.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(mixed_weights, "float32"), weights, atol=3e-2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("function", [lambda *x: scaled_dot_product_attention(*x)[0], blockwise_attention], ids=["plain", "blockwise"])
def test_scores_beyond_float16_equal_torch(function: Callable[..., Any], masked: bool) -> None:
    # Halves, and a scale of 1/4: float32 holds all scores exactly, in whatever order they are added up.
    q, k = (np.round(2 * random(BATCH, HEADS, size, 16)).astype(np.float16) / 2 for size in (QUERIES, KEYS))
    q[..., 0], k[..., 0] = 1000.0, 320.0  # a score of 80,000
    v = random(BATCH, HEADS, KEYS, VALUE_DIM).astype(np.float16)
    mask = random_mask(BATCH, 1, QUERIES, KEYS) if masked else None
    inputs = [tf.constant(x) for x in (q, k, v)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        mixed = function(*inputs, mask)
        loss = tf.reduce_sum(mixed)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, v)), attn_mask=mask if mask is None else torch.tensor(mask)
    )
    assert mixed.dtype == tf.float16
    np.testing.assert_allclose(mixed, theirs, atol=2**-9, rtol=2**-9)
    assert all(np.isfinite(gradient).all() for gradient in tape.gradient(loss, inputs))


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_score": "cosine"}, r"attention_score is 'cosine'; choose from dot_product, additive"),
        ({"dropout": 1.0}, r"dropout is 1\.0; it must be at least 0 and below 1"),
        ({"value_dim": 0}, "value_dim is 0; it must be at least 1"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        MultiHeadAttention(HEADS, KEY_DIM, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head_mask": np.ones(3)}, r"head_mask has shape \(3,\); it takes \(2,\) or \(batch, 2\), one number per head"),
        ({"head_mask": np.ones((BATCH + 1, HEADS))}, "head_mask is for 4 entries; it takes 3, or 1 for all alike"),
        ({"query": random(BATCH, QUERIES, 16)}, r"query has shape \(3, 5, 16\); it takes \(batch, length, 17\)"),
        ({"query": random(2, QUERIES, QUERY_WIDTH)}, "query has 2 entries and value has 3; both need the same number"),
        ({"key": random(BATCH, 6, KEY_WIDTH)}, "value has 7 positions and key has 6; both need the same number"),
        ({"value_mask": np.ones((BATCH, 6), bool)}, "value_mask is for 6 keys; it takes 7, or 1 for all alike"),
        ({"value_mask": np.ones((BATCH, 1, KEYS), bool)}, r"a padding mask has 3 axes; it takes 2, \(batch, length\)"),
        ({"attention_mask": np.ones((BATCH, 4, QUERIES, KEYS), bool)}, "attention_mask is for 4 heads; it takes 2, or 1 for all alike"),
        ({"attention_mask": np.ones(KEYS, bool)}, r"attention_mask has 1 axes; it takes \(L, M\), \(B, L, M\) or \(B, H, L, M\)"),
        ({"valid_lengths": 3}, r"valid_lengths has 0 axes; it takes 1 \(one number per entry\) or 2 \(one number per query\)"),
    ],
)
def test_inputs_of_the_wrong_shape_are_refused(arguments: dict[str, Any], message: str) -> None:
    layer = cross_layer()
    with pytest.raises(ValueError, match=message):
        layer(**{**cross(), **arguments})
