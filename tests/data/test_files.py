from __future__ import annotations

import csv
import gzip
import json
import os
import socket
import subprocess
import sys
import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mha_cli.config.settings import FilesData
from mha_cli.data import files
from mha_cli.data.files import FileTexts, labelled_columns, read_labelled, read_labelled_file, read_text_lines
from mha_cli.data.labelled_text import LabelledText, LocatedText
from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.records import lines
from mha_cli.records import rows as rows_module
from mha_cli.records.reader import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KINDS = "give a .csv, .tsv, .txt, .jsonl, .ndjson, .json, .ft or .parquet file, or with .gz, or a folder with one sub-folder a class"
COLUMNS = labelled_columns()
FROM_WINDOWS = "save it as UTF-8, or if it is from Windows, read it with data.encoding=windows-1252"
ONE_OBJECT = "write one JSON object a line, a text each"


@pytest.fixture(autouse=True)
def _with_a_limit_of_its_own(in_an_empty_folder: None) -> Iterator[None]:
    limit = csv.field_size_limit()
    yield
    csv.field_size_limit(limit)


def write(path: str, content: str | bytes) -> str:
    raw = content.encode("utf-8") if isinstance(content, str) else content
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(gzip.compress(raw) if path.endswith(".gz") else raw)
    return path


def read(path: str, text_column: str = "text", label_column: str = "label") -> list[LabelledText]:
    return [placed.review for placed in read_labelled_file(path, labelled_columns(text_column, label_column))]


def error_of(path: str, text_column: str = "text", label_column: str = "label") -> str:
    with pytest.raises(MhaError) as raised:
        read(path, text_column, label_column)
    assert raised.value.exit_code == EXIT_USAGE
    assert "\n" not in str(raised.value)
    return str(raised.value)


# Formats


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz", "a.b.csv"])
def test_csv(name: str) -> None:
    write(name, 'text,label\nfine,pos\n"good, not bad",pos\n"he said ""no""",neg\n')
    assert read(name) == [LabelledText("fine", "pos"), LabelledText("good, not bad", "pos"), LabelledText('he said "no"', "neg")]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_tsv(name: str) -> None:
    write(name, 'text\tlabel\ngood, really\tpos\n"a\tb"\tneg\n')
    assert read(name) == [LabelledText("good, really", "pos"), LabelledText("a\tb", "neg")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz", "a.ndjson.gz", "a.json.gz"])
def test_json_lines(name: str) -> None:
    write(name, '{"text": "fine\\nfilm", "label": "pos"}\n\n  \n{"label": "neg", "text": "é", "id": 3}')
    assert read(name) == [LabelledText("fine\nfilm", "pos"), LabelledText("é", "neg")]


def test_columns_are_found_by_name_and_the_others_are_skipped() -> None:
    write("a.csv", "id, stars ,body,x\n7,5,fine,\n")
    assert read("a.csv", "body", "stars") == [LabelledText("fine", "5")]
    write("a.jsonl", '{"id": 7, "stars": 5, "body": "fine"}')
    assert read("a.jsonl", "body", "stars") == [LabelledText("fine", "5")]


def test_quoted_line_breaks_belong_to_the_text() -> None:
    write("a.csv", b'text,label\r\n"one\r\ntwo\n\nthree",pos\r\nfour,neg\r\n')
    assert read("a.csv") == [LabelledText("one\r\ntwo\n\nthree", "pos"), LabelledText("four", "neg")]


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "text,label\r\nfine,pos\r\n"), ("a.jsonl", '{"text": "fine", "label": "pos"}\r\n\r\n')]
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_crlf_and_byte_order_mark(name: str, content: str, bom: bytes) -> None:
    write(name, bom + content.encode())
    assert read(name) == [LabelledText("fine", "pos")]


def test_byte_order_mark_before_a_quoted_header() -> None:
    write("a.csv", b'\xef\xbb\xbf"text","label"\nfine,pos\n')
    assert read("a.csv") == [LabelledText("fine", "pos")]


