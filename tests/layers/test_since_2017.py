"""The parts of attention since 2017 give the numbers of a reference in float64 that shares no code with them."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch

from mha_cli.layers import BlockwiseAttention, FastAttention, MultiHeadAttention, TransformerEncoder, scaled_dot_product_attention
from mha_cli.layers.fast import attention
from mha_cli.layers.fast.attention import IMPLEMENTATIONS as FAST
from mha_cli.layers.fast.local import local_attention
from mha_cli.layers.since_2017 import linear_biases, rotary_positions, within
from mha_cli.system.working_memory import QUERIES_OF_A_BLOCK
from tests.covering import pairwise
from tests.layers.attention_cases import (
    BATCH,
    EXACT,
    KEY_WIDTH,
    QUERY_WIDTH,
    VALUE_WIDTH,
    assert_same_gradient,
    prefix_mask,
    random,
    random_mask,
)
from tests.layers.layer_contract import randomize

IMPLEMENTATIONS = {**FAST, "all_heads": MultiHeadAttention}
HEADS, GROUPS, KEY_DIM, VALUE_DIM, OUTPUT_DIM = 6, 3, 10, 13, 29
SIZES = {"num_heads": HEADS, "key_dim": KEY_DIM, "value_dim": VALUE_DIM, "output_dim": OUTPUT_DIM}
QUERIES, KEYS = 29, 23  # several blocks of the local attention, the last of them not full
PARTS: dict[str, dict[str, Any]] = {
    "rotary": {"rotary_base": 100.0},
    "linear-biases": {"linear_biases": True},
    "neighbours": {"max_distance": 2},
    "one-key-head": {"num_key_value_heads": 1},
    "groups": {"num_key_value_heads": GROUPS},
    "layer-norm": {"query_key_norm": "layer", "norm_epsilon": 1e-2},
    "rms-norm": {"query_key_norm": "rms", "norm_epsilon": 1e-2},
    "all-but-biases": {"rotary_base": 50.0, "max_distance": 3, "num_key_value_heads": GROUPS, "query_key_norm": "rms"},
    "all": {"rotary_base": 50.0, "linear_biases": True, "max_distance": 3, "num_key_value_heads": 2, "query_key_norm": "layer"},
}


def inputs(queries: int = QUERIES, keys: int = KEYS) -> dict[str, np.ndarray]:
    return {name: random(BATCH, size, width) for name, size, width in (
        ("query", queries, QUERY_WIDTH), ("value", keys, VALUE_WIDTH), ("key", keys, KEY_WIDTH))}  # fmt: skip


def masks_of(queries: int = QUERIES, keys: int = KEYS) -> dict[str, dict[str, Any]]:
    whole = random_mask(BATCH, HEADS, queries, keys)
    whole[0, 1, 2] = False  # a head's query that may look nowhere
    padding = {"value_mask": prefix_mask([keys, 5, 0], keys), "query_mask": prefix_mask([queries, 11, 1], queries)}
    return {
        "none": {},
        "padding": padding,
        "causal": {"use_causal_mask": True},
        "together": {**padding, "use_causal_mask": True, "attention_mask": whole, "head_mask": random(BATCH, HEADS)},
    }


@functools.cache
def layer_with(implementation: str, part: str) -> MultiHeadAttention:
    """A layer that tests share, with random weights, biases and norms."""
    layer = IMPLEMENTATIONS[implementation](**SIZES, **PARTS[part])
    layer(**inputs())
    randomize(layer)
    return layer


# The reference


def weights_of(layer: MultiHeadAttention) -> dict[str, torch.Tensor]:
    """The weights by name, such as query_kernel and query_norm/gamma, in float64."""
    return {short(weight): torch.tensor(np.array(weight), dtype=torch.float64) for weight in layer.trainable_variables}


def short(weight: Any) -> str:
    return weight.path.partition("/")[2]


def turned(x_LK: torch.Tensor, base: float) -> torch.Tensor:
    """Rotary positions by complex numbers: the pair of the units i and i + K/2 is one number, times e^(i · angle)."""
    half = x_LK.shape[1] // 2
    numbers = torch.complex(x_LK[:, :half], x_LK[:, half:])
    for unit in range(half):
        angles = torch.arange(len(x_LK), dtype=torch.float64) * base ** (-2 * unit / x_LK.shape[1])
        numbers = torch.cat([numbers[:, :unit], (numbers[:, unit] * torch.exp(1j * angles))[:, None], numbers[:, unit + 1 :]], dim=1)
    return torch.cat([numbers.real, numbers.imag], dim=1)


def normalized(x_LK: torch.Tensor, kind: str, weights: dict[str, torch.Tensor], name: str, epsilon: float) -> torch.Tensor:
    if kind == "rms":
        return x_LK / torch.sqrt((x_LK**2).mean(1, keepdim=True) + epsilon) * weights[f"{name}/scale"]
    centred = x_LK - x_LK.mean(1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(1, keepdim=True) + epsilon) * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def reference(
    weights: dict[str, torch.Tensor],
    x: dict[str, torch.Tensor],
    masks: dict[str, Any],
    rotary_base: float | None = None,
    linear_biases: bool = False,
    max_distance: int | None = None,
    num_key_value_heads: int = HEADS,
    query_key_norm: str | None = None,
    norm_epsilon: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and attention weights of one text and one head after another."""
    batch, queries, keys = len(x["query"]), x["query"].shape[1], x["key"].shape[1]
    outputs, maps = [], []
    for text in range(batch):
        output, of_heads = weights["output_bias"].expand(queries, -1), []
        for head in range(HEADS):
            shared = [number for number in range(num_key_value_heads) for _ in range(HEADS // num_key_value_heads)][head]
            q = x["query"][text] @ weights["query_kernel"][:, head] + weights["query_bias"][head]
            k = x["key"][text] @ weights["key_kernel"][:, shared] + weights["key_bias"][shared]
            v = x["value"][text] @ weights["value_kernel"][:, shared] + weights["value_bias"][shared]
            if query_key_norm:
                q = normalized(q, query_key_norm, weights, "query_norm", norm_epsilon)
                k = normalized(k, query_key_norm, weights, "key_norm", norm_epsilon)
            if rotary_base:
                q, k = turned(q, rotary_base), turned(k, rotary_base)
            far, allowed = np.zeros((queries, keys)), np.ones((queries, keys), dtype=bool)
            for query in range(queries):
                for key in range(keys):
                    far[query, key] = abs(query - key)
                    if max_distance is not None and far[query, key] > max_distance:
                        allowed[query, key] = False
                    if masks.get("use_causal_mask") and key > query:
                        allowed[query, key] = False
            if "value_mask" in masks:
                allowed &= masks["value_mask"][text]
            if "attention_mask" in masks:
                allowed &= masks["attention_mask"][text, head]
            scores = q @ k.T / KEY_DIM**0.5
            if linear_biases:
                scores = scores - torch.tensor(far / 2 ** (8 * (head + 1) / HEADS))
            powers = torch.exp(scores - scores.detach().max()) * torch.tensor(allowed)
            shares = powers / powers.sum(1, keepdim=True).clamp_min(1e-300)
            if "query_mask" in masks:
                shares = shares * torch.tensor(masks["query_mask"][text])[:, None]
            gate = float(masks["head_mask"][text, head]) if "head_mask" in masks else 1.0
            output = output + gate * shares @ v @ weights["output_kernel"][head]
            of_heads.append(shares)
        outputs.append(output)
        maps.append(torch.stack(of_heads))
    return torch.stack(outputs), torch.stack(maps)


@functools.cache
def expected(part: str, masks: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Output, attention weights, and the gradients by PyTorch's differentiation."""
    weights = weights_of(layer_with("all_heads", part))
    x = {name: torch.tensor(array, dtype=torch.float64) for name, array in inputs().items()}
    for tensor in (*weights.values(), *x.values()):
        tensor.requires_grad_()
    output, maps = reference(weights, x, masks_of()[masks], **PARTS[part])
    (output * torch.tensor(upstream())).sum().backward()
    return output.detach().numpy(), maps.detach().numpy(), {name: tensor.grad.numpy() for name, tensor in {**weights, **x}.items()}


def upstream() -> np.ndarray:
    return random(BATCH, QUERIES, OUTPUT_DIM, seed=9)


def output_and_gradients(layer: MultiHeadAttention, x: dict[str, np.ndarray], **masks: Any) -> tuple[np.ndarray, dict[str, Any]]:
    tensors = {name: tf.constant(array) for name, array in x.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = layer(**tensors, **masks)
        loss = tf.reduce_sum(output * upstream())
    weights = {short(weight): weight.value for weight in layer.trainable_variables}
    return np.array(output), tape.gradient(loss, {**tensors, **weights})


def assert_close(output: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(output, wanted, atol=1e-5 * max(1.0, np.abs(wanted).max(initial=0.0)), rtol=1e-5)


def assert_same(layer: MultiHeadAttention, part: str, masks: str) -> None:
    """Outputs, attention weights and gradients are those of the reference."""
    given, (output, maps, gradients) = masks_of()[masks], expected(part, masks)
    ours, our_gradients = output_and_gradients(layer, inputs(), **given)
    assert_close(ours, output)
    assert our_gradients.keys() == gradients.keys()
    largest = max(np.abs(gradient).max() for gradient in gradients.values())
    for name, gradient in our_gradients.items():
        assert_same_gradient(gradient, gradients[name], name, least=0.1 * largest)
    with_maps, our_maps = layer(**inputs(), **given, return_attention_scores=True)
    assert_close(with_maps, output)
    np.testing.assert_allclose(our_maps, maps, **EXACT)
    assert (np.array(our_maps)[maps == 0] == 0).all()


@pytest.mark.parametrize(("implementation", "part", "masks"), pairwise([*IMPLEMENTATIONS], [*PARTS], [*masks_of()]))
def test_every_part_equals_the_reference(implementation: str, part: str, masks: str) -> None:
    assert_same(layer_with(implementation, part), part, masks)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("implementation", "masks"), pairwise(["auto", "folded", "blockwise"], [*masks_of()]))
def test_long_texts_equal_the_reference(implementation: str, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With lengths known or not, ``auto`` then takes ``local_attention`` where all queries have the same mask, and blocks elsewhere."""
    calls = []
    monkeypatch.setattr(attention, "MOST_SCORES_AT_ONCE", 0)
    monkeypatch.setattr(attention, "local_attention", lambda *given, **scaled: calls.append(1) or local_attention(*given, **scaled))
    layer, (output, _, _) = layer_with(implementation, "all-but-biases"), expected("all-but-biases", masks)
    assert_same(layer, "all-but-biases", masks)
    assert bool(calls) == (masks in ("none", "padding"))
    specs = [tf.TensorSpec([None, None, x.shape[2]]) for x in inputs().values()]
    unknown = tf.function(lambda *x: layer(*x, **masks_of()[masks]), input_signature=specs)
    assert_close(unknown(*inputs().values()), output)


def test_far_neighbours_are_computed_in_blocks_of_queries_whose_scores_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """With windows of four times the distance, one of 5,000 and texts of 2,100 tokens took 20 GB."""
    calls = []
    monkeypatch.setattr(attention, "local_attention", lambda *given, **_: calls.append(given[3]) or given[2])
    for distance in (QUERIES_OF_A_BLOCK // 4, QUERIES_OF_A_BLOCK // 4 + 1, 100_000):
        layer = BlockwiseAttention(2, 4, max_distance=distance)
        tf.function(layer, input_signature=[tf.TensorSpec([None, None, 8])]).get_concrete_function()
    assert set(calls) == {QUERIES_OF_A_BLOCK // 4}


# One function at a time


def test_local_attention_equals_attention_within_a_distance() -> None:
    """For every length around that of a block, more keys or fewer, and distances up to beyond the text."""
    for queries in (0, 1, 2, 5, 6, 7, 13):
        for keys in (0, 1, 5, 6, 14):
            for distance in (1, 2, 3, 11, 97):
                q, k, v = random(2, 3, queries, 5), random(2, 3, keys, 5), random(2, 3, keys, 7)
                mask = random_mask(2, 1, 1, keys) if keys else np.ones((2, 1, 1, 0), bool)
                near = within(distance, mask, queries, keys)
                wanted, _ = scaled_dot_product_attention(q, k, v, near)
                ours = local_attention(*map(tf.constant, (q, k, v)), distance, mask)
                np.testing.assert_allclose(ours, wanted, **EXACT, err_msg=str((queries, keys, distance)))


def test_local_attention_drops_weights_and_keeps_their_sum() -> None:
    q, k, v = np.zeros((1, 1, 1999, 4), np.float32), np.zeros((1, 1, 1999, 4), np.float32), np.ones((1, 1, 1999, 1), np.float32)
    mixed = np.array(local_attention(q, k, v, 10, dropout=0.5, seed=3))
    assert 0.95 < mixed.mean() < 1.05 and 0.1 < mixed.std() < 0.4


def test_rotary_products_depend_on_the_distance_alone() -> None:
    q, k = random(1, 1, 1, 6), random(1, 1, 1, 6)
    products = np.array(rotary_positions(np.repeat(q, 41, 2), 30.0))[0, 0] @ np.array(rotary_positions(np.repeat(k, 41, 2), 30.0))[0, 0].T
    for distance in (-7, 0, 3):
        np.testing.assert_allclose(np.diagonal(products, distance), products[20, 20 + distance], atol=1e-5)
    assert np.ptp(products) > 0.5
    np.testing.assert_allclose(rotary_positions(np.repeat(q, 41, 2), 30.0)[:, :, :1], q)


def test_rotary_positions_keep_their_angles_far_into_a_text() -> None:
    x = np.ones((1, 1, 8191, 4), np.float32)
    wanted = turned(torch.tensor(x[0, 0], dtype=torch.float64), 10_000.0)
    np.testing.assert_allclose(rotary_positions(x)[0, 0], wanted, atol=1e-3)  # an angle of 8,190 is exact to 5e-4 in float32


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["linear-biases", "neighbours", "groups", "rms-norm", "rotary"])
def test_additive_scores_take_the_parts(part: str) -> None:
    """Head by head and all at once; with a part they differ from those without."""
    layers = [
        MultiHeadAttention(**SIZES, attention_score="additive", **(PARTS[part] | {"head_by_head": by_head})) for by_head in (True, False)
    ]
    layers += [FAST["auto"](**SIZES, attention_score="additive", **PARTS[part])]
    for layer in layers:
        layer(**inputs())
        randomize(layer)
    first, *others = (np.array(layer(**inputs())) for layer in layers)
    for other in others:
        assert_close(other, first)
    without = MultiHeadAttention(**SIZES, attention_score="additive")
    without(**inputs())
    randomize(without)
    assert np.abs(np.array(without(**inputs())) - first).max() > 1e-2


# Nothing there, and less exact


@pytest.mark.exhaustive
@pytest.mark.parametrize("most_scores", [0, 2**27], ids=["long", "short"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_of_nothing_comes_the_output_bias(implementation: str, most_scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "MOST_SCORES_AT_ONCE", most_scores)
    layer = layer_with(implementation, "all-but-biases")
    specs = [tf.TensorSpec([None, None, x.shape[2]]) for x in inputs().values()]
    for function in (layer, tf.function(layer, input_signature=specs)) if implementation == "auto" else (layer,):
        for batch, queries, keys in ((BATCH, QUERIES, 0), (BATCH, 0, KEYS), (0, QUERIES, KEYS), (0, 0, 0)):
            x = [random(batch, size, width) for size, width in ((queries, QUERY_WIDTH), (keys, VALUE_WIDTH), (keys, KEY_WIDTH))]
            np.testing.assert_array_equal(function(*x), np.broadcast_to(layer.output_bias, (batch, queries, OUTPUT_DIM)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["all", "all-but-biases"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_mixed_precision_is_close_to_float32(implementation: str, part: str) -> None:
    layers = [IMPLEMENTATIONS[implementation](**SIZES, **PARTS[part], dtype=dtype) for dtype in ("float32", "mixed_bfloat16")]
    for layer in layers:
        layer(**inputs())
        randomize(layer, scale=0.2)
    exact, mixed = (layer(**inputs(), value_mask=masks_of()["padding"]["value_mask"]) for layer in layers)
    assert mixed.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(mixed, "float32"), exact, atol=4e-2 * np.abs(exact).max())


def largest_intermediate(implementation: str, length: int) -> int:
    """Numbers of the largest array in the graph of a forward and backward pass over one text of a known length."""
    layer = FAST[implementation](2, 4, max_distance=8)
    layer(np.zeros((1, 3, 5), np.float32))

    @tf.function(input_signature=[tf.TensorSpec([1, length, 5])])
    def passes(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x)))
        return tape.gradient(loss, [x, *(weight.value for weight in layer.trainable_variables)])

    operations = passes.get_concrete_function().graph.get_operations()
    return max(output.shape.num_elements() or 0 for operation in operations for output in operation.outputs if output.shape.rank)


def test_attention_to_neighbours_holds_nothing_that_grows_with_the_square_of_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "MOST_SCORES_AT_ONCE", 0)
    for implementation in ("auto", "blockwise"):
        shorter, longer = largest_intermediate(implementation, 1024), largest_intermediate(implementation, 4096)
        assert shorter == 2 * 1024 * 4 * 8  # weights: two heads, and four distances per query
        assert longer == 4 * shorter
    assert largest_intermediate("fused", 1024) == 2 * 1024**2


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_key_value_heads": 4}, "num_key_value_heads 4 does not divide num_heads 6"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0; it must be at least 1"),
        ({"max_distance": 0}, "max_distance is 0; it must be at least 1"),
        ({"rotary_base": 100.0, "key_dim": 11}, "key_dim is 11; rotary positions turn pairs, so it must be even"),
        ({"query_key_norm": "batch"}, "query_key_norm is 'batch'; choose from layer, rms"),
    ],
)
def test_impossible_parts_are_refused(arguments: dict[str, Any], message: str) -> None:
    for kind in (MultiHeadAttention, FastAttention, BlockwiseAttention):
        with pytest.raises(ValueError, match=f"^{message}$"):
            kind(**{**SIZES, **arguments})
    if "key_dim" not in arguments:
        with pytest.raises(ValueError, match=f"^{message}$"):
            TransformerEncoder(60, 7, HEADS, attention_options=arguments)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^norm is 'batch'; choose from layer, rms$"):
        TransformerEncoder(60, 7, HEADS, norm="batch")


# Other people's modules


def block_output_and_gradients(block: TransformerEncoder, x: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """The output, and the gradients of its product with random numbers: those of the input, ``x``, and of all weights."""
    our_x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(our_x)
        output = block(our_x)
        loss = tf.reduce_sum(output * random(*x.shape, seed=9))
    return output, tape.gradient(loss, {"x": our_x, **{short(weight): weight.value for weight in block.trainable_variables}})


@pytest.mark.parametrize(
    ("normalization", "norm", "activation", "normalizes_attention"),
    [("post", "rms", "silu", True), ("pre", "rms", "gelu", True), ("pre", "layer", "relu", False)],
)
def test_a_causal_gated_block_equals_torch(normalization: str, norm: str, activation: str, normalizes_attention: bool) -> None:
    """Output and gradients beside PyTorch's functions, in float64."""
    functional, epsilon = torch.nn.functional, 1e-2
    layer = TransformerEncoder(
        12, 17, HEADS, activation=activation, normalization=normalization, norm=norm, gated=True, causal=True,
        normalizes_attention=normalizes_attention, norm_epsilon=epsilon,
    )  # fmt: skip
    x = random(BATCH, 11, 12)
    layer(x)
    randomize(layer)
    w = weights_of(layer)
    theirs = {"x": torch.tensor(x, dtype=torch.float64), **w}
    for tensor in theirs.values():
        tensor.requires_grad_()

    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        if norm == "rms":
            return functional.rms_norm(x, (12,), w[f"{name}/scale"], epsilon)
        return functional.layer_norm(x, (12,), w[f"{name}/gamma"], w[f"{name}/beta"], epsilon)

    def attended(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            torch.einsum("bld,dhk->bhlk", x, w[f"attention/{name}_kernel"]) + w[f"attention/{name}_bias"][:, None]
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return mixed @ w["attention/output_kernel"].flatten(0, 1) + w["attention/output_bias"]

    def dense(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ w[f"feed_forward_{name}/kernel"] + w[f"feed_forward_{name}/bias"]

    def fed(x: torch.Tensor) -> torch.Tensor:
        return dense(getattr(functional, activation)(dense(x, "in")) * dense(x, "gate"), "out")

    x_BLD = theirs["x"]
    if normalization == "post":
        y_BLD = normed(x_BLD + attended(x_BLD), "attention_norm")
        output = normed(y_BLD + fed(y_BLD), "feed_forward_norm")
    else:
        y_BLD = x_BLD + attended(normed(x_BLD, "attention_norm") if normalizes_attention else x_BLD)
        output = y_BLD + fed(normed(y_BLD, "feed_forward_norm"))
    (output * torch.tensor(random(*x.shape, seed=9))).sum().backward()
    our_output, gradients = block_output_and_gradients(layer, x)
    assert_close(our_output, output.detach().numpy())
    assert gradients.keys() == theirs.keys()
    largest = max(float(tensor.grad.abs().max()) for tensor in theirs.values())
    for name, gradient in gradients.items():
        assert_same_gradient(gradient, theirs[name].grad, name, least=0.1 * largest)


def copied(parameter: Any, kernel: Any, rows: int) -> None:
    """A kernel (D, H, K) or (H, K, D) of ours as the weight of a linear layer of theirs, whose input is ``rows`` wide."""
    with torch.no_grad():
        parameter.copy_(torch.tensor(np.array(kernel).reshape(rows, -1).T).reshape(parameter.shape))


def copied_mlp(encoder: TransformerEncoder, gate: Any, up: Any, down: Any) -> None:
    """The gated feed-forward layer; theirs has no biases."""
    for ours, theirs in ((encoder.feed_forward_in, gate), (encoder.feed_forward_gate, up), (encoder.feed_forward_out, down)):
        copied(theirs, ours.kernel, ours.kernel.shape[0])
        ours.bias.assign(np.zeros(ours.bias.shape))


def test_a_block_equals_qwen3() -> None:
    """Rotary positions, grouped heads with normalized queries and keys, RMS normalization, SiLU gates and a causal mask, in one block."""
    qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    width, hidden, length, key_dim, epsilon = 14, 17, 11, 6, 1e-3
    config = qwen3.Qwen3Config(
        hidden_size=width, intermediate_size=hidden, num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=key_dim,
        rms_norm_eps=epsilon, num_hidden_layers=1, attention_bias=False, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )  # fmt: skip
    theirs, rotary = qwen3.Qwen3DecoderLayer(config, 0).eval(), qwen3.Qwen3RotaryEmbedding(config)
    options = {"rotary_base": 500.0, "num_key_value_heads": GROUPS, "query_key_norm": "rms"}
    ours = TransformerEncoder(
        width, hidden, HEADS, key_dim, activation="silu", normalization="pre", norm="rms", gated=True, causal=True, use_bias=False,
        norm_epsilon=epsilon, attention_options=options,
    )  # fmt: skip
    x = random(BATCH, length, width)
    ours(x)
    randomize(ours)
    copied_mlp(ours, theirs.mlp.gate_proj.weight, theirs.mlp.up_proj.weight, theirs.mlp.down_proj.weight)
    layer, module = ours.attention, theirs.self_attn
    for kernel, linear in ((layer.query_kernel, module.q_proj), (layer.key_kernel, module.k_proj), (layer.value_kernel, module.v_proj)):
        copied(linear.weight, kernel, width)
    copied(module.o_proj.weight, layer.output_kernel, HEADS * key_dim)
    norms = [ours.attention_norm, ours.feed_forward_norm, layer.query_norm, layer.key_norm]
    their_norms = [theirs.input_layernorm, theirs.post_attention_layernorm, module.q_norm, module.k_norm]
    for norm, their_norm in zip(norms, their_norms, strict=True):
        copied(their_norm.weight, norm.scale, 1)
    their_x = torch.tensor(x, requires_grad=True)
    ahead = torch.full((length, length), -torch.inf).triu(1)[None, None]
    output = theirs(their_x, attention_mask=ahead, position_embeddings=rotary(their_x, torch.arange(length)[None]))
    (output * torch.tensor(random(*x.shape, seed=9))).sum().backward()
    our_output, gradients = block_output_and_gradients(ours, x)
    assert_close(our_output, output.detach().numpy())
    assert_same_gradient(gradients["x"], their_x.grad)


@pytest.mark.parametrize("block", [0, 1], ids=["global", "local"])
def test_a_block_equals_modernbert(block: int) -> None:
    """Neighbours, another base for them, GELU gates, layer normalization, and none before the first attention."""
    modernbert = pytest.importorskip("transformers.models.modernbert.modeling_modernbert")
    from transformers.masking_utils import create_bidirectional_mask, create_bidirectional_sliding_window_mask

    heads, key_dim, hidden, length = 2, 6, 17, 23
    width, bases = heads * key_dim, (500.0, 30.0)
    kinds = ("full_attention", "sliding_attention")
    config = modernbert.ModernBertConfig(
        vocab_size=7, pad_token_id=0, hidden_size=width, intermediate_size=hidden, num_attention_heads=heads, num_hidden_layers=2,
        local_attention=6, global_attn_every_n_layers=2, layer_types=list(kinds), norm_eps=1e-3, attn_implementation="eager",
        rope_parameters={kind: {"rope_type": "default", "rope_theta": base} for kind, base in zip(kinds, bases, strict=True)},
    )  # fmt: skip
    theirs, rotary = modernbert.ModernBertEncoderLayer(config, block).eval(), modernbert.ModernBertRotaryEmbedding(config)
    ours = TransformerEncoder(
        width, hidden, heads, activation="gelu", normalization="pre", gated=True, use_bias=False, normalizes_attention=block > 0,
        attention_options={"rotary_base": bases[block], "max_distance": 3 if block else None},
    )  # fmt: skip
    x, real = random(BATCH, length, width), prefix_mask([length, 11, 4], length)
    ours(x)
    randomize(ours)
    layer, gates = ours.attention, torch.nn.Parameter(torch.zeros(2, hidden, width))
    copied_mlp(ours, gates[0], gates[1], theirs.mlp.Wo.weight)
    with torch.no_grad():
        theirs.mlp.Wi.weight.copy_(gates.reshape(2 * hidden, width))
    kernels = np.stack([layer.query_kernel, layer.key_kernel, layer.value_kernel], axis=1)
    copied(theirs.attn.Wqkv.weight, kernels, width)
    copied(theirs.attn.Wo.weight, layer.output_kernel, width)
    norms = [(ours.feed_forward_norm, theirs.mlp_norm)] + ([(ours.attention_norm, theirs.attn_norm)] if block else [])
    for norm, their_norm in norms:
        norm.beta.assign(np.zeros(width))
        copied(their_norm.weight, norm.gamma, 1)
    their_x = torch.tensor(x)
    make_mask = (create_bidirectional_mask, create_bidirectional_sliding_window_mask)[block]
    mask = make_mask(config=config, inputs_embeds=their_x, attention_mask=torch.tensor(real))
    output = theirs(their_x, attention_mask=mask, position_embeddings=rotary(their_x, torch.arange(length)[None], kinds[block]))
    np.testing.assert_allclose(np.array(ours(x, mask=real))[real], output.detach().numpy()[real], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("heads", [2, 8])
def test_linear_biases_equal_bloom_and_mpt(heads: int) -> None:
    """Theirs count from one end of the text, which is the same number more in a whole row; for a number of heads that is a power of two."""
    bloom, mpt = (pytest.importorskip(f"transformers.models.{name}.modeling_{name}") for name in ("bloom", "mpt"))
    ours = np.array(linear_biases(heads, 7, 7))
    there = np.tri(7, dtype=bool)
    theirs = bloom.build_alibi_tensor(torch.ones(1, 7), heads, torch.float32).numpy()
    for biases in (theirs, mpt.build_mpt_alibi_tensor(heads, 7).numpy()):
        row = biases - np.diagonal(np.broadcast_to(biases, (heads, 7, 7)), axis1=1, axis2=2)[:, :, None]
        np.testing.assert_allclose(row[:, there], ours[:, there], atol=1e-6)
    np.testing.assert_array_equal(ours, ours.transpose(0, 2, 1))  # to the right as to the left
