"""The source that the data section of a config names."""

from collections.abc import Callable
from typing import TypeAlias

from mha_cli.config.settings import FilesData, MemoryData, SampleData, TfdsData
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.reader import Dialect
from mha_cli.sources.labelled_text import TextSource
from mha_cli.sources.paths import matching_paths
from mha_cli.system.callbacks import SILENT, Callbacks

DataSection: TypeAlias = SampleData | TfdsData | FilesData | MemoryData


def with_columns(settings: DataSection, note: Callable[[str], None] = lambda _: None) -> DataSection:
    """The data section with the columns that it leaves open, which are those that `mha init` finds in the first training file.

    Where it finds none they are ``text`` and ``label``, and the error comes from reading the file. Other names are noted.
    """
    if not isinstance(settings, FilesData) or (settings.text_column and settings.label_column):
        return settings
    from mha_cli.sources.layout import Layout, find_layout

    try:
        path = matching_paths(settings.train_paths[0])[0]
        found = find_layout(path, settings.text_column, settings.label_column, Dialect(settings.encoding, settings.quoting))
    except MhaError:
        path, found = "", Layout("", text_column=settings.text_column or "text", label_column=settings.label_column or "label")
    columns = {"text_column": found.text_column, "label_column": found.label_column}
    for (setting, column), reason in zip(columns.items(), (found.text_reason, found.label_reason), strict=True):
        what = setting.removesuffix("_column")
        if getattr(settings, setting) is None and column != what:
            note(f"{shown_path(path)}: {what} column {printable(column)} ({printable(reason, 200)})")
    return settings.model_copy(update=columns)


def open_source(settings: DataSection, callbacks: Callbacks = SILENT, by_options: bool = False) -> TextSource:
    """The data source of a config; with ``by_options``, messages name options of the command rather than settings."""
    settings = with_columns(settings, callbacks.note)
    if isinstance(settings, MemoryData):
        raise MhaError("the texts were given by a Python program, which alone has them", "name others, with --data or in the config")
    if isinstance(settings, SampleData):
        from mha_cli.sources.sample import SampleTexts

        return SampleTexts(settings)
    if isinstance(settings, FilesData):
        from mha_cli.sources.files import FileTexts

        return FileTexts(settings, by_options)
    from mha_cli.sources.tfds import TfdsTexts

    callbacks.count(f"reading {settings.name}")
    return TfdsTexts(settings, callbacks.log)
