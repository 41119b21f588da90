from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from attention_cases import (
    BATCH,
    EXACT,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    OUTPUT_DIM,
    QUERIES,
    QUERY_WIDTH,
    VALUE_DIM,
    VALUE_WIDTH,
    built,
    keras_twin,
    prefix_mask,
    random,
    random_mask,
    reference_attention,
)
from layer_contract import check_layer

from mha_cli.layers.attention import MultiHeadAttention, scaled_dot_product_attention

if TYPE_CHECKING:
    from pathlib import Path

TORCH_WIDTH = HEADS * KEY_DIM  # PyTorch wants the heads to share the width out


def torch_twin(layer: MultiHeadAttention) -> torch.nn.MultiheadAttention:
    """PyTorch's module with the same weights, for layers with as much width as PyTorch wants."""
    kernels = [np.array(kernel) for kernel in (layer.query_kernel, layer.key_kernel, layer.value_kernel)]
    kernels = [kernel.reshape(len(kernel), TORCH_WIDTH).T for kernel in kernels]
    theirs = torch.nn.MultiheadAttention(
        TORCH_WIDTH, HEADS, bias=layer.use_bias, kdim=kernels[1].shape[1], vdim=kernels[2].shape[1], batch_first=True
    )
    state = {"out_proj.weight": np.array(layer.output_kernel).reshape(TORCH_WIDTH, TORCH_WIDTH).T}
    if kernels[1].shape == kernels[2].shape == kernels[0].shape:
        state["in_proj_weight"] = np.concatenate(kernels)
    else:
        state |= {f"{name}_proj_weight": kernel for name, kernel in zip("qkv", kernels, strict=True)}
    if layer.use_bias:
        biases = (layer.query_bias, layer.key_bias, layer.value_bias)
        state["in_proj_bias"] = np.concatenate([np.array(bias).ravel() for bias in biases])
        state["out_proj.bias"] = np.array(layer.output_bias)
    theirs.load_state_dict({name: torch.tensor(weight) for name, weight in state.items()})
    return theirs


@pytest.mark.parametrize(
    ("use_bias", "attention_score", "implementation"), [(True, "additive", "per_head"), (False, "dot_product", "blockwise")]
)
def test_honours_the_layer_contract(use_bias: bool, attention_score: str, implementation: str, tmp_path: Path) -> None:
    sizes = {"num_heads": HEADS, "key_dim": KEY_DIM, "value_dim": VALUE_DIM, "output_dim": OUTPUT_DIM}
    check_layer(
        MultiHeadAttention,
        {
            **sizes,
            "use_bias": use_bias,
            "dropout": 0.1,
            "attention_score": attention_score,
            "use_scale": True,
            "implementation": implementation,
        },
        [random(BATCH, QUERIES, QUERY_WIDTH), random(BATCH, KEYS, VALUE_WIDTH)],
        (BATCH, QUERIES, OUTPUT_DIM),
        tmp_path,
        keeps_mask=True,
        at_default=["use_bias", "use_scale"] if use_bias else ["attention_score", "use_scale"],
        # A key bias adds the same to all dot products of a query, which softmax does not see.
        weights_without_gradient=[] if attention_score == "additive" else ["key_bias"],
    )


