"""The source that the data section of a config names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mha_cli.config.settings import FilesData, SampleData, TfdsData

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.data.reviews import ReviewSource


DataSection: TypeAlias = SampleData | TfdsData | FilesData


def open_source(settings: DataSection, log: Callable[[str], None] | None = None, by_options: bool = False) -> ReviewSource:
    """The data source of a config.

    Args:
        settings: ``data`` section of a config.
        log: function that takes a line of text when something long begins, such as a download.
        by_options: True if options of the command can name the columns of a file.
    """
    if isinstance(settings, SampleData):
        from mha_cli.data.sample import SampleReviews

        return SampleReviews(settings)
    if isinstance(settings, FilesData):
        from mha_cli.data.files import FileReviews

        return FileReviews(settings, by_options)
    from mha_cli.data.tfds import TfdsReviews

    if log is not None:
        log(f"reading {settings.name}")
    return TfdsReviews(settings, log)
