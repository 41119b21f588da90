"""Figures of results."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_cli.arrays import Array
from mha_cli.errors import plural, printable
from mha_cli.runtime.inspection import UNKNOWN_LEGEND, AttentionView, entropy_line, marked, mean_entropy, near_uniform
from mha_cli.runtime.intervals import wilson_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mha_cli.analysis.comparison import Comparison
    from mha_cli.analysis.evaluation import Range
    from mha_cli.analysis.inside.head_scores import HeadReport
    from mha_cli.analysis.shuffle import ShuffleResult
    from mha_cli.system.callbacks import EpochRecord

MAX_COLUMNS = 4
FEW = 10  # texts of a bin, below which its accuracy says little
MAX_WIDTH, MAX_HEIGHT = 24.0, 120.0  # inches of a figure of many heads or of a long text, so that it still opens
SHOWN_CHARACTERS = 30  # characters of a name that a figure has room for
SHADES = 21  # colours of a map, one of them for zero; of few colours, the scale is drawn as shapes, which a page needs, not as an image


def shuffle_figure(results: list[ShuffleResult]) -> Figure:
    """Accuracy in order and shuffled, a pair of bars per model."""
    figure, (axes,) = new_figure(max(4.0, 2.4 * len(results) + 1.5), 3.6)
    numbers = np.arange(len(results))
    accuracies, means, spreads = (
        [100 * getattr(result, name) for result in results] for name in ("accuracy", "shuffled_mean", "shuffled_spread")
    )
    label = f"words shuffled (mean of {len(results[0].shuffled_accuracies)})"
    in_order = axes.bar(numbers - 0.2, accuracies, 0.38, label="words in order")
    shuffled = axes.bar(numbers + 0.2, means, 0.38, yerr=spreads, capsize=4, label=label)
    for bars in (in_order, shuffled):
        axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.set_xticks(numbers, [f"{plain(result.name)}\npositions: {result.positions}" for result in results])
    axes.set(ylabel="accuracy in %", ylim=(0, 115), title=data_line(results[0], "\n"))
    figure.legend(loc="outside lower center", ncols=min(len(results), 2), frameon=False)  # below the bars, which reach the bottom
    return figure


def comparison_figure(result: Comparison) -> Figure:
    """The accuracy of every model and its difference from the first model's, with 95 % intervals."""
    rows = range(len(result.models))
    figure, (accuracies, differences) = new_figure(9.0, min(0.45 * len(rows) + 1.8, MAX_HEIGHT), 1, 2)
    for axes, numbers, estimates in ((accuracies, rows, result.models), (differences, rows[1:], result.differences)):
        intervals = [(estimate.accuracy, *estimate.accuracy_interval) for estimate in estimates]
        points, low, high = ([100 * value for value in values] for values in zip(*intervals, strict=True))
        axes.hlines(numbers, low, high)
        axes.plot(points, numbers, "o")
        axes.set_yticks(rows, [end_of(model.name) for model in result.models] if axes is accuracies else [""] * len(rows))
        axes.set_ylim(len(rows) - 0.5, -0.5)
    differences.axvline(0, color="black", linewidth=0.8)
    accuracies.set_xlabel("accuracy in % (95 % interval)")
    differences.set_xlabel(f"points more than {end_of(result.models[0].name)}\n(95 % interval)")
    figure.suptitle(data_line(result))
    return figure


