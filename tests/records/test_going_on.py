"""Reading on behind a record that cannot be read, where the caller says what stands in for it."""

import io
import re
from collections.abc import Sequence

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_cli.errors import MhaError
from mha_cli.records import lines as lines_module
from mha_cli.records import rows as rows_module
from mha_cli.records.reader import Reading
from mha_cli.records.readers import Format, read_records
from mha_cli.records.record import Columns, Record
from tests.errors import error_of

BAD_JSON = ("not json", "[1]", "7", '{"x": 1}', '{"text": 3}', '{"text": "a"', "{")
BAD_ROWS = ("1", "1,a,b", '1,"a" b', 'a"b,"c"d')


def texts_and_faults(data: bytes, form: Format, cut: int = 1 << 16) -> list[tuple[int, str | None, str]]:
    """Of every record the line, the text, or what is wrong with it."""

    def stand_in(fault: MhaError, line: int) -> Record:
        return Record(str(fault), b"", (None,), b"", line)

    pieces = [data[start : start + cut] for start in range(0, len(data), cut)]
    records = read_records(form, pieces, Reading("x", Columns("text"), on_fault=stand_in))
    return [(found.line, None if found.fields else found.text, found.text if found.fields else "") for found in records]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(BAD_JSON) | st.just('{"text": "good"}'), max_size=12), st.integers(1, 50))
def test_every_line_of_json_is_a_record_or_a_fault(lines: Sequence[str], cut: int) -> None:
    found = texts_and_faults("\n".join(lines).encode(), "jsonl", cut)
    assert [(line, text) for line, text, _ in found] == [
        (number, None if line in BAD_JSON else "good") for number, line in enumerate(lines, start=1)
    ]
    assert all(fault.startswith(f"x:{line}: ") for line, text, fault in found if text is None)


@settings(max_examples=60)
@given(st.lists(st.sampled_from((*BAD_ROWS, "2,fine", '3,"a, ""b"""', "4,")), max_size=12), st.integers(1, 50))
def test_every_row_of_a_table_is_a_record_or_a_fault(rows: Sequence[str], cut: int) -> None:
    found = texts_and_faults("\n".join(["id,text", *rows]).encode(), "csv", cut)
    assert [(line, text is None) for line, text, _ in found] == [(number, row in BAD_ROWS) for number, row in enumerate(rows, start=2)]


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_a_stray_quote_costs_one_row(cut: int) -> None:
    data = b'id,text\n1,"never closed\n2,fine\n3,"quoted\nand long"\n4,"open again\n5,last\n'
    assert [(line, text) for line, text, _ in texts_and_faults(data, "csv", cut)] == [
        (2, None),
        (3, "fine"),
        (4, "quoted\nand long"),
        (6, None),
        (7, "last"),
    ]


def test_a_stray_quote_is_known_when_its_field_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_LINE_BYTES", 100)
    rows = [f"{number},text {number}" for number in range(300)]
    rows[7] = '7,"text 7'
    found = texts_and_faults("\n".join(["id,text", *rows]).encode(), "csv")
    assert [text for _, text, _ in found] == [None if number == 7 else f"text {number}" for number in range(300)]
    assert found[7][2] == "x:9: a row longer than 100 characters; look for a quote that is not closed"


def test_quotes_that_draw_all_lines_into_every_row_end_the_reading() -> None:
    data = b'id,text\n1,"never closed\n' + b'b","c\n' * 20_000  # each line would be read once for every line before it
    message = r'x:\d: row after row has a quote that is not closed; close them; a quote inside a quoted text is written twice: ""'
    assert re.fullmatch(message, error_of(texts_and_faults, data, "csv"))


@pytest.mark.parametrize(("form", "line"), [("lines", "{}"), ("jsonl", '{{"text": "{}"}}'), ("fasttext", "__label__a {}")])
@pytest.mark.parametrize("cut", [13, 97, 1 << 16])
def test_a_line_that_is_too_long_is_one_record(form: Format, line: str, cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100)
    texts = ["long" * 40, "a", "long" * 30, "long" * 70, "b", "long" * 40]
    found = texts_and_faults("\n".join(line.format(text) for text in texts).encode(), form, cut)
    assert [(number, text) for number, text, _ in found] == [(1, None), (2, "a"), (3, None), (4, None), (5, "b"), (6, None)]
    assert found[2][2] == "x:3: a line longer than 100 bytes; write one text per line"


def test_one_bad_record_of_parquet() -> None:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["one", None, "three"]}), file)
    assert [(line, text) for line, text, _ in texts_and_faults(file.getvalue(), "parquet")] == [(1, "one"), (2, None), (3, "three")]


@pytest.mark.parametrize(
    ("data", "form", "message"),
    [
        (b'"id,text\n1,a\n', "csv", "x:1: a quote in this row is never closed"),
        (b"id,review\n1,a\n", "csv", 'x:1: no column "text" among id, review'),
        (b"PK\x03\x04{", "jsonl", "x: a zip file"),
        (b"\x1f\x8b\x08\x00rubbish", "lines", "x: the gzip data is cut short or damaged"),
        (b"no parquet", "parquet", "x: not a Parquet file"),
    ],
)
def test_what_is_wrong_with_the_whole_is_raised(data: bytes, form: Format, message: str) -> None:
    assert error_of(texts_and_faults, data, form).startswith(message)
