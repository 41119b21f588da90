from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch

from mha_cli.layers import TransformerEncoder
from tests.layers.layer_contract import check_layer, randomize

BATCH, LENGTH, HEADS, KEY_DIM, VALUE_DIM, HIDDEN = 3, 7, 2, 5, 13, 17
WIDTH = HEADS * KEY_DIM
EXACT = {"atol": 1e-5, "rtol": 1e-5}
INPUTS = np.random.default_rng(0).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
REAL = np.arange(LENGTH) < np.array([7, 4, 1])[:, None]


def built(**arguments: Any) -> TransformerEncoder:
    layer = TransformerEncoder(embed_dim=WIDTH, feed_forward_dim=HIDDEN, num_heads=HEADS, **arguments)
    layer(INPUTS)
    randomize(layer)
    return layer


def torch_twin(layer: TransformerEncoder) -> torch.nn.TransformerEncoderLayer:
    """PyTorch's module with the same weights, in training mode: there it takes no short cut."""
    theirs = torch.nn.TransformerEncoderLayer(
        WIDTH,
        HEADS,
        HIDDEN,
        dropout=0.0,
        activation=layer.activation,
        layer_norm_eps=1e-3,
        batch_first=True,
        norm_first=layer.normalization == "pre",
    )
    attention = layer.attention
    kernels = [
        np.array(kernel).reshape(WIDTH, WIDTH).T for kernel in (attention.query_kernel, attention.key_kernel, attention.value_kernel)
    ]
    biases = [np.array(bias).ravel() for bias in (attention.query_bias, attention.key_bias, attention.value_bias)]
    state = {
        "self_attn.in_proj_weight": np.concatenate(kernels),
        "self_attn.in_proj_bias": np.concatenate(biases),
        "self_attn.out_proj.weight": np.array(attention.output_kernel).reshape(WIDTH, WIDTH).T,
        "self_attn.out_proj.bias": attention.output_bias,
        "linear1.weight": np.array(layer.feed_forward_in.kernel).T,
        "linear1.bias": layer.feed_forward_in.bias,
        "linear2.weight": np.array(layer.feed_forward_out.kernel).T,
        "linear2.bias": layer.feed_forward_out.bias,
        "norm1.weight": layer.attention_norm.gamma,
        "norm1.bias": layer.attention_norm.beta,
        "norm2.weight": layer.feed_forward_norm.gamma,
        "norm2.bias": layer.feed_forward_norm.beta,
    }
    theirs.load_state_dict({name: torch.tensor(np.array(weight)) for name, weight in state.items()})
    return theirs.train()


@pytest.mark.parametrize("normalization", ["pre", "post"])
def test_honours_the_layer_contract(normalization: str, tmp_path: Path) -> None:
    arguments = {
        "embed_dim": 11,
        "feed_forward_dim": HIDDEN,
        "num_heads": HEADS,
        "key_dim": KEY_DIM,
        "value_dim": VALUE_DIM,
        "activation": "gelu",
        "normalization": normalization,
        "use_bias": False,
        "dropout": 0.2,
        "attention_implementation": "per_head",
        "norm_epsilon": 1e-6,
        "norm": "rms",
        "gated": True,
        "causal": True,
        "normalizes_attention": normalization == "post",
        "attention_options": {"num_key_value_heads": 1, "max_distance": 3, "linear_biases": True},
    }
    inputs = [np.random.default_rng(0).normal(size=(BATCH, LENGTH, 11)).astype(np.float32)]
    at_default = ["normalization", "normalizes_attention"] if normalization == "post" else []
    check_layer(TransformerEncoder, arguments, inputs, (BATCH, LENGTH, 11), tmp_path, keeps_mask=True, at_default=at_default)


@pytest.mark.parametrize(("normalization", "activation"), [("post", "gelu"), ("pre", "gelu"), ("post", "relu")])
def test_output_and_gradients_equal_torch(normalization: str, activation: str) -> None:
    layer = built(normalization=normalization, activation=activation)
    twin = torch_twin(layer)
    upstream = np.random.default_rng(1).normal(size=INPUTS.shape).astype(np.float32) * REAL[:, :, None]
    ours = tf.constant(INPUTS)
    with tf.GradientTape() as tape:
        tape.watch(ours)
        output = layer(ours, mask=REAL)
        loss = tf.reduce_sum(output * upstream)
    biases = [layer.attention.output_bias, layer.feed_forward_out.bias, layer.attention_norm.beta]
    gradient, *gradients = tape.gradient(loss, [ours, *(bias.value for bias in biases)])

    theirs = torch.tensor(INPUTS, requires_grad=True)
    their_output = twin(theirs, src_key_padding_mask=torch.tensor(~REAL))
    np.testing.assert_allclose(np.array(output)[REAL], their_output.detach().numpy()[REAL], **EXACT)
    (their_output * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(gradient, theirs.grad, atol=1e-4, rtol=1e-4)
    for value, bias in zip(gradients, (twin.self_attn.out_proj.bias, twin.linear2.bias, twin.norm1.bias), strict=True):
        np.testing.assert_allclose(value, bias.grad, atol=1e-4, rtol=1e-4)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^normalization is 'sandwich'; choose from post, pre$"):
        TransformerEncoder(10, HIDDEN, 2, normalization="sandwich")
    with pytest.raises(ValueError, match=r"^num_heads 3 does not divide embed_dim 10; change one, or give key_dim$"):
        TransformerEncoder(10, HIDDEN, 3)
    assert TransformerEncoder(10, HIDDEN, 3, key_dim=7).attention.key_dim == 7
    with pytest.raises(ValueError, match="the input is 11 wide; embed_dim is 10"):
        TransformerEncoder(10, HIDDEN, 2)(np.zeros((2, 3, 11), np.float32))
