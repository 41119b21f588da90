"""Exports of annotation tools, as they come: which texts are read, with which labels, and how many are left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError
from mha_cli.sources.files import FileTexts
from mha_cli.sources.layout import find_layout
from tests.errors import error_of

Read = list[tuple[str, Any]]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(objects: list[dict[str, Any]], form: str = "lines") -> tuple[Read, int]:
    """The texts with their labels, and how many are left out."""
    lines = "".join(json.dumps(each) + "\n" for each in objects)
    forms = {"lines": lines, "array": json.dumps(objects), "pretty": "\n" + json.dumps(objects, indent=2) + "\n"}
    Path("export.json").write_text(forms[form])
    source = FileTexts(FilesData(source="files", train="export.json"))
    found = [(text.text, text.label) for text in source.read("train")]
    return found, source.warnings.num_unanswered


def choice(text: str, accept: list[str], answer: str = "accept", style: str = "single") -> dict[str, Any]:
    options = [{"id": name, "text": name} for name in ("a", "b", "c")]
    return {"text": text, "options": options, "_task_hash": 1, "accept": accept, "answer": answer, "config": {"choice_style": style}}


def task(text: str, *persons: list[str] | None, **more: Any) -> dict[str, Any]:
    """A task of Label Studio; None is a person who has skipped it."""
    annotations = [
        {
            "was_cancelled": labels is None,
            "result": [
                {"type": "choices", "from_name": "topic", "value": {"choices": labels or []}},
                {"type": "rating", "value": {"rating": 3}},
            ],
        }
        for labels in persons
    ]
    return {"id": 1, "data": {"text": text, "url": "https://example.org/a-very-long-address-of-a-page"}, "annotations": annotations} | more


def record(text: str, *values: Any, status: str = "submitted") -> dict[str, Any]:
    responses = {"topic": [{"user_id": "x", "value": value, "status": status} for value in values]}
    return {"id": "1", "status": "completed", "fields": {"text": text}, "responses": responses if values else {}, "suggestions": {}}


PRODIGY = [
    choice("text one", ["a"]),
    choice("text two", ["b"]),
    choice("text three", ["a"], "reject"),
    choice("text four", [], "ignore"),
    choice("text five", []),
]
SEVERAL = [
    choice("text one", ["a", "b"], style="multiple"),
    choice("text two", [], style="multiple"),
    choice("text three", ["c"], "ignore", "multiple"),
]
BINARY = [
    {"text": f"text {name}", "label": "a", "answer": answer}
    for name, answer in zip(("zero", "one", "two", "three"), ("accept", "reject", "ignore", "accept"), strict=True)
]
STUDIO = [
    task("text one", ["a"]),
    task("text two", ["b"], ["b"]),
    task("text three", ["a"], ["b"]),
    task("text four", None),
    task("text five"),
    task("text six", ["a"], None),
]
ARGILLA = [
    record("text one", "a"),
    record("text two", "b", "b"),
    record("text three", "a", "b"),
    record("text four"),
    record("text five", "a", status="draft"),
]


@pytest.mark.parametrize("form", ["lines", "array", "pretty"])
@pytest.mark.parametrize(
    ("objects", "expected", "left_out"),
    [
        (PRODIGY, [("text one", "a"), ("text two", "b")], 3),
        (SEVERAL, [("text one", ("a", "b")), ("text two", ())], 1),
        (BINARY, [("text zero", "a"), ("text three", "a")], 2),
        (STUDIO, [("text one", "a"), ("text two", "b"), ("text six", "a")], 3),
        ([task("text one", ["b", "a"]), task("text two", ["b"])], [("text one", ("a", "b")), ("text two", "b")], 0),
        (
            [{"text": "text one", "label": {"choices": ["a", "b"]}}, {"text": "text two", "label": "b"}],
            [("text one", ("a", "b")), ("text two", "b")],
            0,
        ),
        (ARGILLA, [("text one", "a"), ("text two", "b")], 3),
        ([record("text one", ["b", "a"]), record("text two", ["b"])], [("text one", ("a", "b")), ("text two", ("b",))], 0),
        ([{"id": 1, "text": "text one", "label": ["a", "b"], "Comments": []}], [("text one", ("a", "b"))], 0),  # doccano
    ],
)
def test_texts_and_their_labels(objects: list[dict[str, Any]], expected: Read, left_out: int, form: str) -> None:
    assert read(objects, form) == (expected, left_out)


@pytest.mark.parametrize("objects", [PRODIGY, STUDIO, ARGILLA])
def test_init_finds_text_and_label(objects: list[dict[str, Any]]) -> None:
    Path("export.json").write_text(json.dumps([objects[0], objects[1]] * 10))
    layout = find_layout("export.json")
    assert (layout.text_column, layout.label_column) == ("text", "label")


def test_named_columns_are_read_as_they_are() -> None:
    Path("export.jsonl").write_text(json.dumps(choice("text one", ["a"], "ignore") | {"topic": "x"}) + "\n")
    source = FileTexts(FilesData(source="files", train="export.jsonl", text_column="text", label_column="topic"))
    assert [text.label for text in source.read("train")] == ["x"]


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            [
                task(
                    "text one",
                    annotations=[{"result": [{"type": "choices", "from_name": name, "value": {"choices": ["a"]}} for name in "xy"]}],
                )
            ],
            "export.json:1: an annotation tool's choices to several questions: x, y; export one of them alone",
        ),
        (
            [record("text one", "a") | {"responses": {"topic": [], "mood": []}}],
            "export.json:1: an annotation tool's responses to several questions: mood, topic; export one of them alone",
        ),
    ],
)
def test_what_would_be_guessing_is_refused(objects: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(MhaError) as error:
        read(objects)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "damage",
    [b'[{"text": "a", "label": "b"}, {"text": "a"', b'[{"text": "a", "label": "b"}', b"[", b'[{"text": "a", "label": "b"} nonsense]'],
)
def test_an_array_that_is_cut_short(damage: bytes) -> None:
    Path("export.json").write_bytes(damage)
    source = FileTexts(FilesData(source="files", train="export.json", text_column="text", label_column="label"))
    with pytest.raises(MhaError, match=r"export\.json: a JSON array that is cut short, or damaged; write it again"):
        list(source.read("train"))


@pytest.mark.parametrize(
    "odd",
    [
        {"answer": 3},
        {"accept": "a", "answer": "accept"},
        {"annotations": [3]},
        {"data": {}, "annotations": [3, {"result": 1}]},
        {"fields": {}, "responses": {"a": 3}},
    ],
)
def test_odd_objects_are_one_line_or_plain_objects(odd: dict[str, Any]) -> None:
    try:
        read([{"text": "text one", "label": "a"} | odd])
    except MhaError as error:
        assert str(error).isprintable()


def test_an_export_without_an_answer_is_not_empty() -> None:
    export = [{"data": {"text": f"text {number}"}, "annotations": []} for number in range(3)]
    assert error_of(read, export) == "export.json: no text has an answer; export texts that people have labelled"