@pytest.mark.parametrize(
    ("arguments", "widths"),
    [
        ({}, [QUERY_WIDTH]),
        ({"value_dim": VALUE_DIM}, [QUERY_WIDTH, VALUE_WIDTH]),
        ({"value_dim": VALUE_DIM, "output_dim": OUTPUT_DIM}, [QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH]),
        ({"use_bias": False, "value_dim": VALUE_DIM, "output_dim": OUTPUT_DIM}, [QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH]),
    ],
    ids=["self", "cross", "cross-three-widths", "cross-no-bias"],
)
def test_equals_keras_and_the_paper(arguments: dict[str, Any], widths: list[int]) -> None:
    inputs = [random(BATCH, KEYS if number else QUERIES, width) for number, width in enumerate(widths)]
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, **arguments), *inputs)
    query, value = inputs[0], inputs[min(1, len(inputs) - 1)]
    key = inputs[2] if len(inputs) == 3 else None

    output, weights = layer(*inputs, return_attention_scores=True)

    np.testing.assert_array_equal(layer(*inputs), output)
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1.0, **EXACT)
    theirs, their_weights = keras_twin(layer, query, value, key)(query, value, key, return_attention_scores=True)
    np.testing.assert_allclose(output, theirs, **EXACT)
    np.testing.assert_allclose(weights, their_weights, **EXACT)
    expected, expected_weights = reference_attention(layer, query, value, value if key is None else key, np.array(1.0))
    np.testing.assert_allclose(output, expected, **EXACT)
    np.testing.assert_allclose(weights, expected_weights, **EXACT)


MASKS = {
    "value-and-key": {"value_mask": prefix_mask([7, 4, 2], KEYS), "key_mask": prefix_mask([6, 5, 2], KEYS)},
    "rank-4": {"attention_mask": random_mask(BATCH, HEADS, QUERIES, KEYS)},
    "attention-and-value": {"attention_mask": random_mask(BATCH, QUERIES, KEYS), "value_mask": prefix_mask([7, 4, 1], KEYS)},
    "integers": {"attention_mask": random_mask(BATCH, QUERIES, KEYS).astype(np.int32)},
    "a-query-that-looks-nowhere": {"attention_mask": random_mask(BATCH, QUERIES, KEYS) & (np.arange(QUERIES) != 2)[:, None]},
    "nothing-to-look-at": {"value_mask": prefix_mask([7, 0, 1], KEYS)},
}


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS.keys())
def test_masks_equal_keras(masks: dict[str, np.ndarray]) -> None:
    query, value = random(BATCH, QUERIES, QUERY_WIDTH), random(BATCH, KEYS, VALUE_WIDTH)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM), query, value)
    allowed = np.ones((BATCH, HEADS, QUERIES, KEYS), dtype=bool)
    for name, mask in masks.items():
        if name == "attention_mask":
            allowed &= (mask if mask.ndim == 4 else mask[:, None]).astype(bool)
        else:
            allowed &= mask[:, None, None, :]

    output, weights = layer(query, value, **masks, return_attention_scores=True)

    # Keras lets a query that may look nowhere look everywhere.
    looks_BHL = allowed.any(axis=-1)
    looks_BL = looks_BHL.all(axis=1)
    twin = keras_twin(layer, query, value)
    np.testing.assert_allclose(np.array(output)[looks_BL], np.array(twin(query, value, **masks))[looks_BL], **EXACT)
    theirs, their_weights = twin(query, value, **masks, return_attention_scores=True)
    np.testing.assert_allclose(np.array(output)[looks_BL], np.array(theirs)[looks_BL], **EXACT)
    np.testing.assert_allclose(np.array(weights)[looks_BHL], np.array(their_weights)[looks_BHL], **EXACT)


