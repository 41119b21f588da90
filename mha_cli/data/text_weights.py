"""How much each text counts in training: a number in a further column, or in a list; 2 is the text twice, and 0 leaves it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, nan

from mha_cli.data.labelled_text import LabelledText
from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import StreamWarnings


def weight_of(value: object, location: str, column: str = "") -> float:
    """The weight in a column, or in a list without a ``column``: a number from 0 on."""
    try:
        weight = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        weight = nan
    if not 0.0 <= weight < inf:
        named = f' "{printable(column)}"' if column else ""
        raise MhaError(f"{location}: the weight{named} is {printable(repr(value), 60)}", "give numbers from 0 on; 0 leaves the text out")
    return weight


def that_count(texts: Iterable[LabelledText], where: str, warnings: StreamWarnings) -> Iterator[LabelledText]:
    """The texts with a weight above 0, of which there must be one; ``warnings`` count the others."""
    num_kept = 0
    for one in texts:
        if one.weight:
            num_kept += 1
            yield one
        else:
            warnings.num_weightless += 1
    if not num_kept:
        raise MhaError(f"{where}: no text has a weight above 0", "0 leaves a text out; give the others a weight of 1")
