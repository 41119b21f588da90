"""Labellings that pages are asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mha_cli.labelling.session import Session
from mha_cli.labelling.store import LabelStore
from mha_cli.records.record import Record
from mha_cli.serve.label_page import Access, label_application
from mha_cli.serve.server import Limits
from tests.serve.services import listening

COMMAND = "mha train --data labels.csv"


class Labelling(NamedTuple):
    """A labelling with its page, and what is needed to ask it."""

    session: Session
    access: Access
    port: int

    @property
    def url(self) -> str:
        """The address that is printed."""
        return f"http://127.0.0.1:{self.port}/#{self.access.secret}"


def session(
    path: Path,
    rows: Sequence[Mapping[str, str]],
    classes: Sequence[str],
    words: Mapping[str, Sequence[str]] | None = None,
    several: bool = False,
) -> Session:
    """A session over rows with a column ``text``, whose labels go to a path."""
    store = LabelStore(path, [Record(row["text"], b"", (row,)) for row in rows], "text", several=several)
    return Session(store, classes, words or {})


@contextmanager
def labelling(session: Session) -> Iterator[Labelling]:
    """A session with its page on a port."""
    access = Access()
    with listening(label_application(session, access, COMMAND), Limits()) as port:
        yield Labelling(session, access, port)
    session.close()
