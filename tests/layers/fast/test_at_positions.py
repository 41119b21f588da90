from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from attention_cases import prefix_mask, random
from layer_contract import randomize

from mha_cli.layers import TransformerEncoder
from mha_cli.layers.fast.at_positions import encode_at

INPUTS, REAL = random(3, 7, 10), prefix_mask([7, 4, 1], 7)


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_some_positions_are_encoded_like_all(normalization: str) -> None:
    layer, positions = TransformerEncoder(10, 17, 2, normalization=normalization), np.array([[2, 0, 2], [1, 1, 0], [0, 3, 1]])
    layer(INPUTS)
    randomize(layer)
    upstream = random(*positions.shape, 10, seed=1)
    results = []
    for some in (True, False):
        x = tf.constant(INPUTS)
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = encode_at(layer, x, positions, REAL) if some else tf.gather(layer(x, mask=REAL), positions, batch_dims=1)
            loss = tf.reduce_sum(output * upstream)
        results.append([output, *tape.gradient(loss, [x, *[weight.value for weight in layer.trainable_variables]])])
    assert results[0][0].shape == (*positions.shape, 10)
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-5, rtol=1e-5)
