"""What workbooks seem to hold, and patterns of them."""

import shutil
from pathlib import Path

import pytest

from mha_cli.sources.files import labelled_columns, read_labelled
from mha_cli.sources.layout import find_layout, find_text_column
from tests.errors import error_of
from tests.sources.test_layout import REVIEWS
from tests.workbooks import write_workbook

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("in_an_empty_folder")]
pytest.importorskip("python_calamine")
pytest.importorskip("xlsxwriter")

ROWS = [
    ["id", "what", "stars", ""],
    *([number, text, {"good": 3, "so-so": 2, "bad": 1}[label]] for number, (text, label) in enumerate(REVIEWS)),
]


def test_the_layout_of_the_first_sheet_with_texts_and_labels() -> None:
    write_workbook("a.xlsx", {"Read me": [["Reviews of lamps"], ["made by", "Ann"]], "Lamps": [["Lamps"], ["as of", "May"], [], *ROWS]})
    layout = find_layout("a.xlsx")
    assert (layout.format, layout.columns) == ("spreadsheet", ("id", "what", "stars"))
    assert (layout.text_column, layout.label_column, layout.header) == ("what", "stars", True)
    assert find_layout("a.xlsx", "what", "stars").text_reason == "given"
    assert find_text_column("a.xlsx#Lamps") == "what"
    assert error_of(find_layout, "a.xlsx", "whut") == 'a.xlsx#Lamps:1: no column "whut" among Lamps; set --text-column'
    assert error_of(find_layout, "a.xlsx#Lamps", "whut").endswith("among Lamps; set --text-column")
    write_workbook("b.xlsx", {"Lamps": [row[1:2] for row in ROWS]})
    assert "a single column, so there are no labels" in error_of(find_layout, "b.xlsx")


def test_one_sheet_of_all_files_of_a_pattern() -> None:
    write_workbook("a1.xlsx", {"x": [["what", "stars"], ["no", 0]], "Lamps": ROWS})
    shutil.copy("a1.xlsx", "a2.xlsx")
    texts = list(read_labelled(["a?.xlsx#Lamps"], labelled_columns("what", "stars")))
    assert [text[:2] for text in texts[:2]] == [(REVIEWS[0][0], "3"), (REVIEWS[1][0], "1")]
    assert (len(texts), texts[-1].file, texts[-1].line) == (60, "a2.xlsx#Lamps", 31)
    assert len(list(read_labelled([str(Path("a1.xlsx").resolve())], labelled_columns("what", "stars")))) == 1
