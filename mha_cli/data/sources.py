"""The source that the data section of a config names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mha_cli.config.settings import FilesData, MemoryData, SampleData, TfdsData
from mha_cli.data.labelled_text import TextSource
from mha_cli.data.paths import matching_paths
from mha_cli.errors import MhaError, printable, shown_path
from mha_cli.records.reader import Dialect

DataSection: TypeAlias = SampleData | TfdsData | FilesData | MemoryData


def with_columns(settings: DataSection, note: Callable[[str], None] = lambda _: None) -> DataSection:
    """The data section with the columns that it leaves open, which are those that `mha init` finds in the first training file.

    Where it finds none they are ``text`` and ``label``, and the error comes from reading the file.

    Args:
        settings: ``data`` section of a config.
        note: function that takes a line of text about each column found, unless it is called ``text`` or ``label``.
    """
    if not isinstance(settings, FilesData) or (settings.text_column and settings.label_column):
        return settings
    from mha_cli.data.layout import Layout, find_layout

    try:
        path = matching_paths(settings.train_paths[0])[0]
        found = find_layout(path, settings.text_column, settings.label_column, Dialect(settings.encoding, settings.quoting))
    except MhaError:
        path, found = "", Layout("", text_column=settings.text_column or "text", label_column=settings.label_column or "label")
    texts, labels = (
        (settings.text_column, found.text_column, found.text_reason),
        (settings.label_column, found.label_column, found.label_reason),
    )
    for what, (named, column, reason) in (("text", texts), ("label", labels)):
        if named is None and column != what:
            note(f"{shown_path(path)}: {what} column {printable(column)} ({printable(reason, 200)})")
    return settings.model_copy(update={"text_column": found.text_column, "label_column": found.label_column})


def open_source(settings: DataSection, log: Callable[[str], None] = lambda _: None, by_options: bool = False) -> TextSource:
    """The data source of a config.

    Args:
        settings: ``data`` section of a config.
        by_options: True if options of the command can name the columns of a file.
    """
    settings = with_columns(settings)
    if isinstance(settings, MemoryData):
        raise MhaError("the texts were given by a Python program, which alone has them", "name others, with --data or in the config")
    if isinstance(settings, SampleData):
        from mha_cli.data.sample import SampleTexts

        return SampleTexts(settings)
    if isinstance(settings, FilesData):
        from mha_cli.data.files import FileTexts

        return FileTexts(settings, by_options)
    from mha_cli.data.tfds import TfdsTexts

    log(f"reading {settings.name}")
    return TfdsTexts(settings, log)
