"""A report as one page for a browser, which loads nothing and runs nothing."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mha_cli.analysis.evaluation import ClassScore, Evaluation, class_scores
from mha_cli.config.loading import config_to_yaml
from mha_cli.errors import plural, printable
from mha_cli.plots import figures
from mha_cli.report.contents import Report
from mha_cli.runtime.levels import levels_of
from mha_cli.system.whole_files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 2_000  # most characters of one text from outside
MATRIX_CLASSES = 15  # classes of the largest confusion matrix on a page; of more, the most frequent confusions are shown
TOLD_WORDS = 3  # words that are named as decisive
MOST_LOG_ODDS = 3  # change of the log-odds with the deepest shade, as in ``pages/shared.js``; the odds change by a factor of 20

COLOURS = ["#0072B2", "#D55E00"]
"""Blue and orange, which the colour-blind tell apart, on white and on black."""

LEGIBLE = 0.7  # part of its width that a figure keeps on the narrowest screen, where it scrolls


def write_page(report: Report, made_with: Mapping[str, str], again: Sequence[str], path: Path) -> None:
    """Write the page of a report, with versions and machine by name (``made_with``) and the commands that reproduce it (``again``)."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {
        "plural": plural,
        "percent": lambda share: "–" if share is None else f"{share:.2%}",
        "decisive": lambda falls: sorted(range(len(falls)), key=lambda number: -abs(falls[number]))[:TOLD_WORDS],
        "depth": shade_depth,
    }
    page, style = (
        files(package).joinpath(name).read_text("utf-8")
        for package, name in (("mha_cli.report", "page.html"), ("mha_cli.pages", "shared.css"))
    )
    most_lost = max(head.accuracy_fall for head in report.heads.heads)  # NaN if no head was silenced
    head_maps = {f"heads-{number}": title for number, title in enumerate(figures.head_maps(report.heads)) if not most_lost <= 0}
    drawn: list[tuple[str, Callable[[Any], Figure], Any]] = [
        ("reliability", figures.reliability_figure, report.reliability),
        *([("lengths", figures.lengths_figure, report.evaluation.by_length)] if isinstance(report.evaluation, Evaluation) else []),
        ("order", figures.shuffle_figure, [report.shuffle]),
        *((name, partial(figures.heads_figure, title=title), report.heads) for name, title in head_maps.items()),
        *([("curves", figures.curves_figure, report.history)] if report.history else []),
    ]
    text = environment.from_string(page).render(
        report=report,
        scored=report.evaluation,
        style=Markup(style),
        svg={name: inline_svg(name, partial(draw, shown)) for name, draw, shown in drawn},
        head_maps=head_maps,
        silenced=not math.isnan(most_lost),
        words=defaultdict(str, reversed(report.checkpoint.config.class_lines)),  # the first line of each class
        config=config_to_yaml(report.checkpoint.config).splitlines(),
        made_with=made_with,
        again=again,
        guessed="guessed_texts" in report.checkpoint.metrics,
        is_multi_label=report.checkpoint.config.is_multi_label,
        branches=_branches(report),
        matrix=len(report.checkpoint.class_names) <= MATRIX_CLASSES,
        most_log_odds=MOST_LOG_ODDS,
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def _branches(report: Report) -> list[tuple[ClassScore, list[ClassScore]]]:
    """The branches of labels in levels, with the figures of their classes as one class, and the classes; empty without levels."""
    levels, scored = levels_of(report.checkpoint), report.evaluation
    if not levels or not isinstance(scored, Evaluation):
        return []
    branch_of = dict(zip(report.checkpoint.class_names, levels.branches, strict=True))
    names = tuple(sorted({*branch_of.values()}))
    counts, branches = np.array(scored.confusion), np.array([names.index(branch) for branch in levels.branches])
    truth, predicted = (np.repeat(branches[ids], counts[counts > 0]) for ids in counts.nonzero())
    classes = sorted(scored.classes, key=lambda one: one.name)
    below = [[one for one in classes if branch_of[one.name] == name] for name in names]
    return list(zip(class_scores(predicted, truth, names), below, strict=True))


def shade_depth(fall: float, probability: float) -> float:
    """The depth of a word's colour, in [0, 1], from the fall of the answer's probability when the word is left out."""
    with_word, without = (min(max(p, 1e-6), 1 - 1e-6) for p in (probability, probability - fall))
    return min(1.0, abs(math.log(with_word / (1 - with_word)) - math.log(without / (1 - without))) / MOST_LOG_ODDS)


def inline_svg(name: str, draw: Callable[[], Figure]) -> Markup:
    """A figure as SVG inside a page, in the colour of its text and no wider; the unique ``name`` begins its ids and its caption's."""
    from matplotlib import rc_context

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "axes.prop_cycle": f"cycler('color', {COLOURS})"}
    with rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that Matplotlib's font lacks is drawn by the browser
        file, figure = io.StringIO(), draw()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    body = re.sub(r'<!--.*?-->|font-family: [^;">]*sans-serif(; )?', "", svg[svg.index("<g id=") :], flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body.replace("xlink:href", "href")).replace("#000000", "currentColor")
    width, height = 72 * figure.get_size_inches()
    style = f"max-width: {width:g}pt; min-width: {LEGIBLE * width:g}pt"
    return Markup(f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-caption" style="{style}">\n{body}')


def _shown(value: Any) -> Any:
    """A value of the template: text without control characters, which is then escaped."""
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value
