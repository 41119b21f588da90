"""Attention, explanations and heads as a person looks at them, or as JSON: on stdout, or in an HTML page."""

from __future__ import annotations

import dataclasses
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from mha_cli.cli.console import print_json, print_line, stdout_console
from mha_cli.errors import printable
from mha_cli.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt
    from rich.console import Console

    from mha_cli.runtime.inspection import AttentionView, Explanation
    from mha_cli.training.heads import HeadReport, PruningReport

SHADES = " ░▒▓█"
NUM_LINKS = 12
"""Links that are listed for a review too long for a heat map."""


def attention(view: AttentionView, block: int, head: int | None, *, as_json: bool) -> None:
    """A heat map where it fits, else the strongest links and how much each word is looked at."""
    if as_json:
        weights = [[[[round(float(w), 6) for w in row] for row in one_head] for one_head in one_block] for one_block in view.weights]
        print_json({"words": view.words, "label": view.prediction.label, "probability": view.prediction.probability, "weights": weights})
        return
    console = stdout_console()
    which = "mean over the heads" if head is None else f"head {head}"
    weights_LL = view.of(block, head)
    heading = f"{printable(view.prediction.label)} {view.prediction.probability:.4f}; block {block}, {which}"
    width = max(cell_len(_short(word)) for word in view.words)
    if width + 3 * len(view.words) + 4 <= console.width:
        print_line(f"{heading}: rows look, columns are looked at")
        _print_heat_map(console, view.words, weights_LL, width)
    else:
        print_line(heading)
        _print_links(console, view.words, weights_LL)


def explanation(result: Explanation, *, as_json: bool) -> None:
    """The review with its words coloured by what they decide, then a table of those that decide most."""
    if as_json:
        fields = dataclasses.asdict(result)
        del fields["prediction"]
        print_json({"label": result.prediction.label, "probability": result.prediction.probability, **fields})
        return
    console = stdout_console()
    label = printable(result.prediction.label)
    print_line(f"{label} {result.prediction.probability:.4f}; green words speak for it, red ones against it")
    largest = max((abs(fall) for fall in result.occlusion), default=0.0) or 1.0
    line = Text()
    for word, fall in zip(result.words, result.occlusion, strict=True):
        line.append(printable(word), style=_colour(fall / largest)).append(" ")
    console.print(line)
    table = Table("word", title=Text(f"What decides for {label}"))
    table.add_column("probability falls\nwithout it", justify="right")
    if result.gradients is not None:
        table.add_column("integrated\ngradient", justify="right")
    table.add_column("looked at", justify="right")
    order = sorted(range(len(result.words)), key=lambda place: -abs(result.occlusion[place]))
    for place in order[:NUM_LINKS]:
        figures = [f"{result.occlusion[place]:+.4f}"]
        figures += [] if result.gradients is None else [f"{result.gradients[place]:+.4f}"]
        table.add_row(Text(printable(result.words[place], 40)), *figures, f"{result.attention[place]:.1%}")
    console.print(table)
    print_line("how much a word is looked at is not by itself an explanation (Jain and Wallace 2019)")


def heads(report: HeadReport, pruning: PruningReport | None, *, as_json: bool) -> None:
    """A row a head, and what pruning came to."""
    if as_json:
        print_json({**dataclasses.asdict(report), "pruning": None if pruning is None else dataclasses.asdict(pruning)})
        return
    title = f"{printable(report.data)}, split {printable(report.split)}, {report.num_reviews:,} reviews: accuracy {report.accuracy:.2%}"
    table = Table("block", "head", title=Text(title))
    for heading in ("accuracy without it", "lost", "gradient importance"):
        table.add_column(heading, justify="right")
    for score in report.heads:
        fall = f"{100 * score.accuracy_fall:+.2f}"
        table.add_row(str(score.block), str(score.head), f"{score.accuracy_without:.2%}", fall, f"{score.importance:.2e}")
    stdout_console().print(table)
    if pruning is None:
        return
    removed = ", ".join(f"{block}.{head}" for block, head in pruning.removed)
    faster = pruning.reviews_per_second_after / pruning.reviews_per_second_before
    after = Table(title=f"Without the heads {removed}")
    for heading in ("", "before", "after"):
        after.add_column(heading, justify="right")
    after.add_row("accuracy", f"{pruning.accuracy_before:.2%}", f"{pruning.accuracy_after:.2%}")
    after.add_row("weights", f"{pruning.num_weights_before:,}", f"{pruning.num_weights_after:,}")
    after.add_row("reviews/s", f"{pruning.reviews_per_second_before:,.0f}", f"{pruning.reviews_per_second_after:,.0f} (× {faster:.2f})")
    stdout_console().print(after)
    print_line(f"written: {pruning.checkpoint}")


