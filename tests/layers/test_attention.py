from inspect import signature
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from mha_cli.layers import BlockwiseAttention, FastAttention, MultiHeadAttention
from tests.layers.attention_cases import (
    BATCH,
    EXACT,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    OUTPUT_DIM,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    VALUE_DIM,
    VALUE_WIDTH,
    built,
    keras_twin,
    prefix_mask,
    random,
    random_mask,
)
from tests.layers.layer_contract import check_layer

PARTS = {
    "num_key_value_heads": 1,
    "rotary_base": 50.0,
    "linear_biases": True,
    "max_distance": 3,
    "query_key_norm": "layer",
    "norm_epsilon": 1e-3,
}
NO_PARTS = {**dict.fromkeys(PARTS), "linear_biases": False, "norm_epsilon": 1e-6}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (MultiHeadAttention, {"attention_score": "additive", "head_by_head": True, "linear_biases": True, "num_key_value_heads": 1}),
        (BlockwiseAttention, {}),
        (MultiHeadAttention, {**PARTS, "key_dim": 10}),
        (FastAttention, {**PARTS, "key_dim": 10, "linear_biases": False, "query_key_norm": "rms", "use_bias": False}),
    ],
    ids=["additive", "blockwise", "parts", "fast-parts"],
)
def test_honours_the_layer_contract(kind: type[MultiHeadAttention], changes: dict[str, Any], tmp_path: Path) -> None:
    plain = {"use_bias": True, "attention_score": "dot_product", "use_scale": True, "head_by_head": False, **NO_PARTS}
    arguments = {**SIZES, "dropout": 0.1, **plain, **changes}
    check_layer(
        kind,
        arguments,
        [random(BATCH, QUERIES, QUERY_WIDTH), random(BATCH, KEYS, VALUE_WIDTH)],
        (BATCH, QUERIES, OUTPUT_DIM),
        tmp_path,
        keeps_mask=True,
        at_default=[name for name in plain if arguments[name] == plain[name]],
        # A key bias adds the same to all dot products of a query, which softmax does not see.
        weights_without_gradient=["key_bias"] if kind is BlockwiseAttention else [],
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
def test_equals_keras(arguments: dict[str, Any], widths: list[int]) -> None:
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


def test_masks_of_embeddings_arrive_by_themselves_in_self_attention() -> None:
    real, allowed = prefix_mask([5, 3, 1], QUERIES), random_mask(BATCH, QUERIES, QUERIES)
    token_ids = np.where(real, np.arange(1, QUERIES + 1), 0).astype(np.int32)
    normal = keras.initializers.RandomNormal(0.0, 1.0, seed=0)
    embed = keras.layers.Embedding(QUERIES + 1, QUERY_WIDTH, mask_zero=True, embeddings_initializer=normal)
    query = np.array(embed(token_ids))
    layer = built(MultiHeadAttention(HEADS, KEY_DIM), query)
    output = np.array(layer(embed(token_ids), attention_mask=allowed))
    theirs = keras_twin(layer, query, query)(embed(token_ids), embed(token_ids), attention_mask=allowed)
    np.testing.assert_allclose(output[real], np.array(theirs)[real], **EXACT)
    for given in ({"mask": real}, {"query_mask": real}, {"query_mask": real, "value_mask": real}):
        np.testing.assert_allclose(layer(query, **given, attention_mask=allowed), output, **EXACT)
    np.testing.assert_allclose(layer(query, query, query_mask=real, value_mask=real, attention_mask=allowed), output, **EXACT)


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


def test_weights_are_returned_as_they_were_before_dropout() -> None:
    query = random(BATCH, QUERIES, QUERY_WIDTH)
    layer = built(MultiHeadAttention(HEADS, KEY_DIM, dropout=0.5), query)
    output, weights = layer(query, training=True, return_attention_scores=True)
    assert np.abs(output - layer(query, training=True)).max() > 0.1
    np.testing.assert_array_equal(weights, layer(query, return_attention_scores=True)[1])
