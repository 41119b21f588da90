import csv
import dataclasses
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from rich.cells import cell_len

from mha_cli.cli.answers import answer_as_json_line, answer_writer, matching_records, styles_wanted, tab_cell, tab_line, terminal_line
from mha_cli.records.record import Record
from mha_cli.runtime.choice import Choice
from mha_cli.runtime.classifier import Prediction
from tests.cli.command import has_control_characters

NAMES = ("bad", "mixed", "good")
PROBABILITIES = {"bad": 0.2, "mixed": 0.5, "good": 0.3}


def said(*probabilities: float, tokens: int = 5, read: int = 5, unknown: int = 0, marks: int = 0) -> Prediction:
    best = max(probabilities)
    return Prediction(
        "", NAMES[probabilities.index(best)], best, dict(zip(NAMES, probabilities, strict=True)), tokens, read, unknown, marks
    )


def record(text: str = "a film", *fields: object) -> Record:
    return Record(text, text.encode() + b"\n", fields)


SAID = said(0.2, 0.5, 0.3)


# Tab-separated


@pytest.mark.parametrize(
    ("choice", "fields", "line"),
    [
        (Choice(), (), b"mixed\t0.5000\t-\n"),
        (Choice(threshold=0.6), (), b"\t\t-\n"),
        (Choice(top_k=2), (), b"mixed\t0.5000\tgood\t0.3000\t-\n"),
        (Choice(top_k=9), (), b"mixed\t0.5000\tgood\t0.3000\tbad\t0.2000\t-\n"),
        (Choice(top_k=3, threshold=0.3), ("id",), b"mixed\t0.5000\tgood\t0.3000\t\t\t-\tid\n"),
        (Choice(only=("good",), threshold=0.3), (), b"good\t0.3000\t-\n"),
        (Choice(), ("a\tb\\n", None, 1.5, True, ["é"], ""), b'mixed\t0.5000\t-\ta\\tb\\\\n\t\t1.5\ttrue\t["\xc3\xa9"]\t\n'),
    ],
)
def test_columns(choice: Choice, fields: tuple[object, ...], line: bytes) -> None:
    assert tab_line(1, record("a film", *fields), choice.answer(SAID)) == line


@pytest.mark.parametrize(
    ("counts", "flags"),
    [
        ({}, "-"),
        ({"unknown": 4}, "-"),
        ({"tokens": 0, "read": 0}, "empty"),
        ({"unknown": 5}, "unknown"),
        ({"unknown": 3, "marks": 2}, "unknown"),
        ({"marks": 5}, "-"),
        ({"tokens": 6}, "cut"),
        ({"tokens": 6, "unknown": 5}, "unknown,cut"),
    ],
)
def test_a_text_whose_answer_is_to_be_doubted_is_marked(counts: dict[str, int], flags: str) -> None:
    assert tab_line(1, record("a film", "id"), Choice().answer(said(0.2, 0.5, 0.3, **counts))) == f"mixed\t0.5000\t{flags}\tid\n".encode()


@given(st.text(st.characters(), max_size=30))
def test_a_cell_is_harmless_and_can_be_read_back(text: str) -> None:
    cell = tab_cell(text)
    assert not set(cell) & set(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029, 0x202E)))
    unescaped = cell.encode("raw_unicode_escape", "surrogatepass").decode("unicode_escape") if cell.isascii() else text
    assert unescaped == text
    cell.encode()  # no lone surrogate is left


# JSON lines


def json_answer(prediction: Prediction, choice: Choice | None = None, fields: dict[str, object] | None = None) -> dict[str, Any]:
    fields = fields or {}
    line = answer_as_json_line(list(fields), 7, record("a film", *fields.values()), (choice or Choice()).answer(prediction))
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_everything_that_is_known() -> None:
    found = json_answer(said(0.2, 0.5, 0.3, tokens=9, unknown=2), fields={"n": {"é": [1]}, "none": None})
    assert list(found.items()) == [
        ("id", 7),
        ("label", "mixed"),
        ("probability", 0.5),
        ("probabilities", {"bad": 0.2, "mixed": 0.5, "good": 0.3}),
        ("tokens", 9),
        ("unknown", 2),
        ("truncated", True),
        ("empty", False),
        ("all_unknown", False),
        ("fields", {"n": {"é": [1]}, "none": None}),
    ]
    names = ("truncated", "empty", "all_unknown")
    nothing, foreign = json_answer(said(0.2, 0.5, 0.3, tokens=0, read=0)), json_answer(said(0.2, 0.5, 0.3, unknown=5))
    assert [[one[name] for name in names] for one in (nothing, foreign)] == [[False, True, False], [False, False, True]]


@pytest.mark.parametrize(
    ("choice", "label", "names"),
    [
        (Choice(threshold=0.6), None, ["bad", "mixed", "good"]),
        (Choice(top_k=2), "mixed", ["mixed", "good"]),
        (Choice(0.6, (), 2), None, []),
    ],
)
def test_a_choice(choice: Choice, label: str | None, names: list[str]) -> None:
    found = json_answer(SAID, choice)
    assert (found["label"], found["probability"], list(found["probabilities"])) == (label, 0.5, names)


