"""Plots of the results: speed by length, accuracy by time, accuracy by set, cost by number of texts."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from harness import Record
from paired import SetResults
from tables import by_system

PUBLISHED = {
    "encoder without positions, Chollet 2021": 87.5,
    "encoder with positions, Chollet 2021": 88.3,
    "NB-SVM, bigrams, Wang and Manning 2012": 91.2,
    "seq2-bown-CNN, Johnson and Zhang 2015": 92.33,
    "paragraph vectors, Le and Mikolov 2014 (unlabelled reviews)": 92.6,
    "SA-LSTM, Dai and Le 2015 (unlabelled reviews)": 92.8,
    "DistilBERT, Sanh et al. 2019 (pre-trained on other text)": 92.8,
    "DV-ngrams-cosine + NB, Thongtan and Phienthrakul 2019 (unlabelled reviews)": 93.7,
    "virtual adversarial training, Miyato et al. 2017 (unlabelled reviews)": 94.1,
}
"""Test accuracy in %, as published, on the same split."""

FAMILIES = {
    "LinearSVC": "LinearSVC, best of words, characters, both",
    "NB-SVM": "NB-SVM, 1–3-grams of words",
    "fastText": "fastText with subwords, better of 5 and 25 epochs",
}
"""How the names of peers of one kind begin, and what a legend says of the best of them."""

COLOURS = {
    "mha": "tab:blue",
    "fastText": "tab:green",
    "NB-SVM": "tab:orange",
    "LinearSVC": "tab:purple",
    "TF-IDF": "tab:brown",
    "torch": "tab:red",
}
"""The colour of a system in every figure, by how its name begins; black for others."""

SETS = {
    "ag": "ag: news, 4 topics",
    "banking77": "banking77: bank customers, 77 intents",
    "mr": "mr: sentences on films, 2 classes",
    "trec50": "trec50: questions, 50 kinds",
    "trec6": "trec6: questions, 6 kinds",
    "trec6_hi": "trec6_hi: questions in Hindi, 6 kinds",
    "zh_waimai": "zh_waimai: food deliveries in Chinese, 2 classes",
}
"""What a set of texts holds, by its name."""

TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 360_000: "100 h"}
"""Seconds that are marked on an axis of time."""


def draw_attention(record: Record, path: Path) -> None:
    """Speed relative to Keras's layer against length, one line per implementation."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(10, 4), layout="constrained")
    passes = list(dict.fromkeys(row["pass"] for row in record["figures"]))
    for axes, name in zip(figure.subplots(1, len(passes), sharey=True), passes, strict=True):
        own = [row for row in record["figures"] if row["pass"] == name]
        lengths, systems = [row["length"] for row in own], [system for system in own[0]["ms"] if system != "Keras"]
        ratios = {system: [row["ms"]["Keras"] / row["ms"][system] for row in own] for system in systems}
        systems.sort(key=lambda system: ratios[system][-1])
        heights = spread([ratios[system][-1] for system in systems], 0.025)
        for system, height in zip(systems, heights, strict=True):
            style = {"mha per_head": "--", "mha blockwise": ":"}.get(system, "-")
            axes.semilogx(lengths, ratios[system], style, marker=".", color=colour(system))
            axes.text(lengths[-1] * 1.15, height, system, color=colour(system), va="center")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.text(lengths[1], 0.985, "Keras's layer", va="top")
        axes.set_title(name)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("length, tokens")
        axes.set_ylabel("speed, times Keras's layer")
    _save(figure, path)


