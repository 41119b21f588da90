"""Streams that take few characters, and sizes that no terminal has."""

import io
import json
import os
import sys

import pytest

from mha_cli.cli.console import print_json
from mha_cli.cli.terminal import forget_odd_sizes, prepare_streams


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", b" .+#@ 2 x 3 - 4 +- 5 ... \\xe9 \\u6620 \\udc80"),
        ("latin-1", b" .+#@ 2 \xd7 3 - 4 \xb1 5 ... \xe9 \\u6620 \\udc80"),
        ("utf-8", " ░▒▓█ 2 × 3 – 4 ± 5 … é 映 ".encode() + rb"\udc80"),
    ],
)
def test_a_stream_takes_any_text(encoding: str, shown: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    prepare_streams()
    print(" ░▒▓█ 2 × 3 – 4 ± 5 … é 映 \udc80", end="", flush=True)
    assert raw.getvalue() == shown


@pytest.mark.parametrize(("encoding", "written"), [("utf-8", "Rückgabe 😀"), ("latin-1", r"R\u00fcckgabe \ud83d\ude00")])
def test_json_is_valid_in_every_encoding(encoding: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    prepare_streams()
    print_json({"class": "Rückgabe 😀"})
    sys.stdout.flush()
    shown = raw.getvalue().decode(encoding)
    assert written in shown
    assert json.loads(shown) == {"class": "Rückgabe 😀"}


@pytest.mark.parametrize("name", ["COLUMNS", "LINES", "TERMINAL_WIDTH"])
def test_sizes_that_no_terminal_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in ("0", "007", "-1", "²", "12345", "9" * 20, "abc", "", "80 ", "1", "80", "9999"):
        monkeypatch.setenv(name, size)
        forget_odd_sizes()
        assert os.environ.get(name) == (size if size in ("1", "80", "9999") else None)
