import gzip
import json
import os
import socket
from pathlib import Path

import pyarrow.parquet
import pytest

from mha_cli.config.settings import FilesData
from mha_cli.errors import JOINT
from mha_cli.records.reader import Dialect
from mha_cli.sources import files
from mha_cli.sources.files import FileTexts, labelled_columns, read_labelled, read_texts
from mha_cli.sources.labelled_text import LabelledText
from tests.errors import error_of
from tests.limits import traced_peak

KINDS = "give a .csv, .tsv, .txt, .jsonl, .json, .ft, .parquet, .xlsx or .ods file, or with .gz, or a folder with one sub-folder per class"
COLUMNS = labelled_columns()
FROM_WINDOWS = "save it as UTF-8, or if it is from Windows, read it with data.encoding=windows-1252"


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def write(path: str, content: str | bytes) -> str:
    raw = content.encode("utf-8") if isinstance(content, str) else content
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(gzip.compress(raw) if path.endswith(".gz") else raw)
    return path


def read(path: str, text_column: str = "text", label_column: str = "label") -> list[LabelledText]:
    return [LabelledText(*one[:2]) for one in read_labelled([path], labelled_columns(text_column, label_column))]


def test_columns_are_found_by_name_and_the_others_are_skipped() -> None:
    write("a.csv", "id, stars ,body,x\n7,5,fine,\n")
    write("a.jsonl", '{"id": 7, "stars": 5, "body": "fine"}')
    source = FileTexts(FilesData(source="files", train=["a.csv", "a.jsonl"], text_column="body", label_column="stars"))
    assert [one[:2] for one in source.read("train")] == [("fine", "5")] * 2


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_weights_of_the_training_texts(name: str) -> None:
    rows = [("one", "x", "2"), ("none", "x", "0"), ("half", "y", "0.5"), ("whole", "y", "1")]
    if name == "a.csv":
        write(name, "text,label,times\n" + "".join(f"{','.join(row)}\n" for row in rows))
    elif name == "a.jsonl":
        write(name, "".join(json.dumps({"text": text, "label": label, "times": float(times)}) + "\n" for text, label, times in rows))
    else:
        texts, labels, times = zip(*rows, strict=True)
        pyarrow.parquet.write_table(pyarrow.table({"text": texts, "label": labels, "times": [*map(float, times)]}), name)
    write("test.csv", "text,label\na,x\n")
    source = FileTexts(FilesData(source="files", train=name, test="test.csv", weight_column="times"))
    assert [(one.text, one.weight) for one in source.read("train")] == [("one", 2.0), ("half", 0.5), ("whole", 1.0)]
    assert [(one.text, one.weight) for one in source.read("test")] == [("a", 1.0)]


def test_a_text_of_weight_zero_may_be_tested_on() -> None:
    write("a.csv", "text,label,times\n" + "".join(f"text {number},{number % 2},{number % 3}\n" for number in range(60)))
    held_out = FileTexts(FilesData(source="files", train="a.csv", test_share=0.25, weight_column="times"))
    train, test = ([int(one.text.split()[1]) for one in held_out.read(split)] for split in ("train", "test"))
    assert sorted(train + [number for number in test if number % 3]) == [number for number in range(60) if number % 3]
    assert any(number % 3 == 0 for number in test)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("a.csv", "text,label,w\na,x,1\nb,y,-1\n", """a.csv:3: the weight "w" is '-1'"""),
        ("a.csv", "text,label,w\na,x,1_0\n", """a.csv:2: the weight "w" is '1_0'"""),
        ("a.csv", "text,label,w\na,x,\n", """a.csv:2: the weight "w" is ''"""),
        ("a.jsonl", '{"text": "a", "label": "x", "w": null}', """a.jsonl:1: the weight "w" is None"""),
        ("a.csv", "text,label,w\na,x,1e-50\n", """a.csv:2: the weight "w" is '1e-50'; give numbers from 1e-9 to 1e9, or 0"""),
        ("a.csv", "text,label,w\na,x,0\nb,y,0\n", "a.csv: no text has a weight above 0"),
        ("a.csv", "text,label\na,x\n", 'a.csv:1: no column "w" among text, label; set data.weight_column'),
        ("a.ft", "__label__x a\n", "a.ft: has no columns, so no weights"),
    ],
)
def test_weights_that_are_none(path: str, content: str, message: str) -> None:
    write(path, content)
    source = FileTexts(FilesData(source="files", train=path.partition("/")[0], weight_column="w"))
    assert error_of(lambda: [*source.read("train")]).startswith(message)


