"""Which computation the fast attention layer chooses."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.layers import BlockwiseAttention, FastAttention, MultiHeadAttention, blockwise_attention
from mha_cli.layers.fast import attention
from mha_cli.layers.fast.attention import number_of_weights
from tests.layers.attention_cases import EXACT, assert_same_gradient, built, random

MOST_WEIGHTS = 300  # what ``FastAttention`` computes at once in these tests
WIDTH = 3  # of the inputs: wider than a head, so that ``FastAttention`` does not fold


@pytest.fixture
def blocks_add_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it seen which function ran: block by block, every mixed value is 1 too large."""
    monkeypatch.setattr(attention, "blockwise_attention", lambda *arguments, **scaled: blockwise_attention(*arguments, **scaled) + 1.0)
    monkeypatch.setattr(attention, "MOST_SCORES_AT_ONCE", MOST_WEIGHTS)


def auto_and_fused(**arguments: Any) -> list[MultiHeadAttention]:
    """A fast and a plain layer, whose output is the mixed values themselves."""
    layers = [kind(1, 2, output_dim=2, use_bias=False, **arguments) for kind in (FastAttention, MultiHeadAttention)]
    for layer in layers:
        built(layer, random(1, 3, WIDTH))
        layer.output_kernel.assign(np.eye(2)[None])
    return layers


@pytest.mark.parametrize("known", [True, False], ids=["known-length", "unknown-length"])
@pytest.mark.usefixtures("blocks_add_one")
def test_auto_takes_blocks_where_there_would_be_many_weights(known: bool) -> None:
    auto, fused = auto_and_fused()
    compiled = tf.function(auto, input_signature=[tf.TensorSpec([None, None, WIDTH])] * 2)  # traced once for all sizes
    for batch, queries, keys in ((1, 3, 3), (1, 3, 100), (1, 3, 101), (1, 101, 3), (4, 3, 25), (4, 3, 26)):
        query, value = random(batch, queries, WIDTH), random(batch, keys, WIDTH)
        expected = np.array(fused(query, value)) + (batch * queries * keys > MOST_WEIGHTS)
        for function in (auto, tf.function(auto)) if known else (compiled,):
            np.testing.assert_allclose(function(query, value), expected, **EXACT, err_msg=str((batch, queries, keys)))


@pytest.mark.parametrize("key_dim", [WIDTH + 1, WIDTH - 1], ids=["wide", "narrow"])
@pytest.mark.parametrize("length", [7, 20], ids=["at-once", "by-blocks"])
@pytest.mark.parametrize("known", [pytest.param(True, marks=pytest.mark.exhaustive), False], ids=["known-length", "unknown-length"])
def test_auto_folds_wide_heads_and_learns_as_fused(known: bool, length: int, key_dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    blocks = lambda *arguments, **scaled: calls.append(0) or blockwise_attention(*arguments, **scaled)  # noqa: E731
    monkeypatch.setattr(attention, "blockwise_attention", blocks)
    monkeypatch.setattr(attention, "MOST_SCORES_AT_ONCE", MOST_WEIGHTS)
    folds = attention.folded_attention
    monkeypatch.setattr(attention, "folded_attention", lambda *arguments: calls.append(1) or folds(*arguments))
    x = tf.constant(random(2, length, WIDTH))
    layers = [built(kind(2, key_dim), x) for kind in (MultiHeadAttention, FastAttention)]
    weigh = tf.constant(random(2, length, WIDTH, seed=9))

    def gradients(x: Any, layer: MultiHeadAttention) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * weigh)
        return loss, *tape.gradient(loss, [x, *layer.trainable_variables])

    spec = tf.TensorSpec(x.shape if known else [None, None, WIDTH])
    fused, folded = (tf.function(functools.partial(gradients, layer=layer), input_signature=[spec])(x) for layer in layers)
    for one, other in zip(fused, folded, strict=True):
        assert_same_gradient(other, one, least=1.0)  # the key bias has none but for rounding
    assert (1 in calls) == (key_dim > WIDTH)
    assert (0 in calls) == (length == 20 or not known)


def test_more_weights_than_an_int32_counts() -> None:
    q, k = np.zeros((32, 8, 8192, 0), np.float32), np.zeros((32, 8, 8193, 0), np.float32)
    assert number_of_weights(q, k) == 32 * 8 * 8192 * 8193
    unknown = tf.function(number_of_weights, input_signature=[tf.TensorSpec([None, 8, None, 0])] * 2)
    assert float(unknown(q, k)) == pytest.approx(32 * 8 * 8192 * 8193)


@pytest.mark.parametrize("kind", [FastAttention, BlockwiseAttention])
@pytest.mark.usefixtures("blocks_add_one")
def test_returned_weights_are_computed_at_once(kind: type[MultiHeadAttention]) -> None:
    query, value = random(1, 3, 2), random(1, 2 * MOST_WEIGHTS, 2)
    layer, fused = (
        built(kind(1, 2), query, value),
        built(MultiHeadAttention(1, 2), query, value),
    )
    for ours, expected in zip(*(one(query, value, return_attention_scores=True) for one in (layer, fused)), strict=True):
        np.testing.assert_allclose(ours, expected, **EXACT)
