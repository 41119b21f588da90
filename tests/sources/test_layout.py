"""What is guessed from the beginning of a file."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from mha_cli.sources.layout import find_layout
from tests.errors import error_of

TEXTS = [f"{what} number {number} of them" for number in range(10) for what in ("Great lamp", "The delivery, sadly, was late", "Fine; ok")]
LABELS = [("good", "bad", "so-so")[number % 3] for number in range(30)]
REVIEWS = list(zip(TEXTS, LABELS, strict=True))
LONG_LINKS = [f"https://example.org/{'path/' * 9}{number}" for number in range(30)]


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def table(header: list[str], columns: list[Any], separator: str = ",") -> str:
    to = io.StringIO(newline="")
    csv.writer(to, delimiter=separator).writerows([*([header] if header else []), *zip(*columns, strict=True)])
    return to.getvalue()


DAYS = [f"2024-01-{1 + number % 9:02}" for number in range(30)]
NUMBERS = range(30)
SIDES = ["left", "right"] * 15
CELLS = [
    "|".join(dict.fromkeys([f"t{number % 4}", f"t{number % 5}", f"t{number % 7}"])) for number in NUMBERS
]  # few parts, many different cells


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", table(["text", "label"], [TEXTS, LABELS]), ("comma", True, "text", "label")),
        ("a.csv", table(["Beschreibung", "Art"], [TEXTS, LABELS], ";"), ("semicolon", True, "Beschreibung", "Art")),
        ("a.csv", table(["v1", "v2", "", ""], [LABELS, TEXTS, [""] * 30, [""] * 30]), ("comma", True, "v2", "v1")),
        (
            "a.csv",
            table(["id", "day", "link", "body", "language", "stars"], [NUMBERS, DAYS, LONG_LINKS, TEXTS, ["en"] * 30, LABELS]),
            ("comma", True, "body", "stars"),
        ),
        ("a.csv", table(["Sprache", "Nachricht", "Kategorie"], [SIDES, TEXTS, LABELS]), ("comma", True, "Nachricht", "Kategorie")),
        ("a.csv", table(["idioma", "reseña", "Categori\u0301a"], [SIDES, TEXTS, LABELS]), ("comma", True, "reseña", "Categori\u0301a")),
        ("a.csv", table(["label_text", "note", "label"], [LABELS, TEXTS, LABELS]), ("comma", True, "note", "label")),
        ("a.csv", table(["id", "text", "labels"], [NUMBERS, TEXTS, CELLS]), ("comma", True, "text", "labels")),
        ("a.csv", table([], [LABELS, TEXTS], ";"), ("semicolon", False, "2", "1")),
        ("a.tsv", table([], [LABELS, TEXTS], "\t"), ("tab", False, "2", "1")),
        ("a.txt", table(["x", "what", "which"], [DAYS, TEXTS, LABELS], "|"), ("vertical bar", True, "what", "which")),
        ("a.csv", table(["text", "label"], [["一分钟就到了", "不好吃", "很好", "难吃"], [1, 0, 1, 0]]), ("comma", True, "text", "label")),
        ("a.csv", "sep=;\n" + table(["text", "label"], [TEXTS, LABELS], ";"), ("semicolon", True, "text", "label")),
        (
            "a.jsonl",
            "".join(json.dumps({"id": 7, "doc": {"body": text}, "meta": {"stars": len(label)}}) + "\n" for text, label in REVIEWS),
            (None, None, "doc.body", "meta.stars"),
        ),
        (
            "a.jsonl",
            "".join(json.dumps({"q": text, "y": label}) + "\n" for text, label in REVIEWS[1:])
            + json.dumps({"q": "", "y": "x", "note": TEXTS, "remark": "very long " * 30, "label": "x"}),
            (None, None, "q", "y"),
        ),
        ("a.txt", "".join(f"__label__{label} {text}\n" for text, label in REVIEWS), (None, None, "text", "label")),
        ("a.csv", "", ("comma", False, "text", "label")),
    ],
)  # fmt: skip
def test_separator_header_and_columns_are_guessed(name: str, content: str, found: tuple[str | None, bool | None, str, str]) -> None:
    Path(name).write_text(content)
    layout = find_layout(name)
    assert (layout.separator, layout.header, layout.text_column, layout.label_column) == found


def test_parquet_and_folders() -> None:
    pyarrow.parquet.write_table(pyarrow.table({"link": LONG_LINKS, "doc": TEXTS, "y": LABELS}), "a.parquet")
    layout = find_layout("a.parquet")
    assert (layout.format, layout.columns, layout.text_column, layout.label_column) == ("Parquet", ("link", "doc", "y"), "doc", "y")
    assert (layout.text_reason, layout.label_reason) == ("longest texts, 25 letters on average", "by its name")
    Path("train").mkdir()
    assert find_layout("train").columns == ()


@pytest.mark.parametrize(
    ("given", "found"), [(("note", None), ("note", "label")), ((None, "2"), ("note", "text")), (("gone", "label"), ("gone", "label"))]
)
def test_columns_that_are_named_are_not_guessed(given: tuple[str | None, str | None], found: tuple[str, str]) -> None:
    Path("a.csv").write_text(table(["note", "text", "label"], [[f"n{text}" for text in LABELS], TEXTS, LABELS]))
    layout = find_layout("a.csv", *given)
    assert (layout.text_column, layout.label_column) == found
    assert "given" in {layout.text_reason, layout.label_reason}


def test_whole_numbers_with_a_point_are_labels_and_fractions_are_none() -> None:
    Path("a.jsonl").write_text("".join(json.dumps({"doc": text, "y": n % 3 / 1, "half": n % 2 / 2}) + "\n" for n, text in enumerate(TEXTS)))
    layout = find_layout("a.jsonl")
    assert (layout.label_column, layout.label_reason) == ("y", "by its name")


def test_other_columns_that_may_be_meant_are_named() -> None:
    titles = [f"{text[:9]} {number}" for number, text in enumerate(TEXTS)]
    Path("a.csv").write_text(table(["id", "name", "body", "side", "stars"], [NUMBERS, titles, TEXTS, SIDES, LABELS]))
    layout = find_layout("a.csv")
    assert (layout.text_column, layout.label_column) == ("body", "stars")
    assert layout.text_reason == "longest texts, 25 letters on average; other candidates: name"
    assert layout.label_reason == "by its name; other candidates: side"
    Path("a.csv").write_text(table(["body", "a", "b", "c", "d", "e"], [TEXTS, SIDES, LABELS, LABELS, LABELS, LABELS]))
    assert find_layout("a.csv").label_reason == "few different values, 2; other candidates: b, c, d and 1 more"
    assert find_layout("a.csv", label_column="c").label_reason == "given"


@pytest.mark.parametrize(
    ("columns", "found"), [(["text", "bill", "refund"], ("bill", "refund")), (["text", "label", "is_new"], ()), (["text", "label"], ())]
)
def test_columns_of_0_and_1_may_be_one_for_each_label(columns: list[str], found: tuple[str, ...]) -> None:
    values = [TEXTS, [0, 1] * 15, [1, 1, 0] * 10][: len(columns)]
    Path("a.csv").write_text(table(columns, values))
    assert find_layout("a.csv").label_columns == found
    assert find_layout("a.csv", label_column=columns[1]).label_columns == ()
    Path("a.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "cats": dict(zip(columns[1:], map(float, row), strict=True))}) + "\n"
            for text, *row in zip(*values, strict=True)
        )
    )
    layout = find_layout("a.jsonl")
    assert (layout.label_column, layout.label_columns) == ("cats" if found else f"cats.{columns[1]}", ())


def test_numbers_without_a_header_stay_numbers() -> None:
    Path("a.csv").write_text(table([], [LABELS, TEXTS]))
    layout = find_layout("a.csv", "2", "1")
    assert (layout.columns, layout.text_column, layout.label_column) == (("1", "2"), "2", "1")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([NUMBERS, DAYS], "a.csv: no column of texts among one, two; set --text-column"),
        ([DAYS, TEXTS], "a.csv: no column of few classes among one, two; set --label-column"),
    ],
)
def test_nothing_to_be_guessed(columns: list[Any], expected: str) -> None:
    Path("a.csv").write_text(table(["one", "two"], columns))
    assert error_of(lambda: find_layout("a.csv")) == expected


@pytest.mark.parametrize("top", ["Lamps of 2024;\n", "Lamps of 2024\n\n", "Lamps of 2024\n"])
@pytest.mark.parametrize(("names", "number"), [(["Was", "Art"], 30), (["text", "label"], 2)])
def test_a_title_above_the_header_is_skipped(top: str, names: list[str], number: int) -> None:
    content = table(names, [TEXTS[:number], LABELS[:number]], ";" if ";" in top else ",")
    Path("a.csv").write_text(top + content)
    assert find_layout("a.csv").columns == tuple(names)
    Path("a.csv").write_text(content + ";;;\n , \n")
    assert find_layout("a.csv").columns == tuple(names)
