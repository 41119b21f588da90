"""An archive of small files in every format, what is expected of its parts, and the command that makes them."""

import gzip
import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.checkpoints import WORDS


def texts(number: int, seed: int = 0) -> list[str]:
    """Short texts, some of them empty, of unknown words, or too long."""
    rng = random.Random(seed)
    odd = ["the film", "", "quux", "superb " * 20]
    return odd + [" ".join(rng.choices([*WORDS, "quux"], k=rng.choice((0, 1, 5, 9, 20)))) for _ in range(number - len(odd))]


def write_archive(folder: Path, rows: int = 20) -> dict[str, int]:
    """An archive; the number of rows of each of its files, by path."""
    (folder / "more").mkdir(parents=True)
    found = texts(rows)
    lines = "".join(f"{text}\n" for text in found).encode()
    objects = "".join(json.dumps({"text": text}) + "\n" for text in found).encode()
    table = "id,text\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(found))
    (folder / "a.txt").write_bytes(lines)
    (folder / "b.jsonl").write_bytes(objects)
    (folder / "more" / "c.jsonl.gz").write_bytes(gzip.compress(objects))
    (folder / "more" / "d.csv").write_text(table)
    (folder / "more" / "empty.txt").touch()
    names = {"a.txt": rows, "b.jsonl": rows, "more/c.jsonl.gz": rows, "more/d.csv": rows, "more/empty.txt": 0}
    return {str(folder / name): number for name, number in names.items()}


def rows_of(output: Path) -> list[dict[str, Any]]:
    """The rows of all parts that have a manifest, checked against it."""
    found: list[dict[str, Any]] = []
    for path in sorted(output.glob("_*.manifest.json")):
        manifest = json.loads(path.read_bytes())
        part = output / manifest["part"]["name"]
        assert hashlib.sha256(part.read_bytes()).hexdigest() == manifest["part"]["sha256"]
        rows = read_part(part)
        assert len(rows) == manifest["rows"]
        found += rows
    return found


def read_part(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()


def refuse_anything_else(output: Path) -> None:
    """Every file in a folder is a part or its manifest: nothing is unfinished, nothing is left behind."""
    parts = {path.stem for path in output.iterdir() if not path.name.startswith("_")}
    manifests = {path.name.removeprefix("_").removesuffix(".manifest.json") for path in output.glob("_*.manifest.json")}
    assert parts == manifests
    assert len(list(output.iterdir())) == 2 * len(parts)


def numbered(rows: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """File and number of every row, sorted: each text counts once."""
    return sorted((row["file"], row["row"]) for row in rows)


def expected(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The same of the whole archive."""
    return sorted((name, number) for name, rows in counts.items() for number in range(1, rows + 1))
