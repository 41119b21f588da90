"""Warnings about streams."""

import pytest

from mha_cli.records.reader import Reading, StreamWarnings, shown_warnings
from mha_cli.records.readers import Format, read_records
from mha_cli.records.record import Columns, Record


def warnings_of(data: bytes, text_column: str = "text", guessed: bool = True, form: Format = "lines") -> list[str]:
    """Warnings about a stream whose broken records are left out."""
    warnings = StreamWarnings(guessed)
    reading = Reading("x", Columns(text_column), warnings=warnings, on_fault=lambda fault, line: Record("", b"", line=line))
    list(read_records(form, [data], reading))
    return warnings.lines


@pytest.mark.parametrize(
    ("data", "look", "form"),
    [
        (b"__label__pos A fine film\n", "begins with __label__", "fasttext"),
        (b"text\tlabel\r\nA fine film\tpos\r\n", "names columns (text, label)", "tsv"),
        (b'"id","review","Stars"\n1,2,3\n', "names columns (id, review, Stars)", "csv"),
        ("Catégorie;Avis\n".encode(), "names columns (Catégorie, Avis)", "csv"),
        (b'{"text": "A fine film"}\n', "is a JSON object", "jsonl"),
    ],
)
def test_plain_lines_that_look_like_another_format(data: bytes, look: str, form: str) -> None:
    assert warnings_of(data) == [
        f"x: read as plain lines, though the first {look}; add --format {form}, or --format lines if that is right"
    ]
    assert warnings_of(data, guessed=False) == []
    assert (warnings_of(b"id,said\n"), len(warnings_of(b"id,said\n", "said"))) == ([], 1)  # as the text column is called


def test_texts_without_a_warning() -> None:
    for data in (b"", b"\n", b"text\n", b"Great cast, awful script.\n", b"A text, a label\n", b"{a} film\n", b"Fine\n__label__x\n"):
        assert warnings_of(data) == []


def test_lines_that_are_not_utf_8_are_counted() -> None:
    first = "not UTF-8: byte 0xE9 at position 4 of the line"
    end = "such bytes are read as U+FFFD; save it as UTF-8, or if it is from Windows, read it with --encoding windows-1252"
    assert warnings_of("déjà\n".encode()) == []
    assert warnings_of(b"caf\xe9\n") == [f"x:1: {first}; {end}"]
    assert warnings_of(b"fine\ncaf\xe9\nd\xe9j\xe0\n\xff") == [f"x:2: {first}, the first of 3 such lines; {end}"]


def test_a_line_that_is_read_again_behind_a_broken_row_counts_once() -> None:
    assert ", the first of 2 such lines;" in warnings_of(b'text\n"open\ncaf\xe9\n\xe9\n', form="csv")[0]


def test_many_warnings_are_counted() -> None:
    assert shown_warnings(["a", "b"]) == ["a", "b"]
    assert shown_warnings(["a"] * 1010) == ["a"] * 10 + ["and 1,000 more warnings"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'label,text\nbad,"dull lamp\n\ngood,it was 5"\nbad,cold\n', "x:2: a quoted field holds a line that would be a row"),
        (b'text;label\n"dull;bad\nlate;bad\n', ""),
        (b'text;label\n"dull;bad\nlate";bad\n', "x:2: a quoted field holds a line that would be a row"),
        (b'label,text\nbad,"dull, late\nand bad, too"\n', ""),  # prose
        (b'text\n"dull\nlate"\n', ""),
        (b'text,label\n"dull, late",bad\n"a,1\nb,2\nc",bad\nx,"good"\n', ""),  # without quotes, two rows would break for two that are found
    ],
)
def test_rows_that_an_open_quote_swallows(data: bytes, said: str) -> None:
    assert warnings_of(data, form="csv") == ([f"{said} without the quote; --no-quoting reads every line as a row"] if said else [])
