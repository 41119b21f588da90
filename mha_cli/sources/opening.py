"""The source that the data section of a config names."""

from typing import TypeAlias

from mha_cli.config.settings import FilesData, MemoryData, SampleData, TfdsData
from mha_cli.errors import MhaError
from mha_cli.sources.labelled_text import TextSource
from mha_cli.system.callbacks import SILENT, Callbacks

DataSection: TypeAlias = SampleData | TfdsData | FilesData | MemoryData


def open_source(settings: DataSection, callbacks: Callbacks = SILENT, by_options: bool = False) -> TextSource:
    """The data source of a config; with ``by_options``, messages name options of the command rather than settings."""
    if isinstance(settings, MemoryData):
        raise MhaError("the texts were given by a Python program, which alone has them", "name others, with --data or in the config")
    if isinstance(settings, SampleData):
        from mha_cli.sources.sample import SampleTexts

        return SampleTexts(settings)
    if isinstance(settings, FilesData):
        from mha_cli.sources.files import FileTexts

        return FileTexts(settings, by_options, callbacks.note)
    from mha_cli.sources.tfds import TfdsTexts

    callbacks.count(f"reading {settings.name}")
    return TfdsTexts(settings, callbacks.log)
