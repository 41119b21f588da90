"""Class names of labels, from whatever source: one spelling, and one refusal, for all."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.config.settings import FilesData
from mha_cli.sources.files import FileTexts, labelled_columns, read_labelled
from mha_cli.sources.in_memory import MemoryTexts
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.labels import class_name, class_names
from tests.errors import error_of
from tests.records.test_readers import in_format
from tests.sources.test_files import write

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

CAFE = "caf\u00e9"
SPELLINGS = {
    "bad": ["bad", " bad", "bad\u3000", "\ufeffbad", "b\u200bad\u200b", "bad\u00ad", "\u200e bad"],
    CAFE: [CAFE, "cafe\u0301", "cafe\u200b\u0301 "],
    "True": ["True", "TRUE", "true", " tRUE", True, np.True_],
    "False": ["False", "false", False],
    "1": ["1", "1.0", "1.00", 1, 1.0, np.int8(1), np.float32(1), np.array(1.0)],
    "-7": [-7, "-7.0", -7.0],
    "1.5": ["1.5"],
    "01": ["01"],
    "None": ["None"],
    "क्\u200dष": ["क्\u200dष"],  # the joiner is part of the word
    "می\u200cخواهم": ["می\u200cخواهم"],
    "a\ufffd": ["a\ud800"],
}


@pytest.mark.parametrize(("name", "label"), [(name, label) for name, labels in SPELLINGS.items() for label in labels])
def test_one_name_for_all_spellings(name: str, label: object) -> None:
    assert class_name(label, "") == name


def read_from(given: str, labels: list[str], **merged: Any) -> list[LabelledText]:
    """A text of each label, out of a source of this kind."""
    path = f"{len(merged)}.{given}"
    if given == "array":
        return [*MemoryTexts(["a text"] * len(labels), np.array(labels), merge=merged).read()]
    if given == "folder":
        for label in labels:
            write(f"{path}/{label}/1.txt", "a text")
    elif given == "ft":
        write(path, "".join(f"__label__{label} a text\n" for label in labels))
    else:
        write(path, in_format(given, [("a text", label) for label in labels]))
    return [*FileTexts(FilesData(source="files", train=path, merge_labels=merged)).read("train")]


@pytest.mark.parametrize("given", ["csv", "jsonl", "parquet", "ft", "folder", "array"])
def test_every_source_names_a_class_alike(given: str) -> None:
    labels = ["TRUE", "\ufeffcafe\u0301", "b\u200bad"]
    assert sorted(str(one.label) for one in read_from(given, labels)) == sorted(["True", CAFE, "bad"])
    merged = read_from(given, ["BILLING", "True", "billing", "twice"], BILLING="billing", true="yes", twice="billing")
    assert sorted(one.label for one in merged) == ["billing"] * 3 + ["yes"]


class NotAvailable:
    """A missing value as pandas has it."""

    def __repr__(self) -> str:
        return "<NA>"


EMPTY = "is empty; give every text a class, or leave the row out"
MISSING = "is missing; give every text a class, or leave the row out"
ONE_VALUE = "give every text a class: a string, a whole number, true or false"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("", EMPTY),
        (" \u200b\ufeff", EMPTY),
        *((missing, MISSING) for missing in (None, float("nan"), np.float32("nan"), np.datetime64("NaT"), Decimal("NaN"), NotAvailable())),
        ([["a"]], f"is a list inside a list; {ONE_VALUE}"),
        (["a", None], MISSING),
        (0.5, f"is the fraction 0.5; {ONE_VALUE}"),
        (float("inf"), f"is the fraction Infinity; {ONE_VALUE}"),
        (b"bad", f"has the type bytes; {ONE_VALUE}"),
        (np.bytes_(b"bad"), f"has the type bytes; {ONE_VALUE}"),
        (object, f"has the type type; {ONE_VALUE}"),
    ],
)
def test_what_is_no_class(label: Any, expected: str) -> None:
    assert error_of(lambda: MemoryTexts(["a", "b"], ["x", label])) == f"labels[1]: the label {expected}"


@pytest.mark.parametrize(
    ("label", "expected"),
    [("null", MISSING), ("[[1]]", f"is a list inside a list; {ONE_VALUE}"), ("1e999", f"is the fraction Infinity; {ONE_VALUE}")],
)
def test_a_file_refuses_it_in_the_same_words(label: str, expected: str) -> None:
    Path("a.jsonl").write_text(f'{{"text": "a", "label": {label}}}\n')
    assert error_of(lambda: [*read_labelled(["a.jsonl"], labelled_columns())]) == f'a.jsonl:1: the label "label" {expected}'


SEVERAL: list[tuple[Any, tuple[str, ...]]] = [
    (["b", " a", "b"], ("a", "b")),
    ({1.0, 2}, ("1", "2")),
    (np.array([True, False]), ("False", "True")),
    ((), ()),
]


@pytest.mark.parametrize(("labels", "names"), SEVERAL)
def test_a_list_of_labels_has_their_names_once_each(labels: Any, names: tuple[str, ...]) -> None:
    assert [one.label for one in MemoryTexts(["text"], [labels]).read()] == [names]


@pytest.mark.parametrize(("cell", "names"), [("b|a", ("a", "b")), ("a", ("a",)), ("", ()), ("a| |", ("a",))])
def test_a_separator_makes_a_list_of_every_cell(cell: str, names: tuple[str, ...]) -> None:
    Path("a.csv").write_text(f"text,label\na text,{cell}\n")
    assert [one.label for one in read_labelled(["a.csv"], labelled_columns(), separator="|")] == [names]


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['b', 'a']", ("a", "b")),
        ('["b", "caf\\u00e9"]', ("b", CAFE)),
        ("['b'\n 'a']", ("a", "b")),  # NumPy
        ("""{'x, y', "it's"}""", ("it's", "x, y")),
        ("[b, a]", ("a", "b")),
        ("[]", ()),
        (r"['\N{}']", (r"'\N{}'",)),
        ("[a] b", ("[a] b",)),
    ],
)
def test_a_list_that_is_spelt_out_in_a_cell_is_read_as_one(cell: str, names: tuple[str, ...]) -> None:
    assert class_names(cell, "", separator=",") == names


def test_lists_of_labels_are_merged() -> None:
    texts = MemoryTexts(["a text"] * 2, [["BILLING", "billing"], ["True", "billing"]], merge={"BILLING": "billing", "true": "yes"})
    assert [one.label for one in texts.read()] == [("billing",), ("billing", "yes")]


def test_with_a_separator_null_is_an_empty_cell() -> None:
    """As pandas writes an empty cell into Parquet and JSON; inside a list, it is still missing."""
    Path("a.jsonl").write_text('{"text": "a text", "label": null}\n{"text": "another", "label": ["a", null]}\n')
    texts = read_labelled(["a.jsonl"], labelled_columns(), separator="|")
    assert next(texts).label == ()
    assert error_of(lambda: [*texts]) == 'a.jsonl:2: the label "label" is missing; give every text a class, or leave the row out'


@pytest.mark.parametrize(
    ("name", "line"), [("a.jsonl", '{"text": "a text", "label": ["b", "a"]}'), ("a.ft", "__label__b __label__a a text")]
)
def test_lists_in_json_and_several_labels_of_fasttext_are_several(name: str, line: str) -> None:
    Path(name).write_text(line + "\n")
    assert [(one.text, one.label) for one in read_labelled([name], labelled_columns())] == [("a text", ("a", "b"))]