@pytest.mark.parametrize("text", ["", "a\0b", "\u2028 and \x85 end no line", "  kept  ", "😀", "x" * 300_000])
def test_any_text_comes_back_as_it_was(text: str) -> None:
    write("a.jsonl", json.dumps({"text": text, "label": "pos"}) + "\n" + json.dumps({"text": text, "label": "neg"}, ensure_ascii=False))
    write("a.csv", f'text,label\n"{text}",pos\n{text},neg\n')
    write("folder/pos/1.txt", text)
    write("folder/neg/1.txt", text)
    assert read("a.jsonl") == read("a.csv") == read("folder")[::-1] == [LabelledText(text, "pos"), LabelledText(text, "neg")]


def test_labels_lose_white_space_and_blank_lines_are_skipped() -> None:
    write("a.csv", "text,label\n\nfine, pos \n\n")
    write("a.jsonl", '{"text": "fine", "label": " pos\\t"}\n')
    assert [*map(read, ("a.csv", "a.jsonl"))] == [[LabelledText("fine", "pos", spelling)] for spelling in (" pos ", " pos\t")]


@pytest.mark.parametrize(("spelt", "label"), [("1", "1"), ("-7", "-7"), ("true", "True"), ("false", "False"), ('"1"', "1")])
def test_json_labels_are_named_as_python_spells_them(spelt: str, label: str) -> None:
    write("a.jsonl", f'{{"text": "fine", "label": {spelt}}}')
    assert read("a.jsonl") == [LabelledText("fine", label)]


def test_half_a_surrogate_pair_is_replaced() -> None:
    write("a.jsonl", r'{"text": "cut \ud83d, whole \ud83d\ude00", "label": "pos"}')
    assert read("a.jsonl") == [LabelledText("cut \ufffd, whole 😀", "pos")]


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write("a.csv", "text,label\nfine,pos\n")
    write("folder/pos/1.txt", "fine")
    assert read("~/a.csv") == read("~/folder") == [LabelledText("fine", "pos")]
    assert error_of("~/b.csv").startswith("~/b.csv: no such file or folder")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.txt.gz"])
def test_any_table_by_name_or_by_number(name: str) -> None:
    write(name, "id;body;stars\n7;good, but slow;5\n")
    assert read(name, "body", "stars") == [LabelledText("good, but slow", "5")]
    write(name, "7\tgood; slow, too\t5\n8\tfine\t1\n")
    assert read(name, "2", "3") == [LabelledText("good; slow, too", "5"), LabelledText("fine", "1")]


@pytest.mark.parametrize("name", ["a.txt", "a.TXT.gz", "a.ft", "a.fasttext"])
@pytest.mark.parametrize("bom", ["", "\ufeff\n \n"])
def test_fasttext(name: str, bom: str) -> None:
    write(name, f"{bom}__label__pos fine, really\n__label__neg dull\n")
    assert read(name) == read(name, "2", "1") == read(name, "a", "b") == [LabelledText("fine, really", "pos"), LabelledText("dull", "neg")]


def test_parquet() -> None:
    docs = [{"body": "fine"}, {"body": "dull"}]
    table = pyarrow.table({"doc": docs, "stars": [5, 1], "whole": [5.0, 1.0], "half": [0.5, 1.0], "kind": ["a", None]})
    pyarrow.parquet.write_table(table, "a.parquet")
    assert read("a.parquet", "doc.body", "stars") == [LabelledText("fine", "5"), LabelledText("dull", "1")]
    assert read("a.parquet", "doc.body", "whole") == [LabelledText("fine", "5", "5.0"), LabelledText("dull", "1", "1.0")]
    hint = "give every text a class: a string, a whole number, true or false"
    assert error_of("a.parquet", "doc.body", "half") == f'a.parquet:1: the label "half" is the fraction 0.5; {hint}'
    assert (
        error_of("a.parquet", "doc.body", "kind")
        == 'a.parquet:2: the label "kind" is missing; give every text a class, or leave the row out'
    )
    assert error_of(write("b.parquet", "text,label\n")).startswith("b.parquet: not a Parquet file, or a damaged one: ")
    pyarrow.parquet.write_table(table.slice(0, 0), "c.parquet")
    assert error_of("c.parquet", "doc.body", "stars") == "c.parquet: the file is empty; write a text a row"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("__label__a b\nno label\n", "2: no label; begin the line with __label__ and the name of its class"),
        ("__label__a b\n__label__ text\n", "2: the label is empty; give every text a class, or leave the row out"),
        ("__label__a __label__b text\n", "1: 2 labels: a and b; give every text one class"),
    ],
)
def test_bad_fasttext_line(content: str, expected: str) -> None:
    assert error_of(write("a.txt", content)) == f"a.txt:{expected}"


# Several files


def test_files_and_patterns_one_after_another_in_formats_of_their_own() -> None:
    write("part-10.csv", "text,label\nfour,x\n")
    write("part-2.csv", "label;text\nx;three\n")
    write("first.jsonl", '{"text": "one", "label": "x"}\n')
    write("train/x/1.txt", "two")
    write("a[1].csv", "text,label\nfive,x\n")
    found = read_labelled(["first.jsonl", "train", "part-*.csv", "a[1].csv"], COLUMNS)
    places = [("first.jsonl", 1), ("train/x/1.txt", None), ("part-2.csv", 2), ("part-10.csv", 2), ("a[1].csv", 2)]
    assert [(placed.review.text, placed.file, placed.line) for placed in found] == [
        (text, *place) for text, place in zip(["one", "two", "three", "four", "five"], places, strict=True)
    ]
    source = FileTexts(FilesData.model_validate({"source": "files", "train": ["first.jsonl", "part-*.csv"], "test": "**/part-2.csv"}))
    assert source.name == "first.jsonl and 1 more"
    assert source.splits == ("train", "test")
    assert [len(list(source.read(split))) for split in source.splits] == [3, 1]


def test_the_file_at_fault_is_named_whichever_it_is() -> None:
    write("part-1.csv", "text,label\none,x\n")
    write("part-2.csv", "text,label\none,x\ntwo\n")
    with pytest.raises(MhaError, match=r"^part-2\.csv:3: 1 field where the header has 2; "):
        list(read_labelled(["part-*.csv"], COLUMNS))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("part-*.csv", "part-*.csv: no file matches; check the pattern; relative paths start at the current folder"),
        ("gone.csv", "gone.csv: no such file or folder; check the path; relative paths start at the current folder"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_read(pattern: str, expected: str) -> None:
    write("a.csv", "text,label\none,x\n")
    with pytest.raises(MhaError) as raised:
        read_labelled(["a.csv", pattern], COLUMNS)
    assert str(raised.value) == expected


# Folders


def test_folder_in_natural_order() -> None:
    for name in ["10_3", "2_9", "2_10", "a1", "02_9"]:
        write(f"train/pos/{name}.txt", name)
    write("train/neg/0_1.TXT", "neg")
    for ignored in ["train/unsup/0_0.txt", "train/.hidden/1.txt", "train/pos/.1.txt", "train/pos/notes.md", "train/labeledBow.feat"]:
        write(ignored, "ignored")
    expected = [LabelledText("neg", "neg"), *(LabelledText(name, "pos") for name in ["02_9", "2_9", "2_10", "10_3", "a1"])]
    assert read("train") == read("train/") == expected


def test_folder_names_with_thousands_of_digits_have_an_order() -> None:
    long = "9" * 200
    write(f"train/pos/1{long}.txt", "second")
    write(f"train/pos/{long}.txt", "first")
    assert [review.text for review in read("train")] == ["first", "second"]


def test_folder_symbolic_links_are_followed() -> None:
    write("elsewhere/1.txt", "fine")
    os.makedirs("train")
    os.symlink(os.path.abspath("elsewhere"), "train/pos")
    assert read("train") == [LabelledText("fine", "pos")]


def test_text_files_lose_a_byte_order_mark_and_nothing_else() -> None:
    write("train/pos/1.txt", b"\xef\xbb\xbfone\r\ntwo\n")
    assert read("train") == [LabelledText("one\r\ntwo\n", "pos")]


# As a stream


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz"])
def test_a_file_is_read_as_a_stream(name: str) -> None:
    line = f"{'word ' * 200},pos\n" if name == "a.csv" else json.dumps({"text": "word " * 200, "label": "pos"}) + "\n"
    write(name, "text,label\n" * (name == "a.csv") + line * 8000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_labelled_file(name, COLUMNS)) == 8000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2_000_000  # of 8 MB


def test_reviews_before_a_fault_are_read() -> None:
    write("a.csv", "text,label\nfine,pos\nbroken\n")
    assert list(islice(read_labelled_file("a.csv", COLUMNS), 1)) == [LocatedText(LabelledText("fine", "pos"), "a.csv", 2)]


# Paths


def test_missing() -> None:
    expected = "nowhere.csv: no such file or folder; check the path; relative paths start at the current folder"
    assert error_of("nowhere.csv") == expected


def test_a_missing_file_is_told_at_once() -> None:
    with pytest.raises(MhaError, match="no such file"):
        read_labelled_file("nowhere.csv", COLUMNS)


def test_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    write("a.csv", "text,label\nfine,pos\n")
    write("a.csv.gz", "text,label\nfine,pos\n")
    write("train/pos/1.txt", "fine")
    monkeypatch.setattr("builtins.open", denied)
    hint = "give the path of data that can be read"
    assert error_of("a.csv") == f"a.csv: Permission denied; {hint}"
    assert error_of("a.csv.gz") == f"a.csv.gz: Permission denied; {hint}"
    assert error_of("train") == f"train/pos/1.txt: Permission denied; {hint}"
    monkeypatch.setattr("os.scandir", denied)
    assert error_of("train") == f"train: Permission denied; {hint}"
    monkeypatch.setattr("os.stat", denied)
    assert error_of("a.csv") == f"a.csv: Permission denied; {hint}"


def test_a_path_that_no_file_can_have() -> None:
    assert error_of("a\0b.csv") == f"a\\x00b.csv: not a file name; {KINDS}"


def test_pipes_devices_and_sockets_are_refused() -> None:
    save = "save the texts in a file first; they are read more than once"
    os.mkfifo("pipe.csv")
    assert error_of("pipe.csv") == f"pipe.csv: a pipe, neither a file nor a folder; {save}"
    assert error_of("/dev/zero") == f"/dev/zero: a device, neither a file nor a folder; {save}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s.csv")
        assert error_of("s.csv") == f"s.csv: a socket, neither a file nor a folder; {save}"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.xlsx", "unknown extension .xlsx"),
        ("a.csv.zip", "unknown extension .zip"),
        ("a.gz", "no extension that tells its format"),
        ("reviews", "no extension that tells its format"),
        (".csv", "no extension that tells its format"),
        ("a.\x1b[2J", "unknown extension .\\x1b[2j"),
    ],
)
def test_unknown_extension(name: str, found: str) -> None:
    write(name, "text,label\nfine,pos\n")
    assert error_of(name).endswith(f": {found}; {KINDS}")