def attention_figure(view: AttentionView, block: int, head: int | None) -> Figure:
    """Heat maps of one head, or of all heads of a block: rows look, columns are looked at; one scale for all."""
    heads = range(len(view.weights[block])) if head is None else [head]
    columns = min(len(heads), MAX_COLUMNS)
    rows = -(-len(heads) // columns)
    side = min(max(2.3, 0.22 * len(view.words)), MAX_WIDTH / columns, MAX_HEIGHT / rows)
    figure, grid = new_figure(side * columns + 1.2, (side + 0.3) * rows + 0.4, rows, columns)
    positions = ticks(len(view.words), side / 0.16)
    words = [plain(word) for word in marked(view.words, view.unknown, 29)[:: positions.step]]
    largest = max(float(view.weights[block][number].max()) for number in heads)
    for axes, number in zip(grid, heads, strict=False):
        weights_LL = view.weights[block][number]
        image = axes.imshow(weights_LL, cmap="Blues", vmin=0, vmax=largest)
        entropy = mean_entropy(weights_LL)
        uniform = ", close to uniform" * near_uniform(entropy, len(view.words))
        axes.set_title(f"block {block}, head {number}{uniform}\n{entropy_line(entropy, len(view.words))}", fontsize=8)
        axes.set_xticks(positions, words, rotation=90, fontsize=7)
        axes.set_yticks(positions, words, fontsize=7)
    for axes in grid[len(heads) :]:
        axes.set_axis_off()
    figure.supylabel("word that looks", fontsize=9)
    legend = f"\n{UNKNOWN_LEGEND[view.subwords]}" if any(view.unknown) else ""
    figure.supxlabel(f"word that is looked at{legend}", fontsize=9)
    figure.colorbar(image, ax=grid, label="attention weight", fraction=0.03, aspect=30)
    return figure


def head_maps(report: HeadReport) -> dict[str, tuple[list[float], str, float, float]]:
    """By title: a value per head, a colour map, and the values at its ends. The lost accuracy is left out if it was not measured."""
    looks_at = {target: [100 * score.looks_at[target] for score in report.heads] for target in report.heads[0].looks_at}
    lost, importance = [100 * score.accuracy_fall for score in report.heads], [score.importance for score in report.heads]
    most = max(map(abs, lost)) or 1.0
    return {
        **{f"weight on {target}, %": (shares, "Blues", 0.0, 100.0) for target, shares in looks_at.items()},
        **({} if math.isnan(most) else {"accuracy lost without it, points": (lost, "PuOr_r", -most, most)}),
        "gradient importance, nats": (importance, "Oranges", 0.0, max(importance)),
    }


def heads_figure(report: HeadReport, title: str = "") -> Figure:
    """Maps of blocks by heads: where each head looks and how much it matters; with a title only that map, without its heading."""
    from matplotlib import colormaps

    blocks, heads = (1 + max(getattr(score, number) for score in report.heads) for number in ("block", "head"))
    width, height = min(2.2 + 0.12 * heads, MAX_WIDTH / 2), min(1.0 + 0.2 * blocks, MAX_HEIGHT / 4)
    maps = {"": head_maps(report)[title]} if title else head_maps(report)
    rows, columns = (1, 1) if title else (4, 2)
    figure, grid = new_figure(columns * width + 0.4, rows * height + 0.6, rows, columns)
    for axes, (heading, (values, colours, least, largest)) in zip(grid, maps.items(), strict=True):
        value_of_head = np.full((blocks, heads), np.nan)  # blocks can have fewer heads
        value_of_head[[score.block for score in report.heads], [score.head for score in report.heads]] = values
        shades = colormaps[colours].resampled(SHADES)
        cells = axes.pcolormesh(value_of_head, cmap=shades, vmin=least, vmax=largest, edgecolors="0.5", linewidth=0.3)
        axes.set_title(heading, fontsize=9)
        for axis, count, room in ((axes.xaxis, heads, width / 0.2), (axes.yaxis, blocks, height / 0.2)):
            numbers = np.array(ticks(count, room))
            axis.set_ticks(numbers + 0.5, numbers, fontsize=7)
        axes.invert_yaxis()
        figure.colorbar(cells, ax=axes).ax.tick_params(labelsize=7)
    if not title:
        figure.suptitle(data_line(report), fontsize=10)
    figure.supxlabel("head", fontsize=9)
    figure.supylabel("block", fontsize=9)
    return figure


def curves_figure(history: Sequence[EpochRecord]) -> Figure:
    """Loss and accuracy of the training and the validation part after each epoch; a line marks the epoch that was kept."""
    figure, (above, below) = new_figure(4.0, 4.6, 2, 1)
    epochs, kept = [record.epoch for record in history], [record.epoch for record in history if record.best][-1:]
    for axes, measure in ((above, "loss"), (below, "accuracy")):
        for part, style in (("train", "o-"), ("validation", "s--")):
            axes.plot(epochs, [getattr(record, f"{part}_{measure}") for record in history], style, markersize=4, label=part)
        for epoch in kept:
            axes.axvline(epoch, color="0.5", linestyle=":", label=f"kept: epoch {epoch}")
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    above.set_ylabel("loss, nats")
    above.legend(frameon=False, fontsize=8)
    below.set(ylabel="accuracy", xlabel="epoch")
    return figure


def reliability_figure(bins: Array) -> Figure:
    """How often predictions of a probability are right, beside how often they should be, and how many there are."""
    figure, (above, below) = new_figure(4.0, 5.2, 2, 1)
    counts, confidence, accuracy = bins
    starts, filled = np.arange(len(counts)) / len(counts), counts > 0
    style = {"align": "edge", "edgecolor": "0.5", "linewidth": 0.5}
    above.bar(starts, accuracy, 1 / len(counts), color=[("C0", 1.0 if number >= FEW else 0.25) for number in counts], **style)
    counts_and_shares = zip(counts[filled], accuracy[filled], strict=True)
    intervals = np.array([wilson_interval(round(number * share), int(number)) for number, share in counts_and_shares])
    errors, label = abs(intervals.T - accuracy[filled]), "at its mean probability, with 95 % interval"
    above.errorbar(confidence[filled], accuracy[filled], errors, fmt="D", color="C1", markersize=4, linewidth=1, label=label)
    above.plot([0, 1], [0, 1], ":", color="0.5", label="perfectly calibrated")
    above.set(ylabel="share that is right", xlim=(0, 1))
    figure.legend(loc="outside lower center", frameon=False, fontsize=8, title=f"pale: fewer than {FEW} answers", title_fontsize=8)
    below.bar(starts, counts, 1 / len(counts), **style)
    below.set(ylabel="texts", xlabel="probability of the answer", xlim=(0, 1))
    return figure


def lengths_figure(ranges: Sequence[Range]) -> Figure:
    """The accuracy in each range of lengths, with the number of its texts."""
    figure, (axes,) = new_figure(4.0, 3.0)
    bars = axes.bar([f"to {lengths.up_to:,.0f}" for lengths in ranges], [100 * (lengths.accuracy or 0) for lengths in ranges])
    axes.bar_label(bars, [f"{lengths.num_texts:,}" for lengths in ranges], padding=2, fontsize=8)
    axes.set(ylabel="accuracy in %", ylim=(0, 112), xlabel="tokens; above the bars: texts")
    return figure


def data_line(result: Any, between: str = ", ") -> str:
    """The data, split and number of texts of a result."""
    return f"{plain(result.data)}{between}split {plain(result.split)}, {plural(result.num_texts, 'text')}"


def plain(text: str) -> str:
    """Text that Matplotlib shows as it is, not as a formula."""
    return printable(text, SHOWN_CHARACTERS).replace("$", r"\$")


def end_of(path: str) -> str:
    """The end of a path, which differs more than its start."""
    return plain(path if len(path) <= SHOWN_CHARACTERS else f"…{path[1 - SHOWN_CHARACTERS :]}")


def ticks(count: int, room: float) -> range:
    """The numbers of ``count`` items that have a label: all, or every second, third …, if there is room for ``room`` labels."""
    return range(0, count, max(1, math.ceil(count / room)))


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Any]]:
    """A figure, its size in inches, and its axes row by row."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it writes about its caches and fonts to stderr
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid
