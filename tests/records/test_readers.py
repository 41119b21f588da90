"""From bytes to records, in every format, however the bytes are cut."""

import csv
import datetime
import gzip
import io
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mha_cli.errors import MhaError, plural
from mha_cli.records.reader import Dialect, Reading
from mha_cli.records.readers import Format, read_records
from mha_cli.records.record import Columns, Record
from mha_cli.records.rows import TableLines
from tests.errors import error_of as one_error
from tests.limits import files_of_at_most, traced_peak

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=12) | st.text(
    'a",\n\r\t ', max_size=12
)  # control characters may look like a binary file


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    positions = sorted(min(cut, len(data)) for cut in cuts)
    return [data[start:end] for start, end in zip([0, *positions], [*positions, len(data)], strict=True)]


def read(
    data: bytes, form: Format, cuts: Sequence[int] = (), text_column: str = "text", fields: Sequence[str] = (), **options: Any
) -> Iterator[Record]:
    return read_records(form, pieces_of(data, cuts), Reading("x", Columns(text_column, tuple(fields)), **options))


def paused(form: Format, parts: Sequence[bytes], columns: Columns) -> list[list[str]]:
    """The texts that come before each next part is taken, and after the last."""
    found: list[list[str]] = [[]]

    def pieces() -> Iterator[bytes]:
        for part in parts:
            yield part
            found.append([])

    for record in read_records(form, pieces(), Reading("x", columns)):
        found[-1].append(record.text)
    return found


def records(data: bytes, form: Format, cuts: Sequence[int] = (), **options: Any) -> list[Record]:
    return list(read(data, form, cuts, **options))


def texts(*args: Any, **options: Any) -> list[tuple[str, ...]]:
    """The text of each record, and its fields."""
    return [(record.text, *record.fields) for record in read(*args, **options)]


def error_of(data: bytes, form: Format, before: int = 0, **options: Any) -> str:
    """The one line about what is wrong, after so many records."""
    found: list[Record] = []
    message = one_error(lambda: found.extend(read(data, form, **options)))
    assert len(found) == before
    return message


# Every format


def written(rows: Sequence[Sequence[str]], separator: str, quoting: Any = csv.QUOTE_MINIMAL, end: str = "\n") -> bytes:
    to = io.StringIO(newline="")
    csv.writer(to, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)
    return to.getvalue().encode()


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    to = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), to, **options)
    return to.getvalue()


def in_format(form: Format, rows: Sequence[tuple[str, str]], quoting: Any = csv.QUOTE_ALL, end: str = "\r\n") -> bytes:
    """A file of this format with the columns ``text`` and ``label``."""
    if form == "jsonl":
        return "".join(json.dumps({"text": text, "label": label}) + end for text, label in rows).encode()
    if form == "parquet":
        return parquet({"text": [text for text, _ in rows], "label": [label for _, label in rows]})
    return written([("text", "label"), *rows], "\t" if form == "tsv" else ",", quoting, end)


@given(
    st.lists(st.tuples(TEXT, TEXT).filter(lambda row: "".join(row).strip()), min_size=1, max_size=5),  # a table has no blank rows
    st.sampled_from(["csv", "tsv", "jsonl", "parquet"]),
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 7, 1000]),
)
def test_what_is_written_is_read(
    rows: list[tuple[str, str]], form: Format, style: tuple[str, Any], marked: bool, packed: bool, size: int
) -> None:
    if form == "tsv":  # a text of several lines that look like rows is read as rows
        rows = [(text.replace("\t", " "), label.replace("\t", " ")) for text, label in rows]
    plain = in_format(form, rows, style[1], style[0])
    data = b"\xef\xbb\xbf" + plain if marked and form != "parquet" else plain
    data = gzip.compress(data) if packed else data
    found = records(data, form, range(0, len(data), size), fields=["label"])
    assert [(record.text, *record.fields) for record in found] == rows
    if form != "parquet":
        assert found[0].header + b"".join(record.raw for record in found) == plain


# Plain lines


def test_every_line_is_a_record() -> None:
    data = b"one\r\n\r\n \n\xff\x00\ncut \xe2\x82"
    assert records(data, "lines") == [
        Record("one", b"one\r\n", line=1),
        Record("", b"\r\n", line=2),
        Record(" ", b" \n", line=3),
        Record("\ufffd\x00", b"\xff\x00\n", line=4),
        Record("cut \ufffd", b"cut \xe2\x82\n", line=5),
    ]
    assert texts(b"one\ntwo\n", "lines", fields=["text"]) == [("one", "one"), ("two", "two")]