def test_control_characters_of_a_name_are_not_printed() -> None:
    assert error_of("a\x1b[2J.csv").startswith("a\\x1b[2J.csv: no such file")


# Bytes


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.json"])
@pytest.mark.parametrize("content", ["", "\ufeff", "\n\n"], ids=["nothing", "bom", "blank lines"])
def test_empty_file(name: str, content: str) -> None:
    write(name, content)
    hint = "write a header line (text,label) and a text a row" if "csv" in name else ONE_OBJECT
    assert error_of(name) == f"{name}: the file is empty; {hint}"


def test_not_utf8() -> None:
    write("a.csv", b'text,label\n"fine\nfilm",pos\ncaf\xe9,pos\n')
    assert error_of("a.csv") == f"a.csv:4: not UTF-8: byte 0xE9 at place 4 of the line; {FROM_WINDOWS}"
    write("a.jsonl", b'\xff{"text": "a"}')
    assert error_of("a.jsonl") == f"a.jsonl:1: not UTF-8: byte 0xFF at place 1 of the line; {FROM_WINDOWS}"
    write("train/pos/1.txt", b"one\ntwo\nth\x80ree")
    assert error_of("train") == f"train/pos/1.txt:3: not UTF-8: byte 0x80 at place 3 of the line; {FROM_WINDOWS}"


