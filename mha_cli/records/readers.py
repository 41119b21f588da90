"""The formats, and which of them a file name tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Literal

from mha_cli.records.fasttext import FastTextReader
from mha_cli.records.json_lines import JsonReader
from mha_cli.records.parquet import ParquetReader
from mha_cli.records.reader import PlainReader, RecordReader
from mha_cli.records.tables import TableReader

Format = Literal["lines", "jsonl", "csv", "tsv", "fasttext", "parquet"]
READERS: dict[Format, Callable[..., RecordReader]] = {
    "lines": PlainReader,
    "jsonl": JsonReader,
    "csv": partial(TableReader, ","),
    "tsv": partial(TableReader, "\t"),
    "fasttext": FastTextReader,
    "parquet": ParquetReader,
}
"""What makes a reader, given the arguments of ``RecordReader``."""
EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".ft": "fasttext",
    ".fasttext": "fasttext",
    ".parquet": "parquet",
}


def extension_of(path: str) -> str:
    """The extension that tells the format, in lower case; ``.gz`` is left aside."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]