@pytest.mark.parametrize("text", ["a\0b in a text of some words", "\u2028 and \x85 end no line", "  kept  ", "x" * 300_000])
def test_any_text_of_a_folder_in_the_home_folder_comes_back_as_it_was(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write("folder/pos/1.txt", text)
    write("a.csv", f"text,label\n\n{text},pos\n\n")
    assert read("~/folder") == read("~/a.csv") == [LabelledText(text, "pos")]


@pytest.mark.parametrize("name", ["a.txt", "a.TXT.gz", "a.ft", "a.fasttext"])
def test_fasttext(name: str) -> None:
    write(name, "\ufeff\n \n__label__pos fine, really\n__label__neg dull\n")
    assert read(name) == read(name, "2", "1") == read(name, "a", "b") == [LabelledText("fine, really", "pos"), LabelledText("dull", "neg")]


def test_files_and_patterns_one_after_another_in_formats_of_their_own() -> None:
    write("part-10.csv", "text,label\nfour,x\n")
    write("part-2.csv", "label;text\nx;three\n")
    write("first.jsonl", '{"text": "one", "label": "x"}\n')
    write("train/x/1.txt", "two")
    write("a[1].csv", "text,label\nfive,x\n")
    found = read_labelled(["first.jsonl", "train", "part-*.csv", "a[1].csv"], COLUMNS)
    places = [("first.jsonl", 1), ("train/x/1.txt", None), ("part-2.csv", 2), ("part-10.csv", 2), ("a[1].csv", 2)]
    assert [(one.text, one.file, one.line) for one in found] == [
        (text, *place) for text, place in zip(["one", "two", "three", "four", "five"], places, strict=True)
    ]
    source = FileTexts(FilesData(source="files", train=["first.jsonl", "part-*.csv"], test="**/part-2.csv"))
    assert (source.name, source.splits, source.class_names) == ("first.jsonl and 1 more", ("train", "test"), None)
    assert [len(list(source.read(split))) for split in source.splits] == [3, 1]
    assert list(source.read("train")) == list(source.read("train"))
    assert error_of(read_labelled, ["first.jsonl", "gone.csv"], COLUMNS).startswith("gone.csv: no such file or folder; ")


def test_folder_in_natural_order() -> None:
    long = "9" * 200
    for name in ["10_3", "2_9", "2_10", "a1", "02_9", f"1{long}", long]:
        write(f"elsewhere/{name}.txt", name)
    write("train/neg/0_1.TXT", "neg")
    os.symlink(os.path.abspath("elsewhere"), "train/pos")
    for ignored in ["train/unsup/0_0.txt", "train/.hidden/1.txt", "train/pos/.1.txt", "train/pos/notes.md", "train/labeledBow.feat"]:
        write(ignored, "ignored")
    names = ["02_9", "2_9", "2_10", "10_3", long, f"1{long}", "a1"]
    assert read("train") == read("train/") == [LabelledText("neg", "neg"), *(LabelledText(name, "pos") for name in names)]


def test_text_files_lose_a_byte_order_mark_and_may_be_packed() -> None:
    write("train/pos/1.txt", b"\xef\xbb\xbfone\r\ntwo\n")
    write("train/pos/2.txt", gzip.compress(b"fine"))
    assert read("train") == [LabelledText("one\r\ntwo\n", "pos"), LabelledText("fine", "pos")]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl.gz"])
def test_a_file_is_read_as_a_stream(name: str) -> None:
    text = "word " * 2000
    line = f"{text},pos\n" if name == "a.csv" else json.dumps({"text": text, "label": "pos"}) + "\n"
    write(name, "text,label\n" * (name == "a.csv") + line * 800)
    numbers = list[int]()
    assert traced_peak(lambda: numbers.append(sum(1 for _ in read_labelled([name], COLUMNS)))) < 2_000_000  # of 8 MB
    assert numbers == [800]


def test_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    write("train/pos/1.txt", "fine")
    monkeypatch.setattr("os.open", denied)
    assert error_of(read, "train") == "train/pos/1.txt: cannot be read: Permission denied; give the path of data that can be read"
    monkeypatch.setattr("os.scandir", denied)
    assert error_of(read, "train") == "train: Permission denied; give the path of data that can be read"


def test_what_is_no_file_is_refused() -> None:
    assert error_of(read, "a\0b.csv") == "a\\x00b.csv: not a file name; give the path of data that can be read"
    save = "save the texts in a file first; they are read more than once"
    os.mkfifo("pipe.csv")
    assert error_of(read, "pipe.csv") == f"pipe.csv: a pipe, neither a file nor a folder; {save}"
    assert error_of(read, "/dev/zero") == f"/dev/zero: a device, neither a file nor a folder; {save}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s.csv")
        assert error_of(read, "s.csv") == f"s.csv: a socket, neither a file nor a folder; {save}"