@pytest.mark.parametrize("encoding", ["utf-16", "windows-1252"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.txt", "a.jsonl", "train/pos/1.txt"])
def test_other_encodings(encoding: str, name: str) -> None:
    text = "café" if "train" in name else '{"text": "café", "label": "pos"}' if "jsonl" in name else "text,label\ncafé,pos\n"
    raw = text.encode(encoding)
    write(name, raw)
    read_as = Dialect("windows-1252")  # a byte-order mark is right whatever is asked for
    found = list(read_labelled_file("train" if "train" in name else name, COLUMNS, read_as))
    assert [placed.review for placed in found] == [LabelledText("café", "pos")]


def test_binary_files_are_refused() -> None:
    for name in ("a.csv", "a.jsonl", "a.xlsx", "a.txt", "train/pos/1.txt"):
        write(name, b"PK\x03\x04\n\0")
        kind = "a zip file, as are .xlsx, .docx and .keras, not texts; save a table as CSV in UTF-8, or unpack the archive"
        assert error_of("train" if "train" in name else name) == f"{name}: {kind}"


def test_gzip_data_is_known_by_its_first_bytes() -> None:
    write("a.csv", gzip.compress(b"text,label\nfine,pos\n"))
    write("train/pos/1.txt", gzip.compress(b"fine"))
    assert read("a.csv") == read("train") == [LabelledText("fine", "pos")]


def test_damaged_gzip() -> None:
    with open("a.csv.gz", "w") as file:
        file.write("text,label\nfine,pos\n")
    assert error_of("a.csv.gz") == "a.csv.gz: not a gzip file; compress it with gzip, or drop .gz from its name"
    whole = gzip.compress(b"text,label\n" + os.urandom(1000).hex().encode() + b",pos\n")
    for damaged in [whole[:-20], whole[:200] + b"\xff" * 50 + whole[250:]]:
        with open("b.csv.gz", "wb") as file:
            file.write(damaged)
        assert error_of("b.csv.gz").startswith("b.csv.gz: ")
    with open("b.csv.gz", "wb") as file:
        file.write(whole[:-20])
    assert error_of("b.csv.gz") == "b.csv.gz: the gzip data is cut short or damaged; copy or compress the file again"


def test_lines_and_texts_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (files, lines, rows_module):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 100)
    long = "x" * 101
    write("a.jsonl", '{"text": "", "label": 1}\n' + long)
    assert error_of("a.jsonl") == "a.jsonl:2: a line longer than 100 bytes; write one text a line"
    write("a.csv", "text,label\n" + '"' + "x\n" * 200)
    assert error_of("a.csv") == "a.csv:2: a row longer than 100 characters; look for a quote that is not closed"
    write("train/pos/1.txt", long)
    assert error_of("train") == "train/pos/1.txt: longer than 100 bytes; write one text a file"


# CSV and TSV


def test_no_header() -> None:
    write("a.csv", "a great film,pos\nno,neg\n")
    expected = (
        'a.csv:1: the first line names neither "text" nor "label", but a great film, pos; '
        "set data.text_column and data.label_column, or add a header line (text,label)"
    )
    assert error_of("a.csv") == expected


def test_a_header_and_nothing_else() -> None:
    write("a.csv", "text,label\n\n")
    assert error_of("a.csv") == "a.csv: a header but no texts; write a text a row below it"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Text,label", '1: no column "text" among Text, label; did you mean Text? (see data.text_column)'),
        ("text,labels,id", '1: no column "label" among text, labels, id; did you mean labels? (see data.label_column)'),
        ("Text,Label", '1: no column "text" among Text, Label; did you mean Text? (see data.text_column)'),
        ("sentence,label", '1: no column "text" among sentence, label; set data.text_column'),
        ("\n\ntext", '3: no column "label" among text; set data.label_column'),
        ("text,\x1b[2J", '1: no column "label" among text, \\x1b[2J; set data.label_column'),
        ("text;lable", '1: no column "label" among text, lable; did you mean lable? (see data.label_column)'),
        ('"the text, in full"', '1: no column "text" among the text, in full; set data.text_column'),
        ("sep=;\ntext", '2: no column "label" among text; set data.label_column'),
        (
            "a\tb",
            '1: the first line names neither "text" nor "label", but a, b; set data.text_column and data.label_column, '
            "or add a header line (text,label)",
        ),
        ("text,text,label", '1: the column "text" stands 2 times; rename all but one of them'),
        (
            "text," + ",".join(map(str, range(30))),
            f'1: no column "label" among text, {", ".join(map(str, range(19)))} and 11 more; set data.label_column',
        ),
    ],
)
def test_missing_column(header: str, expected: str) -> None:
    write("a.csv", f"{header}\nfine,pos\n")
    assert error_of("a.csv") == f"a.csv:{expected}"


