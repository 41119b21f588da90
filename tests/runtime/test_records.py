from __future__ import annotations

import csv
import io
import json
import os
import random
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.runtime import records as records_module
from mha_cli.runtime.lines import Pause, split_lines
from mha_cli.runtime.records import Record, format_of, given_records, read_inputs, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mha_cli.runtime.records import Format

TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.text('a",\n\r\t ', max_size=12)


def events(data: bytes, form: Format, cuts: Sequence[int] = (), **options: Any) -> Iterator[Record | Pause]:
    """Records, and pauses, in a stream whose producer pauses at the cuts."""
    places = sorted(min(cut, len(data)) for cut in cuts)
    parts = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    chunks = [piece for part in parts for piece in (part, Pause(0))]
    return read_records(split_lines(iter(chunks), "x"), "x", form, **options)


def records(data: bytes, form: Format, cuts: Sequence[int] = (), **options: Any) -> list[Record]:
    return [record for record in events(data, form, cuts, **options) if isinstance(record, Record)]


def texts(data: bytes, form: Format, **options: Any) -> list[str]:
    return [record.text for record in records(data, form, **options)]


def error_of(data: bytes, form: Format, before: int = 0, **options: Any) -> str:
    """The one line about what is wrong, after so many records."""
    found: list[Record | Pause] = []
    with pytest.raises(MhaError) as raised:
        for event in events(data, form, **options):
            found.append(event)
    assert sum(isinstance(event, Record) for event in found) == before
    assert raised.value.exit_code == EXIT_USAGE
    assert str(raised.value).isprintable()
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.csv", "csv"),
        ("a.CSV.GZ", "csv"),
        ("b/a.tsv", "tsv"),
        ("a.tsv.gz", "tsv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json.gz", "jsonl"),
        ("a.txt", "lines"),
        ("a.gz", "lines"),
        ("csv", "lines"),
        ("-", "lines"),
    ],
)
def test_the_extension_tells_the_format(name: str, form: str) -> None:
    assert format_of(name) == form


# Plain lines


def test_every_line_is_a_record() -> None:
    data = b"one\r\n\r\n \n\xff\x00\ncut \xe2\x82"
    assert records(data, "lines") == [
        Record("one", b"one\r\n"),
        Record("", b"\r\n"),
        Record(" ", b" \n"),
        Record("\ufffd\x00", b"\xff\x00\n"),
        Record("cut \ufffd", b"cut \xe2\x82\n"),
    ]


def test_lines_have_one_column() -> None:
    assert [record.fields for record in records(b"one\ntwo\n", "lines", fields=["text", "text"])] == [("one", "one"), ("two", "two")]
    message = '--field id: x: plain lines have only the column "text"; add --format csv, tsv or jsonl if they are no plain lines'
    assert error_of(b"one\n", "lines", fields=["text", "id"]) == message


def test_texts_that_are_there_already() -> None:
    assert list(given_records(["one", "", "a\nb"], ["text"])) == [
        Record("one", b"one\n", ("one",)),
        Record("", b"\n", ("",)),
        Record("a\nb", b"a\nb\n", ("a\nb",)),
    ]
    with pytest.raises(MhaError) as raised:
        given_records(["one"], ["id"])
    assert str(raised.value).startswith('--field id: arguments: plain lines have only the column "text"; ')


# JSON lines


def test_json_lines() -> None:
    data = '{"text": "a\\nb\\u0000 – 🎬", "n": [1, {}]}\r\n\n  \n{"n": null, "text": ""}\n{"text": "\\ud83c"}'.encode()
    found = records(data, "jsonl", fields=["n", "not there"])
    assert [record.text for record in found] == ["a\nb\x00 – 🎬", "", "\ufffd"]
    assert [record.fields for record in found] == [([1, {}], None), (None, None), (None, None)]
    assert found[0].raw.startswith(b'{"text": "a\\nb')
    assert found[0].raw.endswith(b"}\r\n")
    assert found[1].raw == b'{"n": null, "text": ""}\n'
    assert found[2].raw == b'{"text": "\\ud83c"}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "JSON that goes on over further lines; write one JSON object a line, a text each; jq -c '.[]' writes a list so"),
        (b"good film", "not JSON: Expecting value at place 1; write one JSON object a line, a text each"),
        (b'["good"]', "a list where a JSON object belongs; write one JSON object a line, a text each"),
        (b"[" * 100_000, "JSON with a number too long or brackets too deep; write one JSON object a line, a text each"),
        (b'{"txt": "good"}', 'no column "text" among txt; did you mean txt? (see --text-column)'),
        (b'{"text": 3}', 'the text "text" is the value 3; write a string in double quotes'),
        (b'{"text": null}', 'the text "text" is null; write a string in double quotes'),
    ],
)
def test_a_broken_json_record(line: bytes, message: str) -> None:
    assert error_of(b'{"text": "good"}\n\n' + line + b"\n", "jsonl", before=1) == f"x:3: {message}"