# JSON lines


def test_json_lines() -> None:
    first = '{"text": "a\\nb\\u0000 – 🎬", "n": [1, {}]}\r\n'.encode()
    data = first + b'\n  \n{"n": null, "text": ""}\n{"text": "\\ud83c"}'
    assert records(data, "jsonl", fields=["n", "not there"]) == [
        Record("a\nb\x00 – 🎬", first, ([1, {}], None), line=1),
        Record("", b'{"n": null, "text": ""}\n', (None, None), line=4),
        Record("\ufffd", b'{"text": "\\ud83c"}\n', (None, None), line=5),
    ]


# CSV and TSV


def test_quoted_line_feeds() -> None:
    data = b'id, text \n1,"a ""q""\n\nb, c"\n\n2,d\r\n"3","e\r\nf"'
    assert records(data, "csv", fields=["id"]) == [
        Record('a "q"\n\nb, c', b'1,"a ""q""\n\nb, c"\n', ("1",), b"id, text \n", 2),
        Record("d", b"2,d\r\n", ("2",), b"id, text \n", 6),
        Record("e\r\nf", b'"3","e\r\nf"\n', ("3",), b"id, text \n", 7),
    ]


def test_a_table_without_rows() -> None:
    assert [records(data, "csv") for data in (b"", b"\n\n", b"text,id\n", b"\xef\xbb\xbftext\n")] == [[]] * 4


# Separators


ROWS = [["a, b", "7"], ["c; d", "8"], ["e | f\tg", "9"], ["h", "10"]]


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize(("header", "columns"), [([["text", "id"]], ("text", "id")), ([], ("1", "2"))], ids=["header", "numbers"])
def test_the_first_lines_tell_the_separator(
    header: list[list[str]], columns: tuple[str, str], quoting: Any, separator: str, form: Format
) -> None:
    data = written([*header, *ROWS], separator, quoting)
    found = records(data, form, text_column=columns[0], fields=[columns[1]])
    assert [[record.text, *record.fields] for record in found] == ROWS
    assert found[0].header == (data.partition(b"\n")[0] + b"\n" if header else b"")


def test_a_line_of_excel_tells_the_separator() -> None:
    found = records(b'\xef\xbb\xbfsep=;\r\ntext;n\r\n"a, b";1\r\n', "csv")
    assert [(record.text, record.header, record.line) for record in found] == [("a, b", b"text;n\r\n", 3)]


def test_without_a_header_rows_are_held_back_until_one_separator_is_left() -> None:
    parts = [b"1;good, but slow\n", b"2;fine, too\n", b"3;superb\n", b"4;one, two, three\n"]
    assert paused("csv", parts, Columns("2", ("1",))) == [[], [], ["good, but slow", "fine, too", "superb"], ["one, two, three"], []]


def test_a_separator_that_stays_open_is_the_one_of_the_format() -> None:
    data = b"1,5;fine\n2,5;superb\n"
    assert texts(data, "csv", text_column="2") == [("5;fine",), ("5;superb",)]


# Columns by number


def test_columns_by_number_count_from_one() -> None:
    for header, expected in ((b"", b""), (b"0,1,2\n", b"0,1,2\n")):  # as pandas names columns without names
        found = records(header + b"7,fine,pos\n8,dull,neg\n", "csv", text_column="2", fields=["3", "1"])
        assert [(record.text, record.fields, record.header) for record in found] == [
            ("fine", ("pos", "7"), expected),
            ("dull", ("neg", "8"), expected),
        ]


def test_a_number_beside_a_name_counts_the_columns_of_the_header() -> None:
    assert texts(b"id,body,2\n7,fine,x\n", "csv", text_column="2", fields=["id"]) == [("x", "7")]  # a name first
    assert texts(b"id,body\n7,fine\n", "csv", text_column="2", fields=["id"]) == [("fine", "7")]


# Nested keys


@pytest.mark.parametrize(
    ("record", "key", "text"),
    [
        ({"a": {"b": "in"}}, "a.b", "in"),
        ({"a": {"b": "in"}, "a.b": "out"}, "a.b", "out"),
        ({"a": {"b.c": "in"}}, "a.b.c", "in"),
        ({"a.b": {"c": "in"}}, "a.b.c", "in"),
        ({"a.b": {"c": "in"}, "a": {"b": 1}}, "a.b.c", "in"),
    ],
)
def test_a_dot_leads_into_an_object(record: dict[str, Any], key: str, text: str) -> None:
    found = texts(json.dumps(record).encode(), "jsonl", text_column=key, fields=[key, f"{key}.gone"])
    assert found == [(text, text, None)]


# fastText's lines


def test_fasttext_lines() -> None:
    data = "__label__pos fine, really\n\n__label__ça-va\tdull \r\nno label\nsuperb __label__pos film\n__label__\n".encode()
    found = records(data, "fasttext", fields=["label", "text"])
    assert [(record.fields, record.line) for record in found] == [
        (("pos", "fine, really"), 1),
        (("ça-va", "dull"), 3),
        ((None, "no label"), 4),
        (("pos", "superb  film"), 5),
        (("", ""), 6),
    ]
    assert b"\n".join([found[0].raw.strip(), found[1].raw]) == b"__label__pos fine, really\n__label__\xc3\xa7a-va\tdull \r\n"


def test_only_ascii_white_space_ends_a_label() -> None:
    data = "__label__new\u00a0york a big\u3000city\n\u00a0__label__no label\n__label__c\x0bd\n".encode()
    assert [label for _, label in texts(data, "fasttext", fields=["label"])] == ["new\u00a0york", None, "c"]


# Parquet


def test_parquet_rows_in_several_groups() -> None:
    rows = [(f"text {number}", number) for number in range(300)]
    columns = {"id": [number for _, number in rows], "text": [text for text, _ in rows], "at": [datetime.date(2024, 1, 2)] * 300}
    data = parquet(columns, row_group_size=70)
    found = records(data, "parquet", range(0, len(data), 1000), fields=["id", "at"])
    assert [(record.text, *record.fields, record.line) for record in found] == [(*row, "2024-01-02", row[1] + 1) for row in rows]
    assert json.loads(found[7].raw) == {"id": 7, "text": "text 7", "at": "2024-01-02"}
    assert texts(gzip.compress(data), "parquet", fields=["id"]) == rows


def test_nested_and_encoded_columns_of_parquet() -> None:
    encoded = pyarrow.array(["one", "two"]).dictionary_encode()
    data = parquet({"a": [{"b": "in", "c": 1}] * 2, "a.b": ["out"] * 2, "text": encoded, "raw": [b"caf\xc3\xa9", b"\xff"]})
    assert texts(data, "parquet", fields=["a.c"]) == [("one", 1), ("two", 1)]
    assert texts(data, "parquet", text_column="a.b") == [("out",), ("out",)]
    assert texts(data, "parquet", text_column="raw") == [("café",), ("\ufffd",)]


def test_parquet_that_inflates_is_refused_before_it_is_unpacked() -> None:
    data = parquet({"text": ["a" * 70_000_000], "other": ["fine"]}, compression="zstd", use_dictionary=False, write_statistics=False)
    told = list[str]()
    assert traced_peak(lambda: told.append(error_of(data, "parquet"))) < 2_000_000
    assert re.fullmatch(r"x: \d,\d+ bytes of which a part unpacks to 70,000,\d+ bytes; write one text per row", told[0])


def test_a_long_row_of_parquet_is_refused_before_it_is_copied() -> None:
    data, told = parquet({"text": ["fine", "a" * 70_000_000]}, compression="none", use_dictionary=False), list[str]()
    assert traced_peak(lambda: told.append(error_of(data, "parquet", before=1))) < 80_000_000  # the bytes of the file, once
    assert told == ["x:2: a row longer than 67,108,864 bytes; write one text per row"]


def test_a_temporary_folder_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with files_of_at_most(100), pytest.raises(MhaError, match=f"^{tmp_path}: File too large; it takes the whole file, unpacked: make room"):
        records(parquet({"text": ["some text"] * 999}), "parquet")


@given(st.integers(0, 2000), st.binary(max_size=30))
@settings(max_examples=50)
def test_damaged_parquet_is_read_or_refused_in_one_line(at: int, other: bytes) -> None:
    data = parquet({"text": ["fine", "dull"], "n": [1, 2]})
    damaged = data[: at % len(data)] + other + data[at % len(data) + len(other) :]
    try:
        records(damaged, "parquet")
    except MhaError as error:
        assert str(error).startswith(("x: not a Parquet file, or a damaged one: ", 'x: no column "text" among '))  # its name was hit
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("data", "row", "rows"),
    [
        (b"Films of 2024\n\nid,text\n1,2", 3, [("2", "1")]),
        (b"Films;;\r\n ; ;\r\nby;Ann;\r\nid;text;x\r\n1;2;3\r\n", 4, [("2", "1")]),
        (b'Films, of 2024\nall;of;them\n"id";"more";"other";"text"\n1;2;3;4\n', 3, [("4", "1")]),
    ],
)
def test_titles_above_the_header_are_skipped(data: bytes, row: int, rows: list[tuple[str, str]]) -> None:
    reading = Reading("x", Columns("text", ("id",)))
    found = read_records("csv", [data], reading)
    assert [(record.text, *record.fields) for record in found] == rows
    num_above = sum(any(line.strip(b"; \r")) for line in data.split(b"\n")[: row - 1])
    assert reading.warnings.lines == [f"x: the header is in row {row}; skipped above it: {plural(num_above, 'row')}"]


