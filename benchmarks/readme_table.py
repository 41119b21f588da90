"""Write the tables in `docs/benchmarks.md`, `docs/pretrained.md` and the README from the JSON in `benchmarks/results` and in its folders.

`python benchmarks/readme_table.py` puts them between the two marker comments of each page; with `--check` it writes nothing and exits
with 1 if a page says anything else. The README has the two main tables in short.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    "predict-book.json": tables.predict,
    "serve.json": tables.serve,
    "stream-memory.json": tables.stream_memory,
    "attention.json": tables.attention,
    "attention-memory.json": tables.attention_memory,
    "memory.json": tables.growth,
    "memory-text.json": tables.growth,
}
"""The table of each file of results, in the order of the page."""
DRAWN_BY = {"texts": "texts.py FOLDER --part test", "memory-text": "memory.py --files FILE…"}
"""The script of a picture, where it has arguments or another name."""
IN_SHORT = {
    "accuracy.json": ("system", "test accuracy", "reading and training"),
    "texts.json": ("set", "classes", "mha text", "best peer", "ahead by (95 %)"),
}
"""Columns of the README's tables."""
SYSTEMS_IN_SHORT = ("mha imdb-semi", "mha imdb-fast", "NB-SVM, 1–3-grams", "fastText, bigrams")


def full_tables(results: Path, prefix: str = "../") -> list[str]:
    """A table for each file of results, with its picture; results of other machines are in folders of their own.

    Args:
        results: folder of the results.
        prefix: path from the page to the repository, for the pictures.
    """
    parts = []
    for name, make in TABLES.items():
        for folder in (results, *sorted(results.glob("*/"))):
            content = harness.read_json(folder / name)
            if not content:
                continue
            table, picture = make(content), (folder / name).with_suffix(".png")
            parts.append(tables.markdown(table))
            if picture.exists():
                parts.append(f"![{table.title}]({prefix}{picture.relative_to(results.parents[1])})")
                elsewhere = f" --results benchmarks/results/{folder.name}" if folder != results else ""
                parts.append(f"Drawn by `python benchmarks/{DRAWN_BY.get(picture.stem, f'{picture.stem}.py')}{elsewhere}`.")
    return parts


def short_tables(results: Path) -> list[str]:
    """The README's tables: chosen columns and, for IMDB, chosen systems; docs/benchmarks.md names the machine."""
    parts = []
    for name, headings in IN_SHORT.items():
        if content := harness.read_json(results / name):
            table = TABLES[name](content)
            places = [table.headings.index(heading) for heading in headings]
            rows = [tuple(row[at] for at in places) for row in table.rows if name != "accuracy.json" or row[0] in SYSTEMS_IN_SHORT]
            parts.append(tables.markdown(replace(table, headings=headings, rows=rows, machine="")))
    return parts


def with_tables(page: str, parts: Sequence[str]) -> str:
    """The text of a page with these tables between its markers.

    Raises:
        ValueError: the markers are missing, repeated or in the wrong order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or page.count(BEGIN) > 1 or page.count(END) > 1:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}, once each")
    return before + "\n\n".join([f"{BEGIN}\n{NOTICE}", *parts, END]) + after


def main(arguments: list[str]) -> int:
    """Write the tables, or with ``--check`` say whether they are up to date; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python benchmarks/readme_table.py [--check]", file=sys.stderr)
        return 2
    outdated = 0
    few = harness.read_json(harness.RESULTS / "few-labels.json")
    pages = {"docs/benchmarks.md": full_tables(harness.RESULTS), "README.md": short_tables(harness.RESULTS)}
    words = harness.read_json(harness.RESULTS / "class-words.json")
    of_words = [tables.markdown(tables.few_labels(words, "Test accuracy with the words of classes"))] if words else []
    pages |= {"docs/pretrained.md": [tables.markdown(tables.few_labels(few)), *of_words]} if few else {}
    for name, parts in pages.items():
        path = harness.ROOT / name
        found = path.read_text(encoding="utf-8")
        written = with_tables(found, parts)
        if not arguments:
            path.write_text(written, encoding="utf-8")
        elif written != found:
            print(f"{name} is out of date; run python benchmarks/readme_table.py", file=sys.stderr)
            outdated = 1
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
