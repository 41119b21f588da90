"""Rows of a query of an SQLite database, as JSON lines."""

import os
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from mha_cli.errors import MhaError, reason_of, shown_path
from mha_cli.records.objects import as_text, json_line

SQLITE = "sqlite:"
STEPS = 100_000  # of SQLite's machine after which Python looks at signals, so that Ctrl-C ends a slow query


def query_lines(path: str) -> Iterator[bytes]:
    """The rows of ``sqlite:FILE#SELECT …`` as objects of strings: NULL is an empty one, bytes are read as UTF-8.

    The database is opened for reading, and all but one statement that reads is refused.
    """
    import sqlite3  # slow

    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    file, _, query = path.removeprefix(SQLITE).partition("#")
    uri = f"file:{quote(os.path.abspath(os.path.expanduser(file)))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.set_progress_handler(lambda: None, STEPS)
            connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY)
            rows = connection.execute(query)
            names = [column[0] for column in rows.description or ()]
            if not names or len(set(names)) < len(names):
                raise sqlite3.Error("no columns, or two of the same name")
            for row in rows:
                cells = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else as_text(cell) for cell in row]
                yield json_line(dict(zip(names, cells, strict=True)))
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:  # what a signal raised in the progress handler
            raise KeyboardInterrupt from None
        raise MhaError(f"{shown_path(path)}: {reason_of(error)}", f"give {SQLITE}FILE#SELECT … with one query that reads") from None