@pytest.mark.parametrize("data", [b"id,body\n1,good\n2,text\n", b"good\ntext\nbad\n"])
def test_no_row_of_a_table_is_a_title(data: bytes) -> None:
    assert error_of(data, "csv").startswith('x:1: no column "text" among ')


# Faults


ONE_OBJECT = "write one JSON object per line"
DOUBLE = 'a quote inside a quoted text is written twice: ""'
JSON, TABLE = b'{"text": "good"}\n\n', b'id,text\n1,"a\nb"\n'
BY_NUMBER = {"text_column": "2", "fields": ["3"]}
OPEN = b"1,5;fine\n2,5;superb\n"
AMBIGUOUS = "x:1: ambiguous separator: commas and semicolons fit every row; put a header line first, and name the columns as it does"
PARQUET = parquet({"text": ["fine", None], "n": [1, 2]})


FAULTS: list[tuple[Format, int, bytes, str, dict[str, Any]]] = [
    ("jsonl", 1, JSON + b"{", f"x:3: JSON that spans several lines; {ONE_OBJECT}; jq -c . writes it so", {}),
    ("jsonl", 1, JSON + b'[{"text": "a"}]', f"x:3: a list instead of a JSON object; {ONE_OBJECT}; jq -c '.[]' writes it so", {}),
    ("jsonl", 1, JSON + b"good film", f"x:3: not JSON: Expecting value at position 1; {ONE_OBJECT}", {}),
    ("jsonl", 1, JSON + b"[" * 9_999, f"x:3: JSON with a number too long or brackets too deep; {ONE_OBJECT}", {}),
    ("jsonl", 1, JSON + b'"\\u001b[2J"', f'x:3: the string "\\x1b[2J" instead of a JSON object; {ONE_OBJECT}', {}),
    ("jsonl", 1, JSON + b'{"text": 3}', 'x:3: the text "text" is the value 3; write every text as a string', {}),
    (
        "jsonl",
        0,
        b'{"id": 1, "a": {"body": "fine", "more": {"n": []}}, "none": {}}',
        'x:1: no column "a.bdy" among id, a.body, a.more.n, none; did you mean a.body? (see --text-column)',
        {"text_column": "a.bdy"},
    ),
    (
        "csv",
        1,
        TABLE + b'1,"a" b',
        f"x:4: ',' expected after '\"'; separate the columns with commas, and quote the whole field; {DOUBLE}",
        {},
    ),
    ("csv", 1, TABLE + b"1,a\rb", "x:4: a carriage return inside a field; save it with LF or CRLF line ends, or quote the field", {}),
    ("csv", 0, b"\nid,txt\n1,2", 'x:2: no column "text" among id, txt; did you mean txt? (see --text-column)', {}),
    ("csv", 0, b"\na,text\n1,2", 'x:2: no column "b" among a, text; set --field', {"fields": ["b"]}),
    ("csv", 0, b"a,a,text", 'x:1: the column "a" occurs 2 times; rename all but one of them', {"fields": ["a"]}),
    ("csv", 0, b"a,b", "x:1: no column 0 among 2; count them from 1 (see --text-column)", {"text_column": "0"}),
    ("csv", 1, b"a,b,c\nd", "x:2: 1 field where the first row has 3; put a text that holds a comma in double quotes", BY_NUMBER),
    ("tsv", 0, OPEN, AMBIGUOUS, {"text_column": "2"}),
    ("tsv", 0, OPEN * 60, AMBIGUOUS, {"text_column": "2"}),
    ("fasttext", 0, b"a", "--field id: x: fastText's lines have no such column; take one of text, label", {"fields": ["id"]}),
    ("parquet", 0, PARQUET, 'x:1: the text "n" is the value 1; write every text as a string', {"text_column": "n"}),
    ("parquet", 1, PARQUET, 'x:2: the text "text" is null; write every text as a string', {}),
]


