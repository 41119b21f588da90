"""Speed and memory of the attention layer, side by side: our four forms, Keras's layer and torch's.

    python benchmarks/attention.py                 # lengths 64 to 4,096: table, attention.json, attention.png
    python benchmarks/attention.py --memory 8192   # peak memory of one forward and backward pass: table, attention-memory.json

Self-attention in float32, embed 256, 4 heads, all keys real. Every candidate has a process of its own, all run in turn, and the best
repetition counts, so that what disturbs the machine disturbs all of them. torch runs its own `scaled_dot_product_attention` between the
same projections.
"""

import resource
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import harness
import numpy as np
import plots
import tables

from mha_cli.system.processor import available_cores

EMBED_DIM, NUM_HEADS = 256, 4
KEY_DIM = EMBED_DIM // NUM_HEADS
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
TOKENS = 8192
"""Tokens of a batch: the number of reviews falls as they get longer."""

CANDIDATES = ("mha auto", "mha fused", "mha per_head", "mha blockwise", "Keras", "torch")
IN_MEMORY = ("mha auto", "mha fused", "Keras", "mha neighbours")
MAX_DISTANCE = 64
"""Tokens to either side that a query of ``mha neighbours`` looks at."""
PASSES = ("forward", "forward and backward")
SECONDS = 0.2
"""A short pass is repeated for so long, and its best repetition counts: another process ran just before it."""

Passes = tuple[Callable[[], Any], Callable[[], Any]]


def tensorflow_layer(name: str) -> Any:
    """Keras's layer, or ours by the implementation that ``mha IMPLEMENTATION`` names; ``mha neighbours`` has a largest distance."""
    import keras

    from mha_cli.layers.fast.attention import IMPLEMENTATIONS

    if name == "Keras":
        return keras.layers.MultiHeadAttention(NUM_HEADS, KEY_DIM)
    if name == "mha neighbours":
        return IMPLEMENTATIONS["blockwise"](NUM_HEADS, KEY_DIM, max_distance=MAX_DISTANCE)
    return IMPLEMENTATIONS[name.removeprefix("mha ")](NUM_HEADS, KEY_DIM)


