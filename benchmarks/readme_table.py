"""Write the README's tables of results from the JSON in `benchmarks/results` and in its folders.

`python benchmarks/readme_table.py` puts them between the README's two marker comments; with `--check` it writes nothing and exits with 1 if
the README says anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import tables

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
NOTICE = "<!-- Written by benchmarks/readme_table.py from benchmarks/results; do not edit. -->"

TABLES: dict[str, Callable[[Any], tables.Table]] = {
    "accuracy.json": tables.accuracy,
    "texts.json": tables.texts,
    "book.json": tables.book,
    "predict.json": tables.predict,
    "serve.json": tables.serve,
    "stream-memory.json": tables.stream_memory,
    "attention.json": tables.attention,
    "attention-memory.json": tables.attention_memory,
    "memory.json": tables.growth,
    "inputs.json": tables.inputs,
    "extras.json": tables.extras,
}
"""The table of each file of results, in the order of the README."""


def with_tables(readme: str, results: Path) -> str:
    """The README's text with the tables of all results that there are; those of other machines, in folders of their own, name theirs each.

    Raises:
        ValueError: the markers are missing, or stand twice or in the wrong order.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or readme.count(BEGIN) > 1 or readme.count(END) > 1:
        raise ValueError(f"the README needs the lines {BEGIN} and {END}, once each")
    parts, named = [], ""
    for name, make in TABLES.items():
        for folder in (results, *sorted(results.glob("*/"))):
            content = harness.read_json(folder / name)
            if not content:
                continue
            table, picture = make(content), (folder / name).with_suffix(".png")
            parts.append(tables.markdown(table, named if folder == results else ""))
            if picture.exists():
                parts.append(f"![{table.title}]({picture.relative_to(results.parents[1])})")
            if folder == results:
                named = f"{named}, {table.machine}"
    return before + "\n\n".join([f"{BEGIN}\n{NOTICE}", *parts, END]) + after


def main(arguments: list[str]) -> int:
    """Write the tables, or with ``--check`` say whether they are up to date; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python benchmarks/readme_table.py [--check]", file=sys.stderr)
        return 2
    path = harness.ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    written = with_tables(readme, harness.RESULTS)
    if not arguments:
        path.write_text(written, encoding="utf-8")
        return 0
    if written != readme:
        print("README.md is out of date; run python benchmarks/readme_table.py", file=sys.stderr)
    return int(written != readme)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
