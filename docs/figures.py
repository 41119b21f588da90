"""Draws the figures of docs/attention-layer.md that need no trained model: `python docs/figures.py`.

The others are drawn by `mha attention --png` and `mha shuffle-test --plot`, with the commands that stand beside them.
"""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from matplotlib.figure import Figure

from mha_cli.layers.attention import scaled_dot_product_attention

FIGURES = Path(__file__).parent / "figures"
WORDS = ("the", "acting", "was", "superb", ",", "not", "dreadful", ".")
WIDTH = 64


def draw_projections(rng: np.random.Generator) -> str:
    """Scores of words with themselves as queries and keys, and through separate projections."""
    x = rng.normal(size=(len(WORDS), WIDTH)).astype(np.float32)
    to_queries, to_keys = (rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / np.sqrt(WIDTH) for _ in range(2))
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    weights = []
    for axes, title, queries, keys in zip(
        figure.subplots(1, 2),
        ("without projections: queries = keys = words", "with separate W^Q and W^K"),
        (x, x @ to_queries),
        (x, x @ to_keys),
        strict=True,
    ):
        _, attention = scaled_dot_product_attention(queries[None, None], keys[None, None], x[None, None])
        weights.append(np.asarray(attention)[0, 0])
        image = axes.imshow(weights[-1], cmap="Blues", vmin=0, vmax=1)
        axes.set_title(title)
        axes.set_xlabel("key")
        axes.set_ylabel("query")
        axes.set_xticks(range(len(WORDS)), WORDS, rotation=90)
        axes.set_yticks(range(len(WORDS)), WORDS)
    figure.colorbar(image, ax=figure.axes, label="attention weight", shrink=0.8)
    figure.savefig(FIGURES / "projections.png", dpi=120)
    own = [float(np.diag(one).mean()) for one in weights]
    return f"weight of a word on itself, mean: {own[0]:.3f} without projections, {own[1]:.3f} with (1/{len(WORDS)} = {1 / len(WORDS):.3f})"


def draw_scale(rng: np.random.Generator) -> str:
    """Variance of a dot product, and the largest attention weight, as the width per head grows."""
    widths = [2**power for power in range(1, 11)]
    variances, largest = [], {True: [], False: []}
    for width in widths:
        q, k = (rng.normal(size=(1, 1, 256, width)).astype(np.float32) for _ in range(2))
        variances.append(float((q[0, 0] @ k[0, 0].T).var()))
        for scaled in largest:
            _, attention = scaled_dot_product_attention(q, k[:, :, :32], k[:, :, :32], scaled=scaled)
            largest[scaled].append(float(np.asarray(attention).max(axis=-1).mean()))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.loglog(widths, variances, "o-")
    left.loglog(widths, widths, "--", color="grey")
    left.text(widths[2], variances[2] * 2.5, "measured", color="tab:blue", ha="right")
    left.text(widths[-4], widths[-4] / 3, "variance = width", color="dimgrey")
    left.set_ylabel("variance of q·k")
    for scaled, formula, colour, height in ((False, "softmax(Q Kᵀ)", "tab:orange", 0.8), (True, "softmax(Q Kᵀ / √K)", "tab:blue", 0.22)):
        right.semilogx(widths, largest[scaled], "o-", color=colour)
        right.text(widths[-1], height, formula, color=colour, ha="right")
    right.axhline(1 / 32, linestyle="--", color="grey")
    right.text(widths[-1], 1 / 32 + 0.02, "the same weight for all 32 keys", color="dimgrey", ha="right")
    right.set_ylabel("mean of the largest of 32 weights")
    right.set_ylim(0, 1)
    for axes in (left, right):
        axes.set_xlabel("width per head, K")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURES / "scale.png", dpi=120)
    return (
        f"d_k = {widths[-1]}: variance of q·k {variances[-1]:.0f}; "
        f"largest of 32 weights {largest[False][-1]:.3f} unscaled, {largest[True][-1]:.3f} scaled"
    )


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    print(draw_projections(generator))
    print(draw_scale(generator))
