"""Rows of a query: what they hold, and what is refused."""

import signal
import sqlite3
from pathlib import Path

import pytest

from mha_cli.records.queries import query_lines
from mha_cli.sources.files import labelled_columns, read_labelled, read_texts
from mha_cli.sources.layout import find_layout
from tests.cli.command import Mha, tree
from tests.errors import error_of

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

LABELLED = "sqlite:a b?.db#SELECT body, team AS label FROM tickets ORDER BY id"


@pytest.fixture(autouse=True)
def database(in_an_empty_folder: None) -> Path:
    path = Path(LABELLED.removeprefix("sqlite:").partition("#")[0])
    rows = [(1, "no\npaper\u2028", "printer", 1.5), (2, 17, 3, None), (3, b"caf\xc3\xa9 \xff", "", None)]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE tickets (id INTEGER, body, team, 'a b')")
        connection.executemany("INSERT INTO tickets VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return path


def test_rows_have_cells_of_text(database: Path) -> None:
    before = database.read_bytes()
    lines = [*query_lines(f"sqlite:{database}#SELECT * FROM tickets")]
    assert lines == [
        b'{"id": "1", "body": "no\\npaper\\u2028", "team": "printer", "a b": "1.5"}\n',
        b'{"id": "2", "body": "17", "team": "3", "a b": ""}\n',
        '{"id": "3", "body": "café �", "team": "", "a b": ""}\n'.encode(),
    ]
    assert [*query_lines(f"sqlite:{database.resolve()}#SELECT count(*) AS n FROM tickets WHERE id > 1")] == [b'{"n": "2"}\n']
    assert tree(Path()) == {str(database): before}


def test_labelled_texts_and_texts(database: Path) -> None:
    where = LABELLED.replace("ORDER", "WHERE id < 3 ORDER")
    texts = [*read_labelled([where], labelled_columns("body"))]
    assert [(text.text, text.label, text.line) for text in texts] == [("no\npaper\u2028", "printer", 1), ("17", "3", 2)]
    assert error_of(lambda: [*read_labelled([LABELLED], labelled_columns("body"))]).startswith(f"{LABELLED}:3: ")
    assert [*read_texts(where, "body")] == ["no\npaper", "17"]
    assert (find_layout(where).format, find_layout(where).text_column) == ("query", "body")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("DELETE FROM tickets", "not authorized"),
        ("SELECT 1 AS a; DELETE FROM tickets", "You can only execute one statement at a time."),
        ("ATTACH 'b.db' AS b", "not authorized"),
        ("PRAGMA journal_mode = WAL", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("WITH t AS (SELECT 1) INSERT INTO tickets SELECT * FROM t", "not authorized"),
        ("SELECT body, body FROM tickets", "no columns, or two of the same name"),
        ("", "no columns, or two of the same name"),
        ("SELECT missing FROM tickets", "no such column: missing"),
    ],
)
def test_only_one_query_that_reads(query: str, expected: str, database: Path) -> None:
    before = tree(Path())
    way_out = "give sqlite:FILE#SELECT … with one query that reads"
    assert error_of(lambda: [*query_lines(f"sqlite:{database}#{query}")]) == f"sqlite:{database}#{query}: {expected}; {way_out}"
    assert tree(Path()) == before


def test_files_that_are_no_database() -> None:
    Path("b.db").write_text("text,label\n" * 99)
    assert "file is not a database; give" in error_of(lambda: [*query_lines("sqlite:b.db#SELECT a FROM b")])
    assert "unable to open database file" in error_of(lambda: [*query_lines("sqlite:c.db#SELECT 1")])
    assert not Path("c.db").exists()


def test_answers_to_a_query(mha: Mha, small: Path, database: Path) -> None:
    given = f"sqlite:{database}#SELECT id, body AS text FROM tickets"
    result = mha("predict", "-c", small, "-i", given, "--field", "id")
    assert (result.code, [line.split("\t")[3] for line in result.lines]) == (0, ["1", "2", "3"])
    labelled = f"sqlite:{database}#SELECT body AS text, CASE id WHEN 2 THEN 'neg' ELSE 'pos' END AS label FROM tickets"
    assert mha("evaluate", small, "--data", labelled, "--json").code == 0


def test_ctrl_c_ends_a_slow_query(database: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    query = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000000) SELECT count(*) AS body FROM c"
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(query_lines(f"sqlite:{database}#{query}"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
