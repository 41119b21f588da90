"""The ways in which every command shows its results: a console, a line, JSON."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mha_cli.errors import printable
from mha_cli.records.objects import plain_json


def stdout_console() -> Console:
    """The console for tables and coloured text; numbers and words are not coloured by themselves."""
    return Console(highlight=False)


def table(words: list[str], figures: Sequence[str | Text], title: str | Text | None = None) -> Table:
    """An empty table; the columns of figures are set right, behind those of words."""
    made = Table(*words, title=title)
    for heading in figures:
        made.add_column(heading, justify="right")
    return made


def print_figures(title: str, figures: Iterable[tuple[str, str]]) -> None:
    """A table of names and values, which may come from outside."""
    drawn = Table(title=Text(printable(title, 200)), show_header=False)
    for name, figure in figures:
        drawn.add_row(Text(printable(name)), Text(printable(figure, 1000), overflow="fold"))
    stdout_console().print(drawn)


def print_line(text: str, console: Console | None = None) -> None:
    """A line of plain text, never broken; on stdout unless another console is given."""
    (console or stdout_console()).print(Text(printable(text, 1000)), soft_wrap=True)


def print_json(result: Any) -> None:
    """A result for programs, on stdout; a dataclass becomes an object. Where the stream is not UTF-8, other characters are escaped."""
    text = plain_json(result, default=lambda value: asdict(value) if hasattr(value, "__dataclass_fields__") else str(value), indent=1)
    is_utf_8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(text if is_utf_8 else json.dumps(json.loads(text), indent=1))