ZIP = "a zip file, as are .xlsx, .docx and .keras, not texts; name a workbook .xlsx or .ods, or unpack the archive"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.\x1b[2J", b"text,label\n", f"a.\\x1b[2J: unknown extension .\\x1b[2j; {KINDS}"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "a.csv.gz: the file is empty; write a header line (text,label) and one text per row"),
        ("train/pos/1.txt", b"one\nth\x80ree", f"train/pos/1.txt:2: not UTF-8: byte 0x80 at position 3 of the line; {FROM_WINDOWS}"),
        ("train/pos/1.txt", b"x" * 10_001, "train/pos/1.txt: longer than 10,000 bytes; write one text per file"),
        ("a.csv.gz", b"PK\x03\x04\n\0", "a.csv.gz: not a gzip file; compress it with gzip, or drop .gz from its name"),
        *((name, b"PK\x03\x04\n\0", f"{name}: {ZIP}") for name in ("a.csv", "a.docx", "train/pos/1.txt")),
    ],
)
def test_files_at_fault(name: str, content: bytes, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 10_000)
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert error_of(read, "train" if name.startswith("train") else name) == expected


def test_other_encodings() -> None:
    write("a.jsonl", '{"text": "café", "label": "pos"}'.encode("windows-1252"))
    write("train/pos/1.txt", "café".encode("utf-16"))  # its byte-order mark is right whatever is asked for
    found = read_labelled(["a.jsonl", "train"], COLUMNS, Dialect("windows-1252"))
    assert [one[:2] for one in found] == [("café", "pos")] * 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1.txt", "unsup/1.txt", ".git/1.txt"], ": no sub-folders; give a folder with one sub-folder per class, each holding .txt files"),
        (["neg/1.txt", "pos/1.md"], "/pos: no .txt files; put the texts of the class there, one per .txt file, or remove the folder"),
        (
            ["test/neg/1.txt", "test/pos/1.txt", "train/neg/1.txt"],
            "/test: no .txt files, only the sub-folders neg, pos; perhaps train/test is the folder to give",
        ),
        ([" /1.txt"], "/ : the label is empty; give every text a class, or leave the row out"),
    ],
)
def test_folders_at_fault_are_refused_before_any_text_is_read(names: list[str], expected: str) -> None:
    for name in names:
        write(f"train/{name}", "fine")
    assert error_of(next, read_labelled(["train"], COLUMNS)) == f"train{expected}"


def test_a_review_that_is_no_file() -> None:
    os.makedirs("train/pos/1.txt")
    assert error_of(read, "train") == "train/pos/1.txt: a folder where a text belongs; rename it, or move it away"
    os.rmdir("train/pos/1.txt")
    os.mkfifo("train/pos/1.txt")
    assert error_of(read, "train").startswith("train/pos/1.txt: a pipe, neither a file nor a folder")
    os.remove("train/pos/1.txt")
    os.symlink("gone", "train/pos/1.txt")
    assert error_of(read, "train").startswith("train/pos/1.txt: no such file or folder")


@pytest.mark.parametrize("name", ["texts.txt.gz", "texts"])
def test_unlabelled_texts_are_lines(name: str) -> None:
    write(name, "one film\n\n  another, \twith café  \r\n \t\nlast without a line feed")
    texts = FileTexts(FilesData(source="files", train="train.csv", unlabelled=name)).unlabelled()
    assert list(texts or ()) == ["one film", "another, \twith café", "last without a line feed"]
    assert FileTexts(FilesData(source="files", train="train.csv")).unlabelled() is None


def test_unlabelled_texts_that_cannot_be_read() -> None:
    os.mkdir("folder")
    os.mkfifo("pipe")
    for name, expected in (("folder", "is a folder; give a file of texts"), ("pipe", "a pipe, neither a file"), ("gone", "no such file")):
        assert error_of(read_texts, name).startswith(f"{name}: {expected}")
    write("bad.txt", b"fine\ncaf\xe9\n")
    assert error_of(list, read_texts("bad.txt")).startswith("bad.txt:2: not UTF-8: byte 0xE9 at position 4 of the line")
    write("empty.txt", " \n\n")
    assert error_of(list, read_texts("empty.txt")) == "empty.txt: no text in it; write one text per line"


def test_levels_in_columns_need_columns() -> None:
    write("a.ft", "__label__a a film\n__label__b the film\n")
    source = FileTexts(FilesData(source="files", train="a.ft", label_column=JOINT.join(("area", "team")), label_levels=">"))
    hint = "set data.label_column=null, or give a table or JSON lines"
    assert error_of(lambda: list(source.read("train"))) == f"a.ft: has no columns, so no label in each; {hint}"


def test_an_empty_cell_ends_a_label_in_levels() -> None:
    write("a.csv", "text,area,team,desk\na,hardware,,left\nb,hardware,printer,\nc,,printer,\n")
    labels = JOINT.join(("area", "team", "desk"))
    texts = FileTexts(FilesData(source="files", train="a.csv", text_column="text", label_column=labels, label_levels=">")).read("train")
    assert [next(texts).label, next(texts).label] == ["hardware", "hardware > printer"]
    assert error_of(lambda: next(texts)) == "a.csv:4: the label is empty; give every text a class, or leave the row out"


def test_labels_with_the_same_levels_are_one() -> None:
    write("a.csv", "text,label\na,/x/y\nb,x / y\nc,x//y/\nd,x\n")
    source = FileTexts(FilesData(source="files", train="a.csv", text_column="text", label_column="label", label_levels="/"))
    assert [text.label for text in source.read("train")] == ["/x/y", "/x/y", "/x/y", "x"]
    write("b.csv", "text,label\na,x\nb, / \n")
    source = FileTexts(FilesData(source="files", train="b.csv", text_column="text", label_column="label", label_levels="/"))
    assert error_of(lambda: list(source.read("train"))) == "b.csv:3: the label is empty; give every text a class, or leave the row out"