@pytest.mark.parametrize(
    ("name", "rows", "expected"),
    [
        (
            "a.csv",
            '"one\ntwo",pos\ngood, not bad,pos',
            "4: 3 fields where the header has 2; put a text that holds a comma in double quotes",
        ),
        ("a.csv", "fine", "2: 1 field where the header has 2; put a text that holds a comma in double quotes"),
        ("a.csv", '"a\nb\nc",1,2\nd,3', "2: 3 fields where the header has 2; put a text that holds a comma in double quotes"),
        ("a.tsv", "a\tb\tc", "2: 3 fields where the header has 2; put a text that holds a tab in double quotes"),
        (
            "a.csv",
            'x,1\n"no end,pos\nb,neg',
            "3: a quote in this row is never closed; close it, or read the table with data.quoting=false; "
            'a quote inside a quoted text is written twice: ""',
        ),
        (
            "a.csv",
            'x,1\n"a"b,pos',
            "3: ',' expected after '\"'; separate the columns with commas, and quote the whole field; "
            'a quote inside a quoted text is written twice: ""',
        ),
        ("a.csv", "a\rb,pos", "2: a carriage return inside a field; save it with LF or CRLF line ends, or quote the field"),
        ("a.csv", "x,1\nfine, ", "3: the label is empty; give every text a class, or leave the row out"),
    ],
)
def test_bad_row(name: str, rows: str, expected: str) -> None:
    write(name, "text,label\n".replace(",", "\t" if name == "a.tsv" else ",") + rows + "\n")
    assert error_of(name) == f"{name}:{expected}"


# JSON lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"text": "a"', f"not JSON: Expecting ',' delimiter at place 13; {ONE_OBJECT}"),
        ("[1", f"not JSON: Expecting ',' delimiter at place 3; {ONE_OBJECT}"),
        ("[{", f"JSON that goes on over further lines; {ONE_OBJECT}; jq -c '.[]' writes it so"),
        ('[{"text": "a"}]', f"a list where a JSON object belongs; {ONE_OBJECT}; jq -c '.[]' writes it so"),
        ("null", f"null where a JSON object belongs; {ONE_OBJECT}"),
        ("3", f"the value 3 where a JSON object belongs; {ONE_OBJECT}"),
        ('"\\u001b[2J"', f'the string "\\x1b[2J" where a JSON object belongs; {ONE_OBJECT}'),
        ("{}", 'no column "text" among none; set data.text_column'),
        ('{"texts": "a", "label": 1}', 'no column "text" among texts, label; did you mean texts? (see data.text_column)'),
        ('{"text": "a", "stars": 1}', 'no column "label" among text, stars; set data.label_column'),
        ('{"text": null, "label": 1}', 'the text "text" is null; write every text as a string'),
        ('{"text": 3, "label": 1}', 'the text "text" is the value 3; write every text as a string'),
        ('{"text": {}, "label": 1}', 'the text "text" is an object; write every text as a string'),
        ('{"text": "a", "label": ""}', "the label is empty; give every text a class, or leave the row out"),
        ('{"text": "a", "label": " \\n"}', "the label is empty; give every text a class, or leave the row out"),
        ('{"text": "a", "label": null}', 'the label "label" is missing; give every text a class, or leave the row out'),
    ],
)
def test_bad_json_line(line: str, expected: str) -> None:
    write("a.jsonl", f'{{"text": "fine", "label": "pos"}}\n\n{line}\n')
    assert error_of("a.jsonl") == f"a.jsonl:3: {expected}"