@pytest.mark.parametrize(("form", "before", "data", "message", "options"), FAULTS)
def test_a_fault_comes_behind_the_records_before_it(form: Format, before: int, data: bytes, message: str, options: Any) -> None:
    for cuts in ([], range(len(data))):
        assert error_of(data, form, before, cuts=cuts, **options) == message


# Anything at all


COLUMNS = st.sampled_from(["text", "1", "2", "a.b"])
# fmt: off
PIECES = [
    b"text", b";", b"|", b"sep=;", b"__label__", b"id", b'"', b'""', b",", b"\t", b"\n", b"\r\n", b"\r", b"{", b"}", b"[", b":", b"1", b" ",
    b"\\", b"\\ud800", b"\xff", b"\0",
]
# fmt: on
STREAMS = st.tuples(
    st.sampled_from([b"", b"text,label\na,x\nb,y\n", b"text\tid\n", b'{"text": "a", "label": "b"}\n', b"__label__a b\n"]),
    st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join),
).map(b"".join)


@given(STREAMS, st.sampled_from(["lines", "jsonl", "csv", "tsv", "fasttext"]), COLUMNS, st.lists(st.integers(0, 100), max_size=6))
def test_any_stream_is_read_or_refused_alike_however_it_is_cut(data: bytes, form: Format, column: str, cuts: list[int]) -> None:
    def outcome(cuts: Sequence[int]) -> tuple[list[Record], str]:
        found: list[Record] = []
        try:
            for record in read(data, form, cuts, column):
                found.append(record)
        except MhaError as error:
            return found, str(error)
        return found, ""

    found, problem = outcome([])
    assume("binary data" not in problem)  # which the first bytes tell, as far as they have come
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
        ("csv", b"text;id\n", [b"one;1\n", b";2\n", b"two;3\n"]),
        ("fasttext", b"", [b"__label__a one\n", b"__label__a\n", b"two\n"]),
    ],
)
def test_a_record_comes_before_the_next_is_there(form: Format, beginning: bytes, parts: list[bytes]) -> None:
    assert paused(form, [beginning, *parts], Columns()) == [[], ["one"], [""], ["two"], []]


# Rows


@given(st.lists(st.text('aé\0",;\r ', max_size=8).map(lambda line: f"{line}\n"), max_size=8))
def test_rows_are_those_that_the_csv_module_reads(lines: list[str]) -> None:
    reading = Reading("x")
    found = list(TableLines([line.encode() for line in lines], reading).rows(";"))
    of_csv, is_broken = list[list[str]](), False
    try:
        of_csv.extend(csv.reader(lines, delimiter=";", strict=True))
    except csv.Error:
        is_broken = True
    assert [row.values for row in takewhile(lambda row: not row.fault, found)] == [
        row if row == [""] or "".join(row).strip() else [] for row in of_csv
    ]
    assert any(row.fault for row in found) == is_broken


BARE = [
    (["bad", '"dull lamp'], ["good", "nice one"], ["bad", "late"], ["good", 'it was 5"'], ["bad", "cold"]),
    (['"', "b"], ['"a', 'b"'], ['a "b" c', "c"]),
    (['"x" y', "b"], ['"x"y"', "c"]),
    (["good", 'the last "'], ["bad", '"the end']),
    (["ארץ", '"ה'], ["b", 'מפא"י']),
]


@pytest.mark.parametrize("header", [["label", "text"], []], ids=["header", "numbers"])
@pytest.mark.parametrize("rows", BARE)
def test_stray_quotes_in_a_table_with_tabs_are_characters(header: list[str], rows: Sequence[list[str]]) -> None:
    data = "".join("\t".join(row) + "\n" for row in [*([header] if header else []), *rows]).encode()
    columns = {"text_column": "text", "fields": ["label"]} if header else {"text_column": "2", "fields": ["1"]}
    for cuts in ([], range(len(data))):
        assert [[*record.fields, record.text] for record in records(data, "tsv", cuts, **columns)] == [*rows]


def test_quotes_that_quote_in_a_table_with_tabs() -> None:
    data = b'label\ttext\na\t"one\n\ntwo"\nb\t"tab\there"\n"c"\t"a ""b"""\n"""d"""\t\n'
    assert [record.text for record in records(data, "tsv")] == ["one\n\ntwo", "tab\there", 'a "b"', ""]


def test_a_table_without_quoting() -> None:
    data = b'label,text\na,"one\nb,two"\n"c",a "b"\n'
    found = texts(data, "csv", fields=["label"], dialect=Dialect(quoting=False))
    assert found == [('"one', "a"), ('two"', "b"), ('a "b"', '"c"')]
