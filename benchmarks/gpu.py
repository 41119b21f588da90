"""One GPU: our attention beside Keras's and torch's own, and a training step of two encoders beside torch.

    KERAS_BACKEND=jax python benchmarks/gpu.py                # two minutes
    KERAS_BACKEND=torch python benchmarks/gpu.py              # four minutes
    KERAS_BACKEND=torch python benchmarks/gpu.py --tokens 64  # to see that it runs, also without a GPU

Self-attention with 8 heads of 64 in bfloat16; each time is the best of several. JAX compiles. torch does so in the rows "compiled"
(torch.compile); "captured" has these as CUDA graphs, without the time that Python takes to ask for them. Keras takes its fastest way,
which is a kernel without a mask.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import harness
import keras
import numpy as np

from mha_cli.layers import FastAttention, GlobalMaxPooling1D, MultiHeadAttention, PositionalEmbedding, TransformerEncoder

HEADS, HEAD_WIDTH, TOKENS = 8, 64, 16_384
WIDTH = HEADS * HEAD_WIDTH
LENGTHS = (256, 1024, 4096, 16_384)
SECONDS, ROUNDS = 0.1, 5
"""The best of so many rounds counts, each of as many calls as take about so long."""
BOOK = {"vocabulary": 20_000, "length": 600, "width": 256, "feed_forward": 32, "heads": 2, "head_width": 256, "blocks": 1}
MINILM = {"vocabulary": 30_522, "length": 256, "width": 384, "feed_forward": 1536, "heads": 12, "head_width": 32, "blocks": 6}

Passes = tuple[Callable[[], Any], Callable[[], Any], Callable[[], float]]


def milliseconds(function: Callable[[], Any]) -> float:
    """Time of a call among many that are asked for one after the other."""

    def seconds(calls: int) -> float:
        started = time.perf_counter()
        for _ in range(calls):
            last = function()
        if keras.backend.backend() == "jax":
            import jax

            jax.block_until_ready(last)
        elif on_gpu():
            import torch

            torch.cuda.synchronize()
        return time.perf_counter() - started

    seconds(3)
    calls = max(1, int(3 * SECONDS / seconds(3)))
    return 1e3 * min(seconds(calls) for _ in range(ROUNDS)) / calls


def on_gpu() -> bool:
    """Whether torch has a GPU."""
    import torch

    return torch.cuda.is_available()


def passes(layer: Any, x: Any, masks: dict[str, Any]) -> Passes:
    """A forward pass, one there and back to input and weights, and the memory that the latter takes, in MB."""
    layer(x, x, **masks)
    return (jax_passes if keras.backend.backend() == "jax" else torch_passes)(layer, x, masks)


def jax_passes(layer: Any, x: Any, masks: dict[str, Any]) -> Passes:
    """Compiled functions of weights and input."""
    import jax

    def attend(weights: Any, x: Any) -> Any:
        return layer.stateless_call(weights, [], x, x, **masks)[0]

    weights = [weight.value for weight in layer.trainable_variables]
    forward = jax.jit(attend)
    backward = jax.jit(jax.grad(lambda *inputs: attend(*inputs).astype("float32").sum(), (0, 1)))
    memory = backward.lower(weights, x).compile().memory_analysis()
    return lambda: forward(weights, x), lambda: backward(weights, x), lambda: memory.temp_size_in_bytes / 1e6


def torch_passes(layer: Any, x: Any, masks: dict[str, Any]) -> Passes:
    """The same of a layer or module."""
    import torch

    x.requires_grad_()
    weights = list(layer.parameters())

    def forward() -> Any:
        with torch.no_grad():
            return layer(x, x, **masks)

    def backward() -> Any:
        return torch.autograd.grad(layer(x, x, **masks).float().sum(), [x, *weights], allow_unused=True)

    def memory() -> float:
        if not on_gpu():
            return float("nan")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        backward()
        return (torch.cuda.max_memory_allocated() - before) / 1e6

    return forward, backward, memory


def captured(function: Callable[[], Any]) -> Callable[[], Any]:
    """The same as a CUDA graph of torch."""
    import torch

    if not on_gpu():
        return function
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


def attention_rows(tokens: int) -> Iterator[str]:
    """Every layer at every length, without and with a padding mask."""
    rng = np.random.default_rng(0)
    ours = {"mha": FastAttention} if keras.backend.backend() == "torch" else {"mha": FastAttention, "mha, plain": MultiHeadAttention}
    for length, padded in itertools.product([length for length in LENGTHS if length <= tokens] or [tokens], (False, True)):
        x = keras.ops.convert_to_tensor(rng.normal(size=(tokens // length, length, WIDTH)), "bfloat16")
        real = np.arange(length) < rng.integers(length // 2, length + 1, tokens // length)[:, None]
        masks = {"key_mask": keras.ops.convert_to_tensor(real)} if padded else {}
        layers: dict[str, Any] = {name: layer(HEADS, HEAD_WIDTH, dtype="bfloat16") for name, layer in ours.items()}
        if keras.backend.backend() == "torch":
            import torch
            import torch_modules

            layers["torch"] = torch_modules.Attention(WIDTH, HEADS, HEAD_WIDTH).to(x.device, x.dtype)
        else:
            layers["Keras"] = keras.layers.MultiHeadAttention(HEADS, HEAD_WIDTH, dtype="bfloat16")
        for name, layer in layers.items():
            case = f"{tokens // length} × {length}{', padded' if padded else ''} | {name}"
            forward, backward, memory = passes(layer, x, masks)
            yield f"| {case} | {milliseconds(forward):.3f} | {milliseconds(backward):.3f} | {memory():,.0f} |"
            if keras.backend.backend() == "torch":
                torch.compiler.reset()
                forward, backward, memory = passes(torch.compile(layer, fullgraph=True, dynamic=False), x, masks)
                yield f"| {case}, compiled | {milliseconds(forward):.3f} | {milliseconds(backward):.3f} | {memory():,.0f} |"
                yield f"| {case}, captured | {milliseconds(captured(forward)):.3f} | {milliseconds(captured(backward)):.3f} | |"


def pipeline(sizes: dict[str, int]) -> Any:
    """Our layers, compiled for training in mixed precision."""
    ids = keras.Input((None,), dtype="int32")
    x = PositionalEmbedding(sizes["length"], sizes["vocabulary"], sizes["width"])(ids)
    for _ in range(sizes["blocks"]):
        x = TransformerEncoder(sizes["width"], sizes["feed_forward"], sizes["heads"], sizes["head_width"])(x)
    model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid", dtype="float32")(GlobalMaxPooling1D()(x)))
    model.compile("rmsprop", "binary_crossentropy")
    return model


def training_rows(tokens: int) -> Iterator[str]:
    """A training step on 32 padded texts."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    rng = np.random.default_rng(0)
    for name, sizes in {"book": BOOK, "MiniLM-sized": MINILM}.items():
        length = min(sizes["length"], tokens)
        real = np.arange(length) < rng.integers(length // 2, length + 1, 32)[:, None]
        ids = np.where(real, rng.integers(1, sizes["vocabulary"], (32, length)), 0)
        labels = rng.integers(0, 2, (32, 1)).astype("float32")
        model = pipeline(sizes)
        yield f"| {name} | mha | {milliseconds(partial(model.train_on_batch, ids, labels)):.1f} |"
        if keras.backend.backend() == "torch":
            import torch_modules

            step = torch_modules.training_step(sizes, ids, labels, "cuda" if on_gpu() else "cpu")
            yield f"| {name} | torch | {milliseconds(step):.1f} |"


def main() -> None:
    """Measure under the backend that KERAS_BACKEND names."""
    parser = harness.parser(__doc__)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="tokens of a call")
    arguments = parser.parse_args()
    if keras.backend.backend() not in ("jax", "torch"):
        parser.error("set KERAS_BACKEND to jax or torch")
    logging.disable(logging.ERROR)  # Keras's, where its kernel refuses a mask
    print("| B × L | layer | forward, ms | there and back, ms | memory, MB |", "|---|---|---:|---:|---:|", sep="\n")
    next(attention_rows(arguments.tokens))  # a GPU's clock rises with work
    for row in attention_rows(arguments.tokens):
        print(row, flush=True)
    print("\n| training step | layers | ms |", "|---|---|---:|", sep="\n")
    for row in training_rows(arguments.tokens):
        print(row, flush=True)


if __name__ == "__main__":
    main()
