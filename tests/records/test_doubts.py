"""What is odd about a stream, and said of it."""

from __future__ import annotations

import pytest

from mha_cli.records.doubts import Doubts, shown_doubts
from mha_cli.records.readers import READERS
from mha_cli.records.record import Columns, Record


def doubts_of(data: bytes, text_column: str = "text", guessed: bool = True) -> list[str]:
    """What is said of plain lines."""
    doubts = Doubts("x", text_column, guessed)
    list(READERS["lines"]("x", Columns(text_column), doubts.count_not_utf_8, on_plain=doubts.begin_plain).read([data]))
    return doubts.lines


@pytest.mark.parametrize(
    ("data", "look", "form"),
    [
        (b"__label__pos A fine film\n", "begins with __label__", "fasttext"),
        (b"\xef\xbb\xbf __label__pos A fine film", "begins with __label__", "fasttext"),
        (b"text\tlabel\r\nA fine film\tpos\r\n", "names columns (text, label)", "tsv"),
        (b'"id","review","Stars"\n1,2,3\n', "names columns (id, review, Stars)", "csv"),
        ("Catégorie;Avis\n".encode(), "names columns (Catégorie, Avis)", "csv"),
        (b"id;text\n", "names columns (id, text)", "csv"),
        (b'{"text": "A fine film"}\n', "is a JSON object", "jsonl"),
    ],
)
def test_plain_lines_that_look_like_another_format(data: bytes, look: str, form: str) -> None:
    assert doubts_of(data) == [f"x: read as plain lines, though the first {look}; add --format {form}, or --format lines if that is right"]
    assert doubts_of(data, guessed=False) == []


def test_the_column_of_the_text_makes_a_header() -> None:
    assert doubts_of(b"id,said\n") == []
    assert len(doubts_of(b"id,said\n", "said")) == 1


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"text\n", b"Great cast, awful script.\n", b"A text, a label\n", b"{a} film\n", b"Fine\n__label__x\n"]
)
def test_texts_are_not_doubted(data: bytes) -> None:
    assert doubts_of(data) == []


def test_lines_that_are_not_utf_8_are_counted() -> None:
    first = "not UTF-8: byte 0xE9 at place 4 of the line"
    end = "such bytes are read as U+FFFD; save it as UTF-8, for example with iconv -f latin1 -t utf-8"
    assert doubts_of("déjà\n".encode()) == []
    assert doubts_of(b"caf\xe9\n") == [f"x:1: {first}; {end}"]
    assert doubts_of(b"fine\ncaf\xe9\nd\xe9j\xe0\n\xff") == [f"x:2: {first}, the first of 3 such lines; {end}"]


def test_a_line_that_is_read_again_behind_a_broken_row_counts_once() -> None:
    doubts = Doubts("x", "text", guessed=False)
    reader = READERS["csv"]("x", Columns(), doubts.count_not_utf_8, on_fault=lambda fault, line: Record("", b"", line=line))
    assert [record.line for record in reader.read([b'text\n"open\ncaf\xe9\n\xe9\n'])] == [2, 3, 4]
    assert ", the first of 2 such lines;" in doubts.lines[0]


def test_many_doubts_are_counted() -> None:
    assert shown_doubts(["a", "b"]) == ["a", "b"]
    assert shown_doubts(["a"] * 1010) == ["a"] * 10 + ["and 1,000 more such notes"]
