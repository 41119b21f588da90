"""The layers that pretrained encoders need honour the contract of all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers import POOLINGS, FirstPosition, GlobalMeanPooling1D, PositionalEmbedding, TransformerEncoder
from tests.layers.layer_contract import check_layer, randomize

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
MASK = np.arange(5) < np.array([5, 3, 0])[:, None]


@pytest.mark.parametrize("layer", [GlobalMeanPooling1D, FirstPosition])
def test_poolings_honour_the_layer_contract(layer: type[keras.Layer], tmp_path: Path) -> None:
    check_layer(layer, {}, [INPUTS], (3, 7), tmp_path, keeps_mask=False)


def test_an_encoder_with_an_epsilon_honours_the_layer_contract(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "embed_dim": 7, "feed_forward_dim": 11, "num_heads": 3, "key_dim": 5, "value_dim": 2, "use_bias": True, "normalization": "post",
        "activation": "gelu", "attention_dropout": 0.1, "dropout": 0.2, "attention_score": "dot_product", "use_scale": True,
        "attention_implementation": "fused", "norm_epsilon": 1e-12,
    }  # fmt: skip
    at_default = ["use_bias", "normalization", "attention_score", "use_scale"]
    check_layer(
        TransformerEncoder,
        arguments,
        [INPUTS],
        (3, 5, 7),
        tmp_path,
        keeps_mask=True,
        at_default=at_default,
        weights_without_gradient=["key_bias"],
    )


def test_an_embedding_with_a_norm_honours_the_layer_contract(tmp_path: Path) -> None:
    arguments = {
        "sequence_length": 11, "vocabulary_size": 13, "embed_dim": 7, "positions": "learned", "norm_epsilon": 1e-12, "dropout": 0.1,
        "token_options": {"max_ngram": 2, "ngram_buckets": 16},
    }  # fmt: skip
    ids = np.array([[3, 1, 12, 7, 3], [2, 5, 4, 1, 0], [1, 2, 3, 0, 0]], np.int32)
    check_layer(PositionalEmbedding, arguments, [ids], (3, 5, 7), tmp_path, keeps_mask=True, at_default=["positions"])


def test_norms_take_their_epsilon() -> None:
    for epsilon in (1e-12, 1e-3):
        layer = PositionalEmbedding(sequence_length=5, vocabulary_size=13, embed_dim=7, norm_epsilon=epsilon)
        ids = np.array([[3, 1, 12]], np.int32)
        layer(ids)
        randomize(layer, scale=0.03)
        sums = np.array(layer.token_embedding(ids)) + np.array(layer.position_table())[:3]
        centred = sums - sums.mean(-1, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * np.array(layer.norm.gamma) + np.array(
            layer.norm.beta
        )
        np.testing.assert_allclose(layer(ids), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_mean_leaves_padding_out_in_value_and_gradient(dtype: str) -> None:
    inputs = tf.cast(INPUTS, dtype)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        pooled = POOLINGS["mean"](dtype=dtype)(inputs, mask=MASK)
    assert pooled.dtype == inputs.dtype
    expected = np.stack([INPUTS[0].mean(0), INPUTS[1, :3].mean(0), np.zeros(7)])
    np.testing.assert_allclose(tf.cast(pooled, "float32"), expected, atol=1e-5 if dtype == "float32" else 2e-2)
    gradient = tf.cast(tape.gradient(pooled, inputs), "float32")
    np.testing.assert_allclose(gradient[..., 0], MASK / np.maximum(MASK.sum(1, keepdims=True), 1), atol=2e-3)


def test_without_padding_the_mean_equals_keras() -> None:
    theirs = keras.layers.GlobalAveragePooling1D()
    np.testing.assert_allclose(GlobalMeanPooling1D()(INPUTS), theirs(INPUTS), atol=1e-6)
    np.testing.assert_allclose(GlobalMeanPooling1D()(INPUTS[:2], mask=MASK[:2]), theirs(INPUTS[:2], mask=MASK[:2]), atol=1e-6)