@pytest.mark.parametrize("with_attention_mask", [False, True])
def test_masks_of_embeddings_arrive_by_themselves_in_self_attention(with_attention_mask: bool) -> None:
    real = prefix_mask([5, 3, 1], QUERIES)
    token_ids = np.where(real, np.arange(1, QUERIES + 1), 0).astype(np.int32)
    normal = keras.initializers.RandomNormal(0.0, 1.0, seed=0)
    embed = keras.layers.Embedding(QUERIES + 1, QUERY_WIDTH, mask_zero=True, embeddings_initializer=normal)
    query = np.array(embed(token_ids))
    layer = built(MultiHeadAttention(HEADS, KEY_DIM), query)
    twin = keras_twin(layer, query, query)
    allowed = random_mask(BATCH, QUERIES, QUERIES)
    mask = {"attention_mask": allowed} if with_attention_mask else {}

    output = np.array(layer(embed(token_ids), **mask))

    allowed = real[:, None, :, None] & real[:, None, None, :] & (allowed[:, None] if with_attention_mask else True)
    np.testing.assert_allclose(output, reference_attention(layer, query, query, query, allowed)[0], **EXACT)
    np.testing.assert_allclose(output[real], np.array(twin(embed(token_ids), embed(token_ids), **mask))[real], **EXACT)
    for given in ({"mask": real}, {"query_mask": real}, {"query_mask": real, "value_mask": real}):
        np.testing.assert_allclose(layer(query, **given, **mask), output, **EXACT)
    np.testing.assert_allclose(layer(query, query, query_mask=real, value_mask=real, **mask), output, **EXACT)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(embed(inputs), **mask))
    np.testing.assert_allclose(model(token_ids), output, **EXACT)


def test_attention_scores_come_out_of_a_model_too() -> None:
    query, value = random(BATCH, QUERIES, QUERY_WIDTH), random(BATCH, KEYS, VALUE_WIDTH)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, output_dim=OUTPUT_DIM), query, value)
    symbolic_query, symbolic_value = keras.Input((None, QUERY_WIDTH)), keras.Input((None, VALUE_WIDTH))
    output, weights = layer(symbolic_query, symbolic_value, return_attention_scores=True)
    assert tuple(output.shape) == (None, None, OUTPUT_DIM)
    assert tuple(weights.shape) == (None, HEADS, None, None)
    model = keras.Model([symbolic_query, symbolic_value], [output, weights])
    for ours, expected in zip(model([query, value]), layer(query, value, return_attention_scores=True), strict=True):
        np.testing.assert_allclose(ours, expected, **EXACT)


def test_arguments_stand_in_keras_order() -> None:
    ours, theirs = ([*signature(kind.call).parameters] for kind in (MultiHeadAttention, keras.layers.MultiHeadAttention))
    assert ours[: len(theirs)] == theirs


@pytest.mark.parametrize(("cross", "use_bias"), [(True, True), (False, True), (True, False)])
def test_equals_torch(cross: bool, use_bias: bool) -> None:
    query = random(BATCH, QUERIES, TORCH_WIDTH)
    value, key = (random(BATCH, KEYS, VALUE_WIDTH), random(BATCH, KEYS, KEY_WIDTH)) if cross else (query, query)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, use_bias=use_bias), query, value, key)
    twin = torch_twin(layer)
    num_keys = key.shape[1]
    real_BM = prefix_mask([num_keys, 3, 1], num_keys)
    allowed_BHLM = random_mask(BATCH, HEADS, QUERIES, num_keys)
    allowed_LM = random_mask(QUERIES, num_keys)
    padding = {"value_mask": real_BM}
    cases: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = [
        ({}, {}),
        (padding, {"key_padding_mask": ~real_BM}),
        ({"attention_mask": allowed_LM[None]}, {"attn_mask": ~allowed_LM}),
        ({"attention_mask": allowed_BHLM}, {"attn_mask": ~allowed_BHLM.reshape(-1, QUERIES, num_keys)}),
        ({**padding, "attention_mask": allowed_LM[None]}, {"key_padding_mask": ~real_BM, "attn_mask": ~allowed_LM}),
    ]
    for our_masks, their_masks in cases:
        output, weights = layer(query, value, key, **our_masks, return_attention_scores=True)
        for average in (False, True):
            theirs, their_weights = twin(
                *map(torch.tensor, (query, key, value)),
                **{name: torch.tensor(mask) for name, mask in their_masks.items()},
                average_attn_weights=average,
            )
            np.testing.assert_allclose(output, theirs.detach(), **EXACT)
            np.testing.assert_allclose(np.mean(weights, axis=1) if average else weights, their_weights.detach(), **EXACT)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_that_look_nowhere_are_zero_with_finite_gradients(dtype: str) -> None:
    q = tf.cast(random(BATCH, HEADS, QUERIES, KEY_DIM) * 30, dtype)
    k = tf.cast(random(BATCH, HEADS, KEYS, KEY_DIM) * 30, dtype)
    v = tf.cast(random(BATCH, HEADS, KEYS, VALUE_DIM), dtype)
    mask = random_mask(BATCH, 1, QUERIES, KEYS)
    mask[1], mask[2, :, 3] = False, False
    with tf.GradientTape() as tape:
        tape.watch([q, k, v])
        mixed, weights = scaled_dot_product_attention(q, k, v, mask)
        loss = tf.reduce_sum(tf.square(mixed)) + tf.reduce_sum(tf.square(weights))
    assert mixed.dtype == weights.dtype == v.dtype
    for result in (mixed, weights):
        result = tf.cast(result, "float32").numpy()
        assert np.isfinite(result).all()
        assert (result[1] == 0).all()
        assert (result[2, :, 3] == 0).all()
        assert (result[0] != 0).any(axis=-1).all()
    gradients = [tf.cast(gradient, "float32").numpy() for gradient in tape.gradient(loss, [q, k, v])]
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert all((gradient[1] == 0).all() for gradient in gradients)
    assert (gradients[0][2, :, 3] == 0).all()
    assert all((gradient[0] != 0).any() for gradient in gradients)


