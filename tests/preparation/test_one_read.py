"""Files of texts are read once; only the first rows of a table are read again, to find its columns."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config
from mha_cli.describe.profile import data_overview
from mha_cli.preparation import made_texts
from mha_cli.preparation.prepare import prepare
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.sources import files, layout, raw_files
from mha_cli.system import input_files
from tests.checkpoints import small_checkpoint
from tests.tables import write_table

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

NUM_TEXTS = 2_000
ROWS = [
    (f"film number {number}, which is {'long ' * 20}", ("neg", "pos")[number % 2], number // 10, ("train", "test")[number % 9 == 0])
    for number in range(NUM_TEXTS)
]
OPEN: dict[str, Any] = {"train": "films.csv", "test_share": 0.2}
NAMED = {**OPEN, "text_column": "text", "label_column": "label"}


@pytest.fixture
def num_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The bytes that are read of each file of texts, and how often a layout is found."""
    counts = Counter[str]()

    class CountedFile(input_files.InputFile):
        def readinto(self, buffer: Any, /) -> int | None:
            size = super().readinto(buffer)
            if str(self.name).endswith(".csv"):
                counts[str(self.name)] += size or 0
            return size

    def find_layout(*args: Any) -> layout.Layout:
        counts["layouts"] += 1
        return layout.find_layout(*args)

    monkeypatch.setattr(layout, "SAMPLE_ROWS", NUM_TEXTS // 20)
    monkeypatch.setattr(raw_files, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(input_files, "InputFile", CountedFile)
    monkeypatch.setattr(made_texts, "MADE_PER_TEXT", 1)
    monkeypatch.setattr(files, "find_layout", find_layout)
    return counts


@pytest.fixture(autouse=True)
def _files(in_an_empty_folder: None) -> None:
    write_table("films.csv", (row[:2] for row in ROWS))
    write_table("groups.csv", (row[:3] for row in ROWS), "text,label,group")
    write_table("splits.csv", ((*row[:2], row[3]) for row in ROWS), "text,label,split")
    write_table("more.csv", ((f"one more {row[0]}", row[1]) for row in ROWS))


def trained(config: Config) -> None:
    assert len(prepare(config).train) > NUM_TEXTS / 2


def taught(config: Config) -> None:
    os.mkdir("teacher")
    write_checkpoint(Path("teacher/checkpoint.keras"), small_checkpoint())
    trained(config.changed(training={"teacher": "teacher"}))


def scored(config: Config) -> None:
    assert len(labelled_texts(small_checkpoint(), config.data).texts) > NUM_TEXTS / 20


@pytest.mark.parametrize(
    ("data", "num_layouts"),
    [
        (NAMED, 1),
        (OPEN, 1),
        ({**OPEN, "train": "groups.csv"}, 1),
        ({**OPEN, "train": "splits.csv"}, 1),
        ({**OPEN, "more": ["more.csv"]}, 1),
        ({**NAMED, "test_share": None, "test": "groups.csv"}, 0),
    ],
)
@pytest.mark.parametrize("use", [trained, taught, scored, data_overview])
def test_each_file_is_read_once(use: Callable[[Config], None], data: dict[str, Any], num_layouts: int, num_read: Counter[str]) -> None:
    use(config_from_dict({"data": {"source": "files", **data}}, "test"))
    assert num_read.pop("layouts", 0) == num_layouts
    assert all(number <= 1.1 * Path(name).stat().st_size for name, number in num_read.items())
    read = {data["train"], *data.get("more", []), data.get("test", data["train"])}
    assert {*num_read} == (read - {data["train"]} if use is scored and "test" in data else read)
