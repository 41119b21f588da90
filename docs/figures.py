"""Draws the figures of docs/attention-layer.md and docs/attention-since-2017.md that need no trained model: `python docs/figures.py`.

The others are drawn by `mha attention --png` and `mha shuffle-test --plot`, with the commands that stand beside them.
"""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from mha_cli.layers.attention import scaled_dot_product_attention
from mha_cli.layers.masks import look_ahead_mask
from mha_cli.layers.since_2017 import linear_biases, rotary_positions, shared_heads, within

FIGURES = Path(__file__).parent / "figures"
WORDS = ("the", "acting", "was", "superb", ",", "not", "dreadful", ".")
WIDTH = 64
ARROW = {"arrowstyle": "-|>", "color": "tab:blue", "shrinkA": 0, "shrinkB": 0}
TOKENS = 6  # of the figure of the parts since 2017


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


def draw_parts() -> None:
    """What each part since 2017 does to six tokens, as its function gives it: masks, biases, angles, and heads that share keys."""
    everything = np.ones((TOKENS, TOKENS), dtype=bool)
    causal = np.asarray(look_ahead_mask(TOKENS, TOKENS))[0, 0]
    biases = np.asarray(linear_biases(8, TOKENS, TOKENS))[0]
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    panels = figure.subplots(2, 3)
    masks = {"full attention": everything, "neighbours, max_distance 1": np.asarray(within(1, None, TOKENS, TOKENS)), "causal": causal}
    for axes, (title, mask) in zip(panels[0], masks.items(), strict=True):
        axes.pcolormesh(mask[::-1], cmap="Blues", vmin=0, vmax=1.6, edgecolors="white", linewidth=2)
        axes.set_title(title)
        axes.set_xlabel("key")
    in_numbers, in_angles, in_groups = panels[1]
    in_numbers.pcolormesh(biases[::-1], cmap="Blues", vmin=biases.min() - 0.5, vmax=1, edgecolors="white", linewidth=2)
    for query, row in enumerate(biases):
        for key, bias in enumerate(row):
            in_numbers.text(key + 0.5, TOKENS - query - 0.5, f"{bias + 0.0:g}".replace("-", "−"), ha="center", va="center", fontsize=8)
    in_numbers.set_title("linear biases, head 1 of 8")
    in_numbers.set_xlabel("key")
    for axes in (*panels[0], in_numbers):
        axes.set_aspect("equal")
        axes.set_xticks(np.arange(TOKENS) + 0.5, range(TOKENS))
        axes.set_yticks(np.arange(TOKENS) + 0.5, range(TOKENS)[::-1])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel("query")
    draw_angles(in_angles)
    draw_groups(in_groups)
    figure.savefig(FIGURES / "since-2017.png", dpi=120)


def draw_angles(axes: Axes) -> None:
    """The first two pairs of a query [1, 1, 0, 0] of width 4 at six positions, with base 100, so that the second turns a tenth as fast."""
    turned = np.asarray(rotary_positions(np.repeat([[[[1.0, 1.0, 0.0, 0.0]]]], TOKENS, axis=2).astype(np.float32), 100.0))[0, 0]
    for pair in (0, 1):
        for position in range(TOKENS):
            x, y = turned[position, pair], turned[position, pair + 2]
            middle = (position, 1.2 * (1 - pair))
            axes.add_patch(Circle(middle, 0.42, fill=False, color="lightgrey"))
            axes.annotate("", (middle[0] + 0.42 * x, middle[1] + 0.42 * y), middle, arrowprops=ARROW)
        axes.text(-0.75, 1.2 * (1 - pair), ("first\npair", "second\npair")[pair], ha="right", va="center")
    axes.set_xlim(-0.6, TOKENS - 0.4)
    axes.set_ylim(-0.6, 1.8)
    axes.set_aspect("equal")
    axes.set_title("rotary positions")
    axes.set_xlabel("position")
    axes.set_xticks(range(TOKENS))
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw_groups(axes: Axes) -> None:
    """Which of two heads of keys and values each of four heads of queries takes."""
    taken = np.asarray(shared_heads(np.arange(2, dtype=np.float32).reshape(1, 2, 1, 1), 4)).ravel().astype(int)
    for head, group in enumerate(taken):
        axes.plot([head, 0.5 + 2 * group], [1, 0], color="lightgrey", zorder=0)
        axes.text(head, 1, f"Q{head}", ha="center", va="center", bbox={"boxstyle": "round,pad=0.5", "fc": "#dff1f0", "ec": "#0b6e6e"})
    for group in {*taken.tolist()}:
        name = f"K{group}  V{group}"
        axes.text(0.5 + 2 * group, 0, name, ha="center", va="center", bbox={"boxstyle": "round,pad=0.5", "fc": "#fdeed8", "ec": "#9a5b00"})
    axes.set_xlim(-0.6, 3.6)
    axes.set_ylim(-0.6, 1.6)
    axes.set_title("grouped heads")
    axes.set_axis_off()


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    print(draw_projections(generator))
    print(draw_scale(generator))
    draw_parts()
