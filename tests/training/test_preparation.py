"""What is told about the data while it is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mha_cli.config import config_from_dict
from mha_cli.training.preparation import prepare

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = "text,label\nfine,pos\nfine,pos\nfine,neg\ndull,neg\ngood,pos\nbad,neg\n"


def told(folder: Path, test: str | None) -> list[str]:
    (folder / "train.csv").write_text(TRAIN)
    if test is not None:
        (folder / "test.csv").write_text(test)
    data = {"source": "files", "train": str(folder / "train.csv"), "test": str(folder / "test.csv")}
    lines: list[str] = []
    prepare(config_from_dict({"data": data}, "test"), lines.append)
    return [line.removeprefix(f"{folder}/") for line in lines if not line.startswith("reading")]


REPEATED = "train.csv: 2 of 6 reviews repeat an earlier one to the letter"


def test_repeated_reviews_are_told(tmp_path: Path) -> None:
    assert told(tmp_path, "text,label\nnew,pos\n") == [REPEATED]


def test_reviews_in_both_parts_are_told(tmp_path: Path) -> None:
    known = "train.csv: 2 reviews of the test data are among the training data, to the letter"
    assert told(tmp_path, "text,label\nnew,pos\nfine,pos\nbad,neg\nBad,neg\n") == [REPEATED, known]


def test_what_is_wrong_with_the_test_data_does_not_end_the_training(tmp_path: Path) -> None:
    assert told(tmp_path, None) == [REPEATED]
    assert told(tmp_path, "text\n") == [REPEATED]
