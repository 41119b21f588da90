"""Labelled texts in figures, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mha_cli.errors import listed, printable

if TYPE_CHECKING:
    from mha_cli.data.layout import Layout
    from mha_cli.data.profile import TextFigures

_MOST_CLASSES_SHOWN = 8
_LEAST_SHARE_SHOWN = 0.001


def layout_rows(layout: Layout) -> Iterator[tuple[str, str]]:
    """Names and values of how the texts are held."""
    parts = [layout.format]
    if layout.separator is not None:
        parts += [f"{layout.separator}s between the columns", "a header line" if layout.header else "no header line"]
    yield "format", ", ".join(parts)
    if layout.columns:
        yield "columns", listed(layout.columns)
        yield "text column", f"{layout.text_column} ({layout.text_reason})"
        yield "label column", f"{layout.label_column} ({layout.label_reason})"


def figure_rows(texts: TextFigures, where: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of what is counted.

    Args:
        texts: what is told.
        where: what stands behind their number.
    """
    yield "texts", f"{texts.num_texts:,}{where}"
    yield "classes", f"{len(texts.classes):,}: {_classes(list(texts.classes.items()))}"
    lengths = texts.lengths
    yield "tokens a text", f"{lengths.median:,} (median), 90 % up to {lengths.ninety_percent:,}, longest {lengths.longest:,}"
    shares = {script: share for script, share in texts.scripts.items() if share >= _LEAST_SHARE_SHOWN}
    yield "scripts", ", ".join(f"{script} {100 * share:.3g} %" for script, share in shares.items()) or "none"
    yield "odd", texts.line() or "nothing"


def _classes(numbers: list[tuple[str, int]]) -> str:
    """The most frequent classes with their texts, and the rarest."""
    if len(numbers) <= _MOST_CLASSES_SHOWN:
        return ", ".join(f"{printable(label)} ({number:,})" for label, number in numbers)
    (rarest, fewest), frequent = numbers[-1], numbers[: _MOST_CLASSES_SHOWN - 1]
    return f"{_classes(frequent)}, … {printable(rarest)} ({fewest:,})"