@given(st.lists(TEXT, max_size=5), st.lists(st.integers(0, 300)))
@settings(deadline=None)
def test_json_round_trip(given_texts: list[str], cuts: list[int]) -> None:
    data = "".join(json.dumps({"review": text, "id": number}) + "\n" for number, text in enumerate(given_texts)).encode()
    found = records(data, "jsonl", cuts, text_column="review", fields=["id"])
    assert [(record.text, record.fields) for record in found] == [(text, (number,)) for number, text in enumerate(given_texts)]
    assert b"".join(record.raw for record in found) == data


# CSV and TSV


def test_quoted_line_feeds() -> None:
    data = b'id, text \n1,"a ""q""\n\nb, c"\n\n2,d\r\n"3","e\r\nf"'
    assert records(data, "csv", fields=["id"]) == [
        Record('a "q"\n\nb, c', b'1,"a ""q""\n\nb, c"\n', ("1",), b"id, text \n"),
        Record("d", b"2,d\r\n", ("2",), b"id, text \n"),
        Record("e\r\nf", b'"3","e\r\nf"\n', ("3",), b"id, text \n"),
    ]


def test_tab_separated() -> None:
    found = records(b'review\tid\na, b\t1\n"c\td"\t2\n', "tsv", text_column="review", fields=["id", "review"])
    assert [(record.text, record.fields) for record in found] == [("a, b", ("1", "a, b")), ("c\td", ("2", "c\td"))]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"text,id\n", b"\xef\xbb\xbftext\n"])
def test_a_table_without_rows(data: bytes) -> None:
    assert texts(data, "csv") == []


def test_bytes_in_a_table_that_are_no_text() -> None:
    assert texts(b"text,id\na\xff\x00b,1\n\xe2\x82,2\n", "csv") == ["a\ufffd\x00b", "\ufffd"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"a", "4: 1 field where the header has 2; put a text that holds a comma in double quotes"),
        (b"1,a,b", "4: 3 fields where the header has 2; put a text that holds a comma in double quotes"),
        (b'1,"a', '4: a quote in this row is never closed; close it; a quote inside a quoted text is written twice: ""'),
        (
            b'1,"a" film',
            "4: ',' expected after '\"'; separate the columns with commas, and quote the whole field; "
            'a quote inside a quoted text is written twice: ""',
        ),
        (b"1,a\rb", "4: a carriage return inside a field; save it with LF or CRLF line ends, or quote the field"),
    ],
)
def test_a_broken_row(row: bytes, message: str) -> None:
    data = b'id,text\n1,"a\nb"\n' + row + b"\n"
    assert error_of(data, "csv", before=1) == f"x:{message}"
    assert error_of(data, "csv", before=1, cuts=range(len(data))) == f"x:{message}"


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        (b"id,txt", {}, 'no column "text" among id, txt; did you mean txt? (see --text-column)'),
        (b"a,b", {}, 'no column "text" among a, b; set --text-column'),
        (b"a,text", {"fields": ["b"]}, 'no column "b" among a, text; set --field'),
        (b"text,text", {}, 'the column "text" stands 2 times; rename all but one of them'),
        (b"a,a,text", {"fields": ["a"]}, 'the column "a" stands 2 times; rename all but one of them'),
    ],
)
def test_a_column_that_is_not_there(header: bytes, options: dict[str, Any], message: str) -> None:
    assert error_of(b"\n" + header + b"\n1,2\n", "csv", **options) == f"x:2: {message}"


def test_a_field_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MAX_LINE_BYTES", 100)
    message = error_of(b'text\nfine\n"' + b"never closed\n" * 20, "csv", before=1)
    assert message == "x:3: a field longer than 100 characters; look for a quote that is not closed"


@given(
    st.lists(st.tuples(TEXT, TEXT), max_size=5),
    st.sampled_from([",", "\t"]),
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
)
@settings(deadline=None)
def test_what_the_csv_module_writes_is_read_alike_however_it_is_cut(
    rows: list[tuple[str, str]], delimiter: str, style: tuple[str, Any]
) -> None:
    written, form = io.StringIO(newline=""), "csv" if delimiter == "," else "tsv"
    writer = csv.writer(written, delimiter=delimiter, lineterminator=style[0], quoting=style[1])
    writer.writerow(["text", "id"])
    writer.writerows(rows)
    data = written.getvalue().encode()
    expected = [(text, (number,)) for text, number in rows]
    for cuts in ([], range(len(data)), random.Random(0).sample(range(len(data)), 5)):
        found = records(data, form, cuts, fields=["id"])
        assert [(record.text, record.fields) for record in found] == expected
    if found:
        assert found[0].header + b"".join(record.raw for record in found) == data


PIECES = [
    b"text",
    b"id",
    b'"',
    b'""',
    b",",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"{",
    b"}",
    b"[",
    b":",
    b"1",
    b" ",
    b"\\",
    b"\\ud800",
    b"\xff",
    b"\0",
]
STREAMS = st.tuples(
    st.sampled_from([b"", b"text,id\n", b"text\tid\n", b'{"text": "a", "id": 1}\n']),
    st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join),
).map(b"".join)