# In a table


@pytest.mark.parametrize(
    ("choice", "row"),
    [
        (Choice(), {"label": "mixed", "probability": 0.5}),
        (Choice(top_k=2), {"label": "mixed", "probability": 0.5, "label_2": "good", "probability_2": 0.3}),
        (
            Choice(0.4, (), 9),
            {"label": "mixed", "probability": 0.5} | dict.fromkeys(["label_2", "probability_2", "label_3", "probability_3"]),
        ),
        (
            Choice(0.6, (), "all"),
            {"label": None, "probability": None} | {f"probability_{name}": value for name, value in PROBABILITIES.items()},
        ),
    ],
)
def test_classes_in_columns(choice: Choice, row: dict[str, object]) -> None:
    row |= {"flags": "-", "input_label": "gold"}
    as_csv, as_parquet = io.BytesIO(), io.BytesIO()
    for form, file in (("csv", as_csv), ("parquet", as_parquet)):
        with answer_writer(form, file, choice, NAMES, ["label"]) as write:
            write([(1, record("a film", "gold"), choice.answer(SAID))])
    cells = {name: "" if value is None else f"{value:.6f}" if isinstance(value, float) else value for name, value in row.items()}
    assert list(csv.DictReader(io.StringIO(as_csv.getvalue().decode()))) == [cells]
    assert parquet.read_table(as_parquet).to_pylist() == [row]


# On a terminal


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def shown(text: str, prediction: Prediction = SAID, *fields: object, choice: Choice | None = None, styles: bool = False) -> str:
    line = terminal_line(styles, "utf-8", 1, record(text, *fields), (choice or Choice()).answer(prediction)).decode()
    assert line.endswith("\n")
    return line[:-1]


@pytest.mark.parametrize(
    ("counts", "text", "shown_text"),
    [
        ({"tokens": 0, "read": 0}, "", "(no words)"),
        ({"tokens": 1234}, "a film", "a film (5 of 1,234 tokens read)"),
        ({"tokens": 1234, "unknown": 5}, "quux", "quux (no known word, 5 of 1,234 tokens read)"),
        ({}, "a\nb\x1b[2J[bold]", r"a\nb\x1b[2J[bold]"),
    ],
)
def test_a_line_to_be_read(counts: dict[str, int], text: str, shown_text: str) -> None:
    assert shown(text, said(0.2, 0.5, 0.3, **counts)) == f"mixed\t0.5000\t{shown_text}"


def test_an_unsure_answer_says_so_and_fields_are_short() -> None:
    assert shown("a film", choice=Choice(threshold=0.6, top_k=2)) == "unsure\t0.5000\t\t\ta film"
    none = dataclasses.replace(SAID, none_label="oos", is_none=True)
    assert shown("a film", none) == "none of these\t0.5000\ta film"
    assert shown("a film", none, choice=Choice(threshold=0.0)) == "mixed\t0.5000\ta film"
    assert shown("a film", SAID, 3, "\x1b" + "x" * 100) == f"mixed\t0.5000\t3\t\\x1b{'x' * 38}…\ta film"


@pytest.mark.parametrize("text", ["the " * 100, "映画" * 100, "\x1b" * 100, "🎬é" * 100, "e\u0301" * 200], ids=ascii)
@pytest.mark.parametrize("columns", [60, 61, 200])
def test_a_long_text_is_cut_to_the_terminal(text: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for prediction in (SAID, said(0.2, 0.5, 0.3, tokens=1234)):
        line = shown(text, prediction)
        assert "…" in line
        assert columns - 4 <= cell_len(line.expandtabs()) <= columns


def test_styles() -> None:
    line = shown("a film", said(0.2, 0.5, 0.3, tokens=9), styles=True)
    assert line == "\x1b[1mmixed\x1b[0m\t0.5000\ta film \x1b[2m(5 of 9 tokens read)\x1b[0m"
    assert not has_control_characters(line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""))
    assert shown("a film", styles=True) == "\x1b[1mmixed\x1b[0m\t0.5000\ta film"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_who_wants_styles(environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert styles_wanted() == wanted


def test_a_terminal_that_cannot_show_a_character() -> None:
    assert terminal_line(False, "ascii", 1, record("é 🎬"), Choice().answer(SAID)) == b"mixed\t0.5000\t\\xe9 \\U0001f3ac\n"


# The records themselves


def test_records_as_they_came_with_the_header_of_each_table() -> None:
    line = matching_records()
    raws = [(b"1,\xff\r\n", b"id,text\r\n"), (b"2,b\n", b"id,text\r\n"), (b"c\td\n", b"text\tid\n"), (b"line\n", b"")]
    written = [line(1, Record("", raw, (), header), Choice().answer(SAID)) for raw, header in raws]
    assert written == [b"id,text\r\n1,\xff\r\n", b"2,b\n", b"text\tid\nc\td\n", b"line\n"]
