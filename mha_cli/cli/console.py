"""The ways in which every command shows its results: a console, a line, JSON."""

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


def table(words: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", **style: Any) -> Table:
    """A table of columns of words, folded, then of figures, on the right; ``style`` is for Rich. Its text may come from outside."""
    made = Table(title=Text("\n".join(printable(line, 200) for line in title.split("\n"))) if title else None, **style)
    for heading in words:
        made.add_column(Text(heading), overflow="fold")
    for heading in figures:
        made.add_column(Text(heading), justify="right")
    for cells in rows:
        made.add_row(*(Text(printable(cell, 1000), overflow="fold" if at < len(words) else None) for at, cell in enumerate(cells)))
    return made


def print_table(words: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", **style: Any) -> None:
    """Print a ``table``."""
    stdout_console().print(table(words, figures, rows, title, **style))


def print_figures(title: str, figures: Iterable[tuple[str, str]]) -> None:
    """Print names and their values."""
    print_table(["", ""], [], figures, title, show_header=False)


def print_line(text: str, console: Console | None = None) -> None:
    """A line of plain text, never broken; on stdout unless another console is given."""
    (console or stdout_console()).print(Text(printable(text, 1000)), soft_wrap=True)


def print_json(result: Any) -> None:
    """A result for programs, on stdout; a dataclass becomes an object. Where the stream is not UTF-8, other characters are escaped."""
    text = plain_json(result, default=lambda value: asdict(value) if hasattr(value, "__dataclass_fields__") else str(value), indent=1)
    is_utf_8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(text if is_utf_8 else json.dumps(json.loads(text), indent=1))
