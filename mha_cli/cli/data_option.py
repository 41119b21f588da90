"""The labelled texts that --data names, or the checkpoint's config."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from mha_cli.cli.options import EncodingOption, NoQuotingOption, ReadsTables, column_option, goes_with
from mha_cli.cli.progress import progress
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config, DataSettings, FilesData, SampleData
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.runs import is_own
from mha_cli.sources.opening import DataSection

if TYPE_CHECKING:
    from mha_cli.checkpoint.file import Checkpoint

HeldOutOption = Annotated[
    list[str] | None,
    Option("--data", metavar="SOURCE", help="Labelled texts that the model has not learned from.", show_default="the validation part"),
]


@dataclass(frozen=True)
class DataOptions(ReadsTables):
    """--data, and how its files are read."""

    data: Annotated[
        list[str] | None,
        Option(
            metavar="SOURCE",
            help="Labelled texts: a file (CSV, TSV, JSONL, fastText, Parquet, .xlsx, .ods), files such as 'part-*.csv' (again for "
            "further ones), a folder with one sub-folder per class, [bold]sample[/bold], or [bold]tfds:NAME[/bold]. By default, a command "
            "that scores takes the data in the config of your own run; export scores only with --data.",
        ),
    ] = None
    text_columns: Annotated[list[str] | None, column_option("text", "--data", "as in training, else guessed")] = None
    label_column: Annotated[str | None, column_option("label", "--data", "as in training, else guessed")] = None
    encoding: EncodingOption = None
    no_quoting: NoQuotingOption = False

    def refuse_without_data(self) -> None:
        """Refuse the other options where there is no --data."""
        if self.data is None:
            goes_with("--data", **asdict(self))

    def section(self, checkpoint: Path, trained_on: Config) -> DataSection:
        """The data of --data, else of the checkpoint's config; columns, encoding and quoting are by default as in training."""
        trained = trained_on.data
        if self.data is None and not is_own(checkpoint, trained_on):
            left = f"no config.yaml beside it agrees, so the data that it names is left alone: {_named(trained)}"
            raise MhaError(f"{shown_path(checkpoint)}: {left}", "say with --data what to read")
        section: DataSection = trained if self.data is None else _given_section(self.data)
        # The validation part of the training data must be the part that was held out, whatever their name.
        section = section.changed(**{name: getattr(trained, name) for name in DataSettings.model_fields})
        if isinstance(section, FilesData):
            known = trained if isinstance(trained, FilesData) else section
            names = ("text_column", "label_column", "encoding")
            read_as = {name: getattr(self, name) or getattr(known, name) for name in names}
            read_as |= {
                "quoting": known.quoting and not self.no_quoting,
                "test_share": known.test_share,
                "label_separator": trained_on.cell_separator if trained_on.is_multi_label else None,
            }
            if not self.label_column:
                read_as["label_levels"] = known.label_levels
            if known.label_columns and not self.label_column:
                read_as |= {"label_columns": known.label_columns, "label_separator": None}
            return section.changed(**read_as)
        goes_with(f"files, not with {_named(section)}", **(asdict(self) | {"data": None}))
        return section


def with_held_out(model: "Checkpoint", path: Path, data: list[str] | None) -> "Checkpoint":
    """The model with the held-out texts of --data, if it is given."""
    if data is None:
        return model
    from mha_cli.checkpoint.held_out import HeldOut
    from mha_cli.preparation.scored_texts import labelled_texts
    from mha_cli.runtime.probabilities import Scorer

    with progress("reading") as callbacks:
        texts = labelled_texts(model, DataOptions(data).section(path, model.config), None, callbacks, unseen=True).texts
        probabilities = Scorer(model)(texts, lambda done: callbacks.on_texts(done, len(texts)))
    return replace(model, held_out=HeldOut.of(probabilities, texts.labels))


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
            name = printable(given)
            raise MhaError(f"--data {name}: no such file or folder", f"check the path; for TensorFlow Datasets write tfds:{name}")
    paths = data[0] if len(data) == 1 else list(data)
    # Every split is the same files.
    return config_from_dict({"data": {"source": "files", "train": paths, "test": paths}}, "--data").data


def _named(section: DataSection) -> str:
    """A data section in words."""
    if section.source == "files":
        return printable(", ".join([*section.train_paths, *section.test_paths]), 200)
    return f"tfds:{printable(section.name, 200)}" if section.source == "tfds" else section.source
