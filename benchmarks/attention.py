"""Speed and memory of the attention layer, side by side in one run: our three forms, Keras's layer and torch's.

    python benchmarks/attention.py                 # lengths 64 to 4,096: table, attention.json, attention.png
    python benchmarks/attention.py --memory 8192   # peak memory of one forward and backward pass, each form in a process of its own

Self-attention in float32, embed 256, 4 heads, all keys real. All candidates run in turn, and the best repetition counts, so that what
disturbs the machine disturbs all of them. torch runs its own `scaled_dot_product_attention` between the same projections.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

EMBED_DIM, NUM_HEADS = 256, 4
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
TOKENS = 8192
"""Tokens of a batch: the number of reviews falls as they get longer."""

FORMS = ("fused", "per_head", "blockwise")
RESULTS = Path(__file__).parent / "results"


def candidates(x: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """For every implementation a forward pass and a forward and backward pass over ``x`` (B, L, D)."""
    import keras
    import tensorflow as tf
    import torch

    from mha_cli.layers import MultiHeadAttention

    tf.get_logger().setLevel("ERROR")  # it warns where many functions are traced, which is meant here
    width = EMBED_DIM // NUM_HEADS
    layers = {f"mha {form}": MultiHeadAttention(NUM_HEADS, width, form=form) for form in FORMS}
    layers["Keras"] = keras.layers.MultiHeadAttention(NUM_HEADS, width)
    made = {}
    x_tensorflow = tf.constant(x)
    for name, layer in layers.items():
        layer(x_tensorflow, x_tensorflow)

        def forward(layer: Any = layer) -> Any:
            return layer(x_tensorflow, x_tensorflow)

        def backward(layer: Any = layer) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x_tensorflow)
                total = tf.reduce_sum(tf.square(layer(x_tensorflow, x_tensorflow)))
            return tape.gradient(total, [x_tensorflow, *(weight.value for weight in layer.trainable_variables)])

        made[name] = (tf.function(forward), tf.function(backward))
    return made | {"torch": torch_candidate(torch, x)}


def torch_candidate(torch: Any, x: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same layer in torch: one projection for queries, keys and values, torch's own attention, one output projection."""
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
        total = attend().square().sum()
        return torch.autograd.grad(total, [x_torch, *projections.parameters(), *output.parameters()])

    return forward, backward


def measure(lengths: tuple[int, ...], repetitions: int) -> list[dict[str, Any]]:
    """Milliseconds of every candidate at every length."""
    rng, rows = np.random.default_rng(0), []
    for length in lengths:
        batch = max(1, TOKENS // length)
        made = candidates(rng.normal(size=(batch, length, EMBED_DIM)).astype(np.float32))
        for kind, number in (("forward", 0), ("forward and backward", 1)):
            for functions in made.values():
                functions[number]()  # traced and warm
            best = dict.fromkeys(made, np.inf)
            for _ in range(repetitions):
                for name, functions in made.items():
                    started = time.perf_counter()
                    functions[number]()
                    best[name] = min(best[name], time.perf_counter() - started)
            rows.append({"length": length, "batch": batch, "pass": kind, "ms": {name: 1e3 * value for name, value in best.items()}})
            print_row(rows[-1])
    return rows


def print_row(row: dict[str, Any]) -> None:
    """One line: milliseconds of the fused form, and how many times as fast as it the others are."""
    base = row["ms"]["mha fused"]
    others = "  ".join(f"{name} × {base / ms:.2f}" for name, ms in row["ms"].items() if name != "mha fused")
    print(f"{row['pass']:<21} length {row['length']:>5}, batch {row['batch']:>4}: mha fused {base:8.1f} ms   {others}", flush=True)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Tokens per second against length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, kind in zip(figure.subplots(1, 2), ("forward", "forward and backward"), strict=True):
        own = [row for row in rows if row["pass"] == kind]
        for name in own[0]["ms"]:
            speed = [row["batch"] * row["length"] / row["ms"][name] * 1e3 for row in own]
            axes.loglog([row["length"] for row in own], speed, "o-" if name.startswith("mha") else "s--", label=name)
        axes.set_title(kind)
        axes.set_xlabel("length, tokens")
        axes.set_ylabel("tokens per second")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend()
    figure.savefig(path, dpi=120)


def peak_megabytes(form: str, length: int) -> float:
    """Peak memory above idle of one forward and backward pass at batch 1, in MB, in this process; idle is after a pass at length 64."""
    import keras
    import tensorflow as tf

    from mha_cli.layers import MultiHeadAttention

    width = EMBED_DIM // NUM_HEADS
    layer = keras.layers.MultiHeadAttention(NUM_HEADS, width) if form == "Keras" else MultiHeadAttention(NUM_HEADS, width, form=form)

    @tf.function(input_signature=[tf.TensorSpec([1, None, EMBED_DIM])])
    def backward(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(tf.square(layer(x, x)))
        return tape.gradient(total, [x, *(weight.value for weight in layer.trainable_variables)])

    layer(tf.zeros((1, 64, EMBED_DIM)), tf.zeros((1, 64, EMBED_DIM)))
    backward(tf.random.normal((1, 64, EMBED_DIM)))
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    backward(tf.random.normal((1, length, EMBED_DIM)))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 1e3


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=int, metavar="LENGTH", help="measure peak memory at this length instead of speed")
    parser.add_argument("--form", help="with --memory: measure one form in this process")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    arguments = parser.parse_args()
    if arguments.memory and arguments.form:
        print(json.dumps(peak_megabytes(arguments.form, arguments.memory)))
        return
    RESULTS.mkdir(exist_ok=True)
    if arguments.memory:
        peaks = {}
        for form in ("auto", "fused", "Keras"):
            command = [sys.executable, __file__, "--memory", str(arguments.memory), "--form", form]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            peaks[form] = json.loads(output)
            print(f"length {arguments.memory}, forward and backward, {form}: {peaks[form]:,.0f} MB above idle", flush=True)
        (RESULTS / "attention-memory.json").write_text(json.dumps({"length": arguments.memory, "megabytes": peaks}, indent=1) + "\n")
        return
    rows = measure(tuple(length for length in LENGTHS if length <= arguments.longest), arguments.repetitions)
    (RESULTS / "attention.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, RESULTS / "attention.png")


if __name__ == "__main__":
    main()