@pytest.mark.parametrize("line", ["[" * 200_000, '{"text": "a", "label": ' + "1" * 5000 + "}"], ids=["brackets", "digits"])
def test_json_without_end(line: str) -> None:
    write("a.jsonl", line)
    assert error_of("a.jsonl") == f"a.jsonl:1: JSON with a number too long or brackets too deep; {ONE_OBJECT}"


# Folders at fault


def test_folder_without_classes() -> None:
    write("train/1.txt", "fine")
    write("train/unsup/1.txt", "fine")
    write("train/.git/1.txt", "fine")
    assert error_of("train") == "train: no sub-folders; give a folder with one sub-folder a class, each holding .txt files"


def test_class_folder_without_texts_is_told_before_any_review() -> None:
    write("train/neg/1.txt", "fine")
    write("train/pos/1.md", "fine")
    reviews = read_labelled_file("train", COLUMNS)
    with pytest.raises(MhaError) as raised:
        next(reviews)
    assert str(raised.value) == "train/pos: no .txt files; put the texts of the class there, one a .txt file, or remove the folder"


def test_the_folder_above_the_classes() -> None:
    for split in ["train", "test"]:
        for label in ["pos", "neg"]:
            write(f"aclImdb/{split}/{label}/1.txt", "fine")
    expected = "aclImdb/test: no .txt files, only the sub-folders neg, pos; perhaps aclImdb/test is the folder to give"
    assert error_of("aclImdb") == expected


def test_a_review_that_is_no_file() -> None:
    os.makedirs("train/pos/1.txt")
    assert error_of("train") == "train/pos/1.txt: a folder where a text belongs; rename it, or move it away"
    os.rmdir("train/pos/1.txt")
    os.mkfifo("train/pos/1.txt")
    assert error_of("train").startswith("train/pos/1.txt: a pipe, neither a file nor a folder")
    os.remove("train/pos/1.txt")
    os.symlink("gone", "train/pos/1.txt")
    assert error_of("train").startswith("train/pos/1.txt: no such file or folder")


def test_a_class_folder_with_a_blank_name() -> None:
    write("train/ /1.txt", "fine")
    assert error_of("train") == "train/ : the label is empty; give every text a class, or leave the row out"


# FileTexts


def test_file_reviews_with_train_and_test() -> None:
    write("train.csv", "body,stars\nfine,5\n")
    write("test.jsonl", '{"body": "dull", "stars": 1}')
    source = FileTexts(
        FilesData.model_validate(
            {"source": "files", "train": "train.csv", "test": "test.jsonl", "text_column": "body", "label_column": "stars"}
        )
    )
    assert source.name == "train.csv"
    assert source.splits == ("train", "test")
    assert source.class_names is None
    assert [*source.read("train"), *source.read("test")] == [LabelledText("fine", "5"), LabelledText("dull", "1")]
    assert list(source.read("train")) == list(source.read("train"))


def test_file_reviews_without_test() -> None:
    source = FileTexts(FilesData.model_validate({"source": "files", "train": "train.csv"}))
    assert source.splits == ("train",)
    with pytest.raises(MhaError) as raised:
        source.read("test")
    assert str(raised.value) == "the config names no test data; give --data FILE, or train again with --set data.test_share=0.2"