def tensorflow_backward(layer: Any, x: Any) -> Any:
    """Gradients of a sum of squares with respect to the input and all weights."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(tf.square(layer(x, x)))
    return tape.gradient(total, [x, *(weight.value for weight in layer.trainable_variables)])


def tensorflow_passes(name: str, x: Any) -> Passes:
    """A forward pass and a forward and backward pass over ``x`` (B, L, D)."""
    import tensorflow as tf

    layer, constant = tensorflow_layer(name), tf.constant(x)
    layer(constant, constant)
    return tf.function(lambda: layer(constant, constant)), tf.function(lambda: tensorflow_backward(layer, constant))


def torch_passes(x: Any) -> Passes:
    """The same in torch: one projection for queries, keys and values, torch's own attention, one output projection."""
    import torch

    torch.set_num_threads(available_cores())
    x_torch = torch.tensor(x, requires_grad=True)
    projections, output = torch.nn.Linear(EMBED_DIM, 3 * EMBED_DIM), torch.nn.Linear(EMBED_DIM, EMBED_DIM)

    def attend() -> Any:
        batch, length, _ = x_torch.shape
        heads = projections(x_torch).reshape(batch, length, 3, NUM_HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
        return output(mixed.transpose(1, 2).reshape(batch, length, EMBED_DIM))

    def forward() -> Any:
        with torch.no_grad():
            return attend()

    def backward() -> Any:
        return torch.autograd.grad(attend().square().sum(), [x_torch, *projections.parameters(), *output.parameters()])

    return forward, backward


def serve_candidate(name: str) -> None:
    """Answer with milliseconds of a pass over reviews of the length that is asked for."""
    made: dict[int, Passes] = {}

    def answer(length: int, number: int) -> float:
        if length not in made:
            made.clear()
            x = np.random.default_rng(0).normal(size=(batch_size(length), length, EMBED_DIM)).astype(np.float32)
            made[length] = torch_passes(x) if name == "torch" else tensorflow_passes(name, x)
        best, stop = np.inf, time.perf_counter() + SECONDS
        while best == np.inf or time.perf_counter() < stop:
            started = time.perf_counter()
            made[length][number]()
            best = min(best, time.perf_counter() - started)
        return 1e3 * best

    harness.serve(answer)


def batch_size(length: int) -> int:
    """Reviews in a batch of the given length."""
    return max(1, TOKENS // length)


def measure(lengths: tuple[int, ...], repetitions: int) -> list[dict[str, Any]]:
    """Milliseconds of every candidate at every length."""
    rows = []
    with ExitStack() as stack:
        workers = harness.start_all(stack, __file__, {name: ("--candidate", name) for name in CANDIDATES})
        for length in lengths:
            for number, name in enumerate(PASSES):
                answers = harness.ask_in_turn(workers, repetitions, length=length, number=number)
                best = {candidate: min(times) for candidate, times in answers.items()}
                rows.append({"length": length, "batch": batch_size(length), "pass": name, "auto": "auto", "ms": best})
                print(f"length {length:>5}, {name}: {best['mha auto']:,.1f} ms", flush=True)
    return rows


def peak_megabytes(implementation: str, length: int) -> float:
    """Peak memory above idle of one forward and backward pass at batch 1, in MB, in this process; idle is after a pass at length 64."""
    import tensorflow as tf

    layer = tensorflow_layer(implementation)
    backward = tf.function(lambda x: tensorflow_backward(layer, x), input_signature=[tf.TensorSpec([1, None, EMBED_DIM])])
    layer(tf.zeros((1, 64, EMBED_DIM)), tf.zeros((1, 64, EMBED_DIM)))
    backward(tf.random.normal((1, 64, EMBED_DIM)))
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    backward(tf.random.normal((1, length, EMBED_DIM)))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) * harness.RSS_UNIT / 1e6


def measure_memory(length: int) -> dict[str, float]:
    """Peak memory in MB of ``auto``, of all at once, of Keras's layer, and of attention to neighbours, each in a process of its own."""
    peaks = {}
    for name in IN_MEMORY:
        with harness.Worker(__file__, "--candidate", name, "--memory", str(length)) as worker:
            peaks[name] = worker.ask()
    return peaks


def main() -> None:
    """Measure what the arguments ask for."""
    parser = harness.parser(__doc__)
    parser.add_argument("--memory", type=int, metavar="LENGTH", help="measure peak memory at this length instead of speed")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    parser.add_argument("--candidate", choices=(*CANDIDATES, "mha neighbours"), help="be the process of one candidate")
    arguments = parser.parse_args()
    if arguments.candidate and arguments.memory:
        harness.serve(lambda: peak_megabytes(arguments.candidate, arguments.memory))
    elif arguments.candidate:
        serve_candidate(arguments.candidate)
    elif arguments.memory:
        busy = harness.busy_share()
        sizes = {"length": arguments.memory, "embed_dim": EMBED_DIM, "num_heads": NUM_HEADS}
        record = harness.record(sizes, {"megabytes": measure_memory(arguments.memory)}, busy)
        harness.write_record(arguments.results / "attention-memory.json", record)
        tables.show(tables.attention_memory(record))
    else:
        busy = harness.busy_share()
        rows = measure(tuple(length for length in LENGTHS if length <= arguments.longest), arguments.repetitions)
        record = harness.record({"embed_dim": EMBED_DIM, "num_heads": NUM_HEADS, "repetitions": arguments.repetitions}, rows, busy)
        harness.write_record(arguments.results / "attention.json", record)
        plots.draw_attention(record, arguments.results / "attention.png")
        tables.show(tables.attention(record))


if __name__ == "__main__":
    main()