def draw_accuracy(records: Sequence[Record], path: Path) -> None:
    """Test accuracy against wall time on a log axis, with the spread over seeds; published figures as lines."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots()
    for name, runs in by_system(records).items():
        seconds, accuracies = [run["wall_seconds"] for run in runs], [100 * run["accuracy"] for run in runs]
        x, y, mark = mean(seconds), mean(accuracies), "o" if name.startswith("mha ") else "s"
        axes.errorbar(x, y, xerr=pstdev(seconds), yerr=pstdev(accuracies), fmt=mark, capsize=3, color=colour(name))
        axes.annotate(name, (x, y), (0, -14), textcoords="offset points", ha="center", va="center", fontsize=9, color=colour(name))
    heights = dict(zip(PUBLISHED, spread(list(PUBLISHED.values()), 0.3), strict=True))
    for label, accuracy in PUBLISHED.items():
        axes.axhline(accuracy, color="grey", linewidth=0.6, linestyle=":", zorder=0)
        edge = axes.get_yaxis_transform()  # x in parts of the axes, y in accuracy
        axes.annotate(
            f"{accuracy:.1f}  {label}",
            xy=(1.0, accuracy),
            xytext=(1.03, heights[label]),
            xycoords=edge,
            textcoords=edge,
            va="center",
            fontsize=8,
            color="dimgrey",
            arrowprops={"arrowstyle": "-", "color": "grey", "linewidth": 0.5, "relpos": (0.0, 0.5), "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )
    seconds = [record["figures"]["wall_seconds"] for record in records]
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 2)
    axes.set_xticks([tick for tick in TICKS if min(seconds) / 2 <= tick <= max(seconds) * 2])
    axes.xaxis.set_major_formatter(lambda tick, _: TICKS[tick])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("wall time of reading and training")
    axes.set_ylabel("test accuracy, %")
    _save(figure, path)


def draw_texts(results: Sequence[SetResults], ours: str, path: Path) -> None:
    """One row per set: our recipe and the best peer of each family, with the spread over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.5 + 0.45 * len(results)), layout="constrained")
    axes = figure.subplots()
    for (family, label), mark in zip([*FAMILIES.items(), (ours, ours)], "sD^o", strict=True):
        runs = [result.ours if family == ours else result.peers.get(result.best_peer(family), []) for result in results]
        rows = {row: [100 * run["accuracy"] for run in found] for row, found in enumerate(runs) if found}
        axes.errorbar(
            [*map(mean, rows.values())], [*rows], xerr=[*map(pstdev, rows.values())], fmt=mark, capsize=3, color=colour(family), label=label
        )
    axes.set_yticks(range(len(results)), [SETS.get(result.name, result.name) for result in results])
    axes.set_ylim(len(results) - 0.5, -0.5)  # the first on top
    axes.grid(axis="y", linestyle=":", linewidth=0.6)
    axes.set_xlabel("accuracy, %")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    _save(figure, path)


def draw_growth(record: Record, path: Path) -> None:
    """Time of a thousand texts and peak memory of a training against the number of its texts."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    seconds, peaks = record["figures"]["seconds"], record["figures"]["megabytes"]
    millions = [int(texts) / 1e6 for texts in seconds]
    of_1000 = [own / (1000 * one) for own, one in zip(seconds.values(), millions, strict=True)]
    gigabytes = [peak / 1000 for peak in peaks.values()]
    named = {"seconds for 1,000 texts": of_1000, "peak memory, GB": gigabytes}
    for axes, (name, values) in zip(figure.subplots(1, len(named)), named.items(), strict=True):
        axes.plot(millions, values, marker="o", color=colour("mha"))
        axes.set_xlim(0)
        axes.set_ylim(0, 1.2 * max(values))
        axes.set_xlabel("texts, millions")
        axes.set_ylabel(name)
    _save(figure, path)


def colour(name: str) -> str:
    """The colour of a system."""
    return next((one for start, one in COLOURS.items() if name.startswith(start)), "black")


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Rising values moved apart as little as needed to be ``gap`` from each other: where they crowd, around their own middle."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _edge(groups[-1], gap, -1) < _edge(groups[-2], gap, 1) + gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_edge(group, gap, -1) + gap * number for group in groups for number in range(len(group))]


def _edge(group: list[float], gap: float, side: int) -> float:
    return mean(group) + side * gap * (len(group) - 1) / 2


def _save(figure: Any, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