def write_attention_page(view: AttentionView, path: Path) -> None:
    """A page on which a word, pointed at, shows where it looks, head by head."""
    weights = [[[[round(float(w), 4) for w in row] for row in head] for head in block] for block in view.weights]
    _write_page("attention.html", path, {"words": view.words, "prediction": _said(view.prediction), "weights": weights})


def write_explanation_page(result: Explanation, path: Path) -> None:
    """A page with the review coloured by each measure, side by side."""
    fields = {"words": result.words, "prediction": _said(result.prediction), "occlusion": result.occlusion, "attention": result.attention}
    _write_page("explanation.html", path, {**fields, "gradients": result.gradients})


def _said(prediction: Any) -> str:
    return f"{prediction.label} {prediction.probability:.4f}"


def _write_page(template: str, path: Path, data: dict[str, Any]) -> None:
    """Put data into a page as JSON; nothing in it can end the script that it stands in."""
    page = files("mha_cli.cli").joinpath("pages", template).read_text(encoding="utf-8")
    safe = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    with atomic_write(path) as file:
        file.write(page.replace("/*DATA*/null", safe).encode())


def _print_heat_map(console: Console, words: list[str], weights_LL: npt.NDArray[Any], width: int) -> None:
    """A row a word, a column a word; the darker, the larger the weight. Columns carry the numbers of their words."""
    console.print(Text(" " * (width + 4) + "".join(f"{column:>3}" for column in range(len(words)))))
    largest = max(float(weights_LL.max()), 1e-9)
    for row, (word, weights_L) in enumerate(zip(words, weights_LL, strict=True)):
        line = Text(f"{row:>3} {set_cell_size(_short(word), width)}")
        for weight in weights_L:
            shade = SHADES[min(int(float(weight) / largest * len(SHADES)), len(SHADES) - 1)]
            line.append(" " + shade * 2)
        console.print(line, no_wrap=True)


def _print_links(console: Console, words: list[str], weights_LL: npt.NDArray[Any]) -> None:
    from mha_cli.runtime.inspection import strongest_links

    table = Table("word", "looks at", title="Strongest links")
    table.add_column("weight", justify="right")
    for row, column, weight in strongest_links(weights_LL, NUM_LINKS):
        table.add_row(Text(f"{_short(words[row])} ({row})"), Text(f"{_short(words[column])} ({column})"), f"{weight:.3f}")
    console.print(table)
    looked_at = weights_LL.mean(axis=0)
    summary = Table("word", title="Most looked at, by all words")
    summary.add_column("share of attention", justify="right")
    for place in looked_at.argsort()[::-1][:NUM_LINKS]:
        summary.add_row(Text(f"{_short(words[place])} ({place})"), f"{looked_at[place]:.1%}")
    console.print(summary)


def _short(word: str) -> str:
    return printable(word, 16)


def _colour(share: float) -> str:
    """Green for what speaks for the class, red for what speaks against it, in three strengths; nothing below a tenth."""
    if abs(share) < 0.1:
        return ""
    colour = "green" if share > 0 else "red"
    return f"bold reverse {colour}" if abs(share) > 0.66 else f"bold {colour}" if abs(share) > 0.33 else colour