def test_file_reviews_unknown_split() -> None:
    source = FileTexts(FilesData.model_validate({"source": "files", "train": "train.csv", "test": "test.csv"}))
    for split, hint in [("tset", "did you mean test?"), ("dev\x1b", "choose from test, train")]:
        with pytest.raises(MhaError) as raised:
            source.read(split)
        shown = split.replace("\x1b", "\\x1b")
        assert str(raised.value) == f'no split "{shown}" in train.csv; {hint}'


# Texts without labels


@pytest.mark.parametrize("name", ["texts.txt", "texts.txt.gz", "texts"])
def test_unlabelled_texts_are_lines(name: str) -> None:
    write(name, "one film\n\n  another, \twith café  \r\n \t\nlast without a line feed")
    assert list(read_text_lines(name)) == ["one film", "another, \twith café", "last without a line feed"]


def test_unlabelled_texts_of_a_source() -> None:
    write("train.csv", "text,label\nfine,pos\n")
    write("more.txt", "one\ntwo\n")
    given = {"source": "files", "train": "train.csv"}
    texts = FileTexts(FilesData.model_validate({**given, "unlabelled": "more.txt"})).unlabelled()
    assert texts is not None
    assert list(texts) == ["one", "two"]
    assert FileTexts(FilesData.model_validate(given)).unlabelled() is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda name: None])
def test_unlabelled_texts_that_are_no_file_are_told_before_any_is_read(make: Callable[[str], object]) -> None:
    make("more.txt")
    expected = {
        os.mkdir: "more.txt: is a folder; give a text file, a text a line",
        os.mkfifo: "more.txt: a pipe, neither a file nor a folder; save the texts in a file first; they are read more than once",
    }.get(make, "more.txt: no such file or folder; check the path; relative paths start at the current folder")
    with pytest.raises(MhaError) as raised:
        read_text_lines("more.txt")
    assert str(raised.value) == expected
    assert raised.value.exit_code == EXIT_USAGE


def test_unlabelled_texts_that_cannot_be_read() -> None:
    with pytest.raises(MhaError, match=r"^empty\.txt: no text in it; write a text a line$"):
        list(read_text_lines(write("empty.txt", " \n\n")))
    with pytest.raises(MhaError, match=r"^bad\.txt:2: not UTF-8: byte 0xE9 at place 4 of the line"):
        list(read_text_lines(write("bad.txt", b"fine\ncaf\xe9\n")))


def test_reading_files_needs_no_tensorflow() -> None:
    code = "import sys, mha_cli.data.files as f; print(sorted(m for m in sys.modules if m.startswith(('tensorflow', 'keras', 'numpy'))))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.path.dirname(files.__file__) + "/../.."
    )
    assert done.stdout.strip() == "[]"


# Anything at all

words = [
    b"text",
    b"label",
    b"1",
    b" ",
    b",",
    b"\t",
    b'"',
    b"\n",
    b"\r",
    b"{",
    b"}",
    b":",
    b"[",
    b"\xff",
    b"\0",
    b"\\ud800",
    b"\xef\xbb\xbf",
]
any_bytes = st.binary(max_size=60) | st.lists(st.sampled_from(words), max_size=40).map(b"".join)
rows = st.sampled_from([b"text,label\n", b"text\tlabel\n", b'{"text": "a", "label": 1}\n', b""])


@given(st.sampled_from(["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.csv.gz", "a.jsonl.gz"]), rows, any_bytes, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the folder may be the same
def test_any_file_is_read_or_refused_in_one_line(name: str, first: bytes, rest: bytes, compressed: bool) -> None:
    content = gzip.compress(first + rest) if compressed and name.endswith(".gz") else first + rest
    with open(name, "wb") as file:
        file.write(content)
    try:
        reviews = read(name)
    except MhaError as error:
        assert str(error).startswith(name)
        assert str(error).isprintable()
    else:
        assert all(isinstance(review.text, str) and review.label for review in reviews)
        for review in reviews:
            review.text.encode()  # no lone surrogates
