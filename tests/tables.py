"""Tables of texts, as files."""

import csv
from collections.abc import Iterable
from pathlib import Path


def write_table(path: Path | str, rows: Iterable[Iterable[object]], header: str = "text,label") -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return Path(path)
