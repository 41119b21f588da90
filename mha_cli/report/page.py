"""A report as one page for a browser, which loads nothing and runs nothing."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mha_cli.config.loading import config_to_yaml
from mha_cli.errors import plural, printable
from mha_cli.plots import figures
from mha_cli.report.contents import Report
from mha_cli.system.whole_files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 2_000
"""Characters of a text from outside that stand in one place, at most."""

MATRIX_CLASSES = 15
"""Classes of a confusion matrix that is still read; of more, the most frequent confusions are shown."""

TOLD_WORDS = 3
"""Words that are named as decisive."""

COLOURS = ["#0072B2", "#D55E00"]
"""Blue and orange that the colour-blind tell apart, on white and on black."""

LEGIBLE = 0.7
"""Part of its width that a figure keeps on the narrowest screen; what has no room there is scrolled."""


def write_page(report: Report, made_with: Mapping[str, str], again: Sequence[str], path: Path) -> None:
    """Write the page of a report.

    Args:
        report: what it says.
        made_with: versions and machine, by name.
        again: commands that make it again.
        path: file to write.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"plural": plural, "percent": lambda value: "–" if value is None else f"{value:.2%}", "decisive": _decisive}
    page, style = (
        files(package).joinpath(name).read_text("utf-8")
        for package, name in (("mha_cli.report", "page.html"), ("mha_cli.pages", "shared.css"))
    )
    drawn: list[tuple[str, Callable[[Any], Figure], Any]] = [
        ("reliability", figures.reliability_figure, report.reliability),
        ("lengths", figures.lengths_figure, report.evaluation.by_length),
        ("order", figures.shuffle_figure, [report.shuffle]),
        ("heads", figures.heads_figure, report.heads),
        *([("curves", figures.curves_figure, report.history)] if report.history else []),
    ]
    text = environment.from_string(page).render(
        report=report,
        scored=report.evaluation,
        style=Markup(style),
        svg={name: inline_svg(name, partial(draw, shown)) for name, draw, shown in drawn},
        config=config_to_yaml(report.checkpoint.config).splitlines(),
        made_with=made_with,
        again=again,
        matrix=len(report.checkpoint.class_names) <= MATRIX_CLASSES,
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def inline_svg(name: str, draw: Callable[[], Figure]) -> Markup:
    """A figure as SVG to stand in a page: in the colour of its text, with names of its own, and no wider than there is room.

    Args:
        name: word that no other figure of the page has; what has the id ``NAME-caption`` says what the figure shows.
        draw: function that draws it.
    """
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
    """What a place of the template shows: text without control characters, which is then escaped."""
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _decisive(falls: Sequence[float]) -> list[int]:
    """The words that decide most, by their numbers."""
    return sorted(range(len(falls)), key=lambda number: -abs(falls[number]))[:TOLD_WORDS]
