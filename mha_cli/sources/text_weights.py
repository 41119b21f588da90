"""How much each text counts in training: a number in a further column, or in a list; 2 is the text twice, and 0 leaves it out."""

import re
from collections.abc import Iterable, Iterator
from math import nan

from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.labelled_text import LabelledText

_NUMBER = re.compile(r"[-+.\dEe]+", re.ASCII)  # Python also reads 1_0, and digits of other scripts
SMALLEST, LARGEST = 1e-9, 1e9  # float32 would read others as 0 or infinity, alone or in sums


def weight_of(value: object, location: str, column: str = "") -> float:
    """The weight in a column, or in a list without a ``column``: 0, or a number between the bounds."""
    try:
        weight = float(value) if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) else nan  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        weight = nan
    if weight != 0.0 and not SMALLEST <= weight <= LARGEST:
        named = f' "{printable(column)}"' if column else ""
        hint = "give numbers from 1e-9 to 1e9, or 0, which leaves the text out"
        raise MhaError(f"{location}: the weight{named} is {printable(repr(value), 60)}", hint)
    return weight


def with_weight(texts: Iterable[LabelledText], where: str, warnings: StreamWarnings) -> Iterator[LabelledText]:
    """The texts with a weight above 0, at least one; ``warnings`` count the texts with weight 0."""
    num_kept = num_weightless = 0
    for text in texts:
        if text.weight:
            num_kept += 1
            yield text
        else:
            num_weightless += 1
    warnings.num_weightless = num_weightless
    if not num_kept:
        raise MhaError(f"{where}: no text has a weight above 0", "0 leaves a text out; give the others a weight of 1")
