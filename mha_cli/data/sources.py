"""The source that the data section of a config names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mha_cli.config.settings import FilesData, GivenData, SampleData, TfdsData
from mha_cli.data.reviews import ReviewSource
from mha_cli.errors import MhaError

DataSection: TypeAlias = SampleData | TfdsData | FilesData | GivenData


def open_source(settings: DataSection, log: Callable[[str], None] = lambda _: None, by_options: bool = False) -> ReviewSource:
    """The data source of a config.

    Args:
        settings: ``data`` section of a config.
        log: function that takes a line of text when something long begins, such as a download.
        by_options: True if options of the command can name the columns of a file.

    Raises:
        MhaError: the texts were given by a Python program, or those that are named cannot be read.
    """
    if isinstance(settings, GivenData):
        raise MhaError("the texts were given by a Python program, which alone has them", "name others, with --data or in the config")
    if isinstance(settings, SampleData):
        from mha_cli.data.sample import SampleReviews

        return SampleReviews(settings)
    if isinstance(settings, FilesData):
        from mha_cli.data.files import FileReviews

        return FileReviews(settings, by_options)
    from mha_cli.data.tfds import TfdsReviews

    log(f"reading {settings.name}")
    return TfdsReviews(settings, log)
