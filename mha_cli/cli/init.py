"""`mha init`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mha_cli.cli.options import JsonOption
from mha_cli.errors import MhaError, listed, printable

if TYPE_CHECKING:
    from mha_cli.data.profile import DataProfile

EXAMPLES = """[bold]Examples[/bold]

mha init reviews.csv

mha init reviews.csv --text-column review --label-column stars \\
    --output stars.yaml

mha init "part-*.jsonl" --text-column text.body --json"""

_MOST_CLASSES_SHOWN = 8
_LEAST_SHARE_SHOWN = 0.001


def init(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Labelled texts to train on: files (CSV, TSV, JSONL, fastText, Parquet), or folders with one sub-folder a class.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Config to write.", show_default="the name of the data, .yaml")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", metavar="NAME", help="Column of the text, by name or number.", show_default="guessed")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option("--label-column", metavar="NAME", help="Column of the class, by name or number.", show_default="guessed")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write the config over one that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at labelled texts, tell what is in them, and write a config to train on them."""
    from mha_cli.cli.console import print_json
    from mha_cli.cli.output import refuse_output
    from mha_cli.cli.progress import status
    from mha_cli.config.recipes import find_config, name_of_data
    from mha_cli.data.new_config import new_config
    from mha_cli.data.profile import profile_data
    from mha_cli.system.whole_files import atomic_write

    path = output or Path(f"{name_of_data(files[0]) or 'data'}.yaml")
    if os.path.lexists(path) and not force:
        raise MhaError(f"{printable(str(path), 200)}: exists", "name another file with --output, or write over it with --force")
    refuse_output("--output", path)
    with status("reading") as watcher:
        profile = profile_data(files, text_column, label_column, watcher)
    config = new_config(profile, find_config("text"))
    with atomic_write(path) as file:
        file.write(config.encode())
    print_json({"config": str(path), **asdict(profile)}) if as_json else _print(profile, path)


def _print(profile: DataProfile, config: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    from mha_cli.cli.console import print_line, stdout_console

    table = Table(title=Text(printable(listed(profile.data, 1), 200)), show_header=False)
    for name, value in _rows(profile):
        table.add_row(name, Text(printable(value, 1000), overflow="fold"))
    stdout_console().print(table)
    print_line(f"written: {config}")
    print_line(f"next: {shlex.join(['mha', 'train', '--config', str(config)])}")


def _rows(profile: DataProfile) -> Iterator[tuple[str, str]]:
    layout = profile.layout
    parts = [layout.format]
    if layout.separator is not None:
        parts += [f"{layout.separator}s between the columns", "a header line" if layout.header else "no header line"]
    yield "format", ", ".join(parts)
    if layout.columns:
        yield "columns", ", ".join(layout.columns)
        yield "text column", f"{layout.text_column} ({layout.text_reason})"
        yield "label column", f"{layout.label_column} ({layout.label_reason})"
    yield "texts", f"{profile.num_texts:,}" + (f" in {profile.num_files:,} files" if profile.num_files > 1 else "")
    yield "classes", f"{len(profile.classes):,}: {_classes(list(profile.classes.items()))}"
    lengths = profile.lengths
    yield "tokens a text", f"{lengths.median:,} (median), 90 % up to {lengths.ninety_percent:,}, longest {lengths.longest:,}"
    shares = {script: share for script, share in profile.scripts.items() if share >= _LEAST_SHARE_SHOWN}
    yield "scripts", ", ".join(f"{script} {100 * share:.3g} %" for script, share in shares.items()) or "none"
    oddities = {
        "without a word": profile.num_wordless,
        "repeated to the letter": profile.num_repeated,
        "texts with two labels": profile.num_two_labels,
        "blank lines left out": profile.num_blank,
    }
    yield "odd", ", ".join(f"{what}: {number:,}" for what, number in oddities.items() if number) or "nothing"


def _classes(numbers: list[tuple[str, int]]) -> str:
    """The most frequent classes with their texts, and the rarest."""
    if len(numbers) <= _MOST_CLASSES_SHOWN:
        return ", ".join(f"{printable(label)} ({number:,})" for label, number in numbers)
    (rarest, fewest), frequent = numbers[-1], numbers[: _MOST_CLASSES_SHOWN - 1]
    return f"{_classes(frequent)}, … {printable(rarest)} ({fewest:,})"
