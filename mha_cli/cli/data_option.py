"""The labelled texts that --data names, or the checkpoint's config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mha_cli.checkpoint.runs import is_own
from mha_cli.cli.options import goes_with
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import FilesData, SampleData
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.reader import USUAL, Dialect

if TYPE_CHECKING:
    from mha_cli.config.settings import Config
    from mha_cli.data.sources import DataSection


def data_section(
    data: Sequence[str] | None,
    checkpoint: Path,
    trained_on: Config,
    text_column: str | None,
    label_column: str | None,
    dialect: Dialect = USUAL,
) -> DataSection:
    """The data of --data, else of the checkpoint's config; columns, encoding and quoting are by default as in training."""
    trained = trained_on.data
    if data is None and not is_own(checkpoint, trained_on):
        left = f"no config.yaml beside it agrees, so the data that it names is left alone: {_named(trained)}"
        raise MhaError(f"{shown_path(checkpoint)}: {left}", "say with --data what to read")
    section: DataSection = trained if data is None else _given_section(data)
    # So that the validation part of the training data is the one held out, however these are named.
    section = section.model_copy(update={"validation": trained.validation, "validation_share": trained.validation_share})
    if isinstance(section, FilesData):
        known = trained if isinstance(trained, FilesData) else section
        columns = {"text_column": text_column or known.text_column, "label_column": label_column or known.label_column}
        read_as = {"encoding": dialect.encoding or known.encoding, "quoting": dialect.quoting and known.quoting}
        return section.model_copy(update={**columns, **read_as, "test_share": known.test_share})
    goes_with(
        f"files, not with {_named(section)}",
        text_column=text_column,
        label_column=label_column,
        encoding=dialect.encoding,
        no_quoting=not dialect.quoting,
    )
    return section


def _given_section(data: Sequence[str]) -> DataSection:
    """The data of one --data or several."""
    for given in data:
        if given == "sample" or given.startswith("tfds:"):
            if len(data) > 1:
                raise MhaError(f"--data {printable(given)}: goes with no other data", "leave the other --data out")
            if given == "sample":
                return SampleData()
            return config_from_dict({"data": {"source": "tfds", "name": given.removeprefix("tfds:")}}, "--data").data
        if given.isidentifier() and not os.path.exists(given):
            raise MhaError(f"--data {given}: no such file or folder", f"check the path; for TensorFlow Datasets write tfds:{given}")
    paths = data[0] if len(data) == 1 else list(data)
    # The same files whatever split is asked for.
    return config_from_dict({"data": {"source": "files", "train": paths, "test": paths}}, "--data").data


def _named(section: DataSection) -> str:
    """A data section in words."""
    if section.source == "files":
        return printable(", ".join([*section.train_paths, *section.test_paths]), 200)
    return f"tfds:{printable(section.name, 200)}" if section.source == "tfds" else section.source
