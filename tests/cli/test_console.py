"""JSON on stdout."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mha_cli.cli.console import print_json
from mha_cli.cli.terminal import prepare_streams


@pytest.mark.parametrize(("encoding", "written"), [("utf-8", "Rückgabe 😀"), ("latin-1", r"R\u00fcckgabe \ud83d\ude00")])
def test_json_is_valid_in_every_encoding(encoding: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    prepare_streams()
    print_json({"class": "Rückgabe 😀"})
    out.seek(0)
    shown = out.read()
    assert (written in shown, json.loads(shown)) == (True, {"class": "Rückgabe 😀"})