@given(STREAMS, st.sampled_from(["lines", "jsonl", "csv", "tsv"]), st.lists(st.integers(0, 100), max_size=6))
@settings(deadline=None)
def test_any_stream_is_read_or_refused_in_one_line_alike_however_it_is_cut(data: bytes, form: Format, cuts: list[int]) -> None:
    def outcome(cuts: Sequence[int]) -> tuple[list[Record], str]:
        found: list[Record] = []
        try:
            for event in events(data, form, cuts):
                if isinstance(event, Record):
                    found.append(event)
        except MhaError as error:
            return found, str(error)
        return found, ""

    found, problem = outcome([])
    assert outcome(cuts) == (found, problem)
    assert not problem or (problem.startswith("x") and problem.isprintable())
    for record in found:
        record.text.encode()  # no lone surrogates
        assert record.raw.endswith(b"\n")


@pytest.mark.parametrize(
    ("form", "beginning", "parts"),
    [
        ("lines", b"", [b"one\n", b"\n", b"two\n"]),
        ("jsonl", b"", [b'{"text": "one"}\n', b'{"text": ""}\n', b'{"text": "two"}\n']),
        ("csv", b"id,text\n", [b"1,one\n", b'2,""\n', b'3,"two"\n']),
        ("tsv", b"text\tid\n", [b'"one"\t"1"\n', b"\t2\n", b"two\t3\n"]),
    ],
)
def test_a_record_comes_before_the_next_is_there(form: Format, beginning: bytes, parts: list[bytes]) -> None:
    ends = [len(beginning + b"".join(parts[:number])) for number in range(len(parts) + 1)]
    stream = events(beginning + b"".join(parts), form, ends)
    assert [event.text if isinstance(event, Record) else "pause" for event in stream][-7:-1] == [
        "one",
        "pause",
        "",
        "pause",
        "two",
        "pause",
    ]


def test_a_row_that_comes_in_pieces_is_read_once_it_is_whole() -> None:
    data = b'text\n"one\n\ntwo\nthree"\nlast\n'
    found = list(events(data, "csv", range(len(data))))
    assert [event.text for event in found if isinstance(event, Record)] == ["one\n\ntwo\nthree", "last"]
    assert found.index(next(event for event in found if isinstance(event, Record))) == len(data) - len(b"last\n")


# Files


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, data: bytes) -> str:
    with open(name, "wb") as file:
        file.write(data)
    return name


def test_files_one_after_the_other_each_in_its_format() -> None:
    paths = [write("a.csv", b"text\none\n"), write("b.txt", b"text\n"), write("c.jsonl", b'{"text": "three"}'), write("d", b"")]
    assert [record.text for record in read_inputs(paths)] == ["one", "text", "three"]
    assert [record.text for record in read_inputs(paths[:2], "lines")] == ["text", "one", "text"]


def test_a_broken_record_names_its_file() -> None:
    paths = [write("a.csv", b"text\none\n"), write("b\x1b.csv", b"text\none\n1,2\n")]
    with pytest.raises(MhaError) as raised:
        list(read_inputs(paths))
    assert str(raised.value).startswith(r"b\x1b.csv:3: 2 fields where the header has 1; ")


def test_what_is_missing_is_refused_before_anything_is_read() -> None:
    for paths in ([write("a.txt", b"one\n"), "nowhere.txt"], ["\x1b", "a.txt"]):
        with pytest.raises(MhaError) as raised:
            read_inputs(paths)
        assert str(raised.value).endswith(": cannot be read: No such file or directory; give a file of texts")
    with pytest.raises(MhaError) as raised:
        read_inputs(["a\0b"])
    assert fnmatchcase(str(raised.value), r"a\x00b: cannot be read: *embedded null *; give a file of texts")  # as Python words it


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read() -> None:
    os.chmod(write("a.txt", b"one\n"), 0)
    with pytest.raises(MhaError) as raised:
        list(read_inputs(["a.txt"]))
    assert str(raised.value) == "a.txt: cannot be read: Permission denied; give a file of texts"


def test_plain_lines_have_no_text_column() -> None:
    paths = [write("a.txt", b"one\n"), write("b.csv", b"review\ntwo\n")]
    assert [record.text for record in read_inputs(paths, text_column="review")] == ["one", "two"]
    with pytest.raises(MhaError) as raised:
        read_inputs(["a.txt"], text_column="review")
    assert str(raised.value) == "--text-column review: plain lines have no columns; add --format csv, tsv or jsonl"


def test_files_are_closed() -> None:
    paths = [write(f"{number}.txt", b"one\ntwo\n") for number in range(5)]
    before = len(os.listdir("/proc/self/fd"))
    assert len(list(read_inputs(paths))) == 10
    assert len(os.listdir("/proc/self/fd")) == before
