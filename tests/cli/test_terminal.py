"""Streams that take few characters."""

import io
import json
import sys

import pytest

from mha_cli.cli.app import prepare_streams
from mha_cli.cli.console import print_json


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", rb"\u2588 2 \xd7 3 \u2026 \u6620 \udc80"),
        ("latin-1", b"\\u2588 2 \xd7 3 \\u2026 \\u6620 \\udc80"),
        ("utf-8", "█ 2 × 3 … 映 ".encode() + rb"\udc80"),
    ],
)
def test_a_stream_takes_any_text(encoding: str, shown: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    prepare_streams()
    print("█ 2 × 3 … 映 \udc80", end="", flush=True)
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