@pytest.mark.parametrize(("use_bias", "dtype"), [(True, "mixed_bfloat16"), (False, "float32")])
def test_a_layer_with_nothing_to_look_at_gives_the_output_bias_with_finite_gradients(use_bias: bool, dtype: str) -> None:
    query = random(BATCH, QUERIES, QUERY_WIDTH)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, use_bias=use_bias, dtype=dtype), query)
    real = prefix_mask([5, 0, 2], QUERIES)
    with tf.GradientTape() as tape:
        output, weights = layer(query, query_mask=real, return_attention_scores=True)
        loss = tf.reduce_sum(tf.square(tf.cast(output, "float32")))
    nothing = tf.cast(layer.output_bias.value, output.dtype) if use_bias else tf.zeros(QUERY_WIDTH, output.dtype)
    for row in (output[1], output[2, 2:]):
        np.testing.assert_array_equal(tf.cast(row, "float32"), tf.broadcast_to(tf.cast(nothing, "float32"), row.shape))
    assert (tf.cast(weights[1], "float32").numpy() == 0).all()
    assert (tf.cast(weights[2, :, 2:], "float32").numpy() == 0).all()
    for gradient in tape.gradient(loss, layer.trainable_variables):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("score", [1e6, np.inf])
def test_a_masked_key_has_no_weight_however_high_its_score(score: float) -> None:
    q, k = np.ones((1, 1, 1, 1), np.float32), np.array([score, 1.0, -1e3], np.float32).reshape(1, 1, 3, 1)
    _, weights = scaled_dot_product_attention(tf.constant(q), tf.constant(k), tf.constant(k), np.array([False, True, False]))
    np.testing.assert_array_equal(np.ravel(weights), [0.0, 1.0, 0.0])


def test_dropout_is_active_only_in_training() -> None:
    query = random(BATCH, QUERIES, QUERY_WIDTH)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, dropout=0.5), query)
    plain = built(MultiHeadAttention(HEADS, KEY_DIM), query)
    np.testing.assert_array_equal(layer(query), plain(query))
    np.testing.assert_array_equal(layer(query, training=False), plain(query))
    output, weights = layer(query, training=True, return_attention_scores=True)
    assert np.abs(output - plain(query)).max() > 0.1
    assert np.abs(output - layer(query, training=True)).max() > 0.1
    np.testing.assert_array_equal(weights, plain(query, return_attention_scores=True)[1])  # as they were before dropout
    np.testing.assert_array_equal(plain(query, training=True), plain(query))
