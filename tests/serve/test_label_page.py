"""The page of a labelling over HTTP: what it gives and keeps, and whom it refuses."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.cli.command import ROOT, TIMEOUT
from tests.pages.pages import HOSTILE, Parsed
from tests.serve.labellings import COMMAND, Labelling, labelling, session
from tests.serve.services import ask, ask_raw, until

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore:::sklearn")]  # of few texts

CLASSES = ("sport", "politics", "science")
TEXTS = [f"text number {number} of twenty" for number in range(20)]
ROWS = [{"text": text, "id": str(number), "day": "Monday"} for number, text in enumerate(TEXTS)]
ACTIONS = {"/enter": {}, "/answer": {"row": 0, "labels": ["sport"]}, "/skip": {"row": 0}, "/undo": {}, "/step": {"by": -1}}


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


@pytest.fixture
def page(labels: Path) -> Iterator[Labelling]:
    with labelling(session(labels, ROWS, CLASSES, {"sport": ["games", "players"]})) as page:
        yield page


def allowed(page: Labelling, path: str, body: Any = None) -> dict[str, Any]:
    """The answer to whoever knows the secret."""
    status, found = ask(page.port, path, body or {}, Authorization=f"Bearer {page.access.secret}")
    assert status == 200, found
    return found


def written(path: Path) -> list[tuple[str, str]]:
    """Texts and labels in a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def test_it_shows_texts_and_keeps_labels(page: Labelling, labels: Path) -> None:
    start = allowed(page, "/enter")
    assert (start["classes"], start["words"], start["several"]) == ([*CLASSES], [["games", "players"], [], []], False)
    assert start["command"] == COMMAND
    first = start["shown"]
    assert first["text"] == TEXTS[first["row"]]
    assert first["columns"] == {"id": str(first["row"]), "day": "Monday"}
    assert (first["labels"], first["done"]) == (None, False)
    found = allowed(page, "/answer", {"row": first["row"], "labels": ["science"]})
    assert written(labels) == [(first["text"], "science")]
    second = found["shown"]
    assert second["row"] != first["row"]
    assert (found["progress"]["num_labelled"], found["progress"]["num_texts"]) == (1, 20)
    assert found["progress"]["counts"] == {"sport": 0, "politics": 0, "science": 1}
    third = allowed(page, "/skip", {"row": second["row"]})["shown"]
    assert third["row"] not in (first["row"], second["row"])
    back = allowed(page, "/step", {"by": -1})["shown"]
    assert (back["row"], back["text"], back["labels"]) == (first["row"], first["text"], ["science"])
    assert allowed(page, "/step", {"by": 1})["shown"]["row"] == third["row"]
    assert allowed(page, "/undo")["shown"]["row"] == second["row"]  # the skip
    again = allowed(page, "/undo")["shown"]  # the answer
    assert (again["row"], again["labels"]) == (first["row"], None)
    assert written(labels) == []


def test_an_answer_is_for_the_text_that_it_names(page: Labelling, labels: Path) -> None:
    first = allowed(page, "/enter")["shown"]
    second = allowed(page, "/answer", {"row": first["row"], "labels": ["sport"]})["shown"]
    again = allowed(page, "/answer", {"row": first["row"], "labels": ["politics"]})["shown"]  # of a page that shows it still
    assert again["row"] == second["row"]
    assert written(labels) == [(first["text"], "politics")]


def test_when_nothing_is_left_it_says_so(labels: Path) -> None:
    with labelling(session(labels, ROWS[:2], CLASSES)) as page:
        shown = allowed(page, "/enter")["shown"]
        while not shown["done"]:
            shown = allowed(page, "/answer", {"row": shown["row"], "labels": ["sport"]})["shown"]
    assert sorted(written(labels)) == [(text, "sport") for text in TEXTS[:2]]


def test_several_labels_or_none(labels: Path) -> None:
    with labelling(session(labels, ROWS, CLASSES, several=True)) as page:
        first = allowed(page, "/enter")["shown"]
        second = allowed(page, "/answer", {"row": first["row"], "labels": ["sport", "science"]})["shown"]
        allowed(page, "/answer", {"row": second["row"], "labels": []})
        assert allowed(page, "/step", {"by": -1})["shown"]["labels"] == []
    assert [label for _, label in written(labels)] == ["sport|science", ""]


def test_what_cannot_be_answered_is_told_in_a_line(page: Labelling, labels: Path) -> None:
    row = allowed(page, "/enter")["shown"]["row"]
    key = {"Authorization": f"Bearer {page.access.secret}"}
    status, found = ask(page.port, "/answer", {"row": row, "labels": ["sport", "science"]}, **key)
    assert (status, found) == (422, {"error": "a text has one label; choose from sport, politics, science"})
    for path, body in {"/step": {"by": 2}, "/answer": {"row": row}, "/skip": {"row": "x"}}.items():
        assert ask(page.port, path, body, **key)[0] == 422
    assert not labels.exists()


def test_the_page_itself_tells_nothing(page: Labelling) -> None:
    status, headers, content = ask_raw(page.port, "/")
    assert status == 200
    found = Parsed(content.decode())
    assert {*found.references} == {"data:,", "#help-name"}
    assert not any(secret in content.decode() for secret in (page.access.secret, page.access.ticket, *CLASSES, *TEXTS))
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "connect-src 'self'", "form-action 'none'", "frame-ancestors 'none'", "script-src 'sha256-"):
        assert rule in policy
    assert "unsafe" not in policy
    assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
    (script,) = found.scripts
    assert not any(way in script for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("))


@pytest.mark.parametrize("path", ACTIONS)
def test_nobody_else_can_read_or_answer(page: Labelling, labels: Path, path: str) -> None:
    before, key = page.session.current(), f"Bearer {page.access.secret}"
    refused = {
        "no secret": (403, {}),
        "wrong secret": (403, {"Authorization": key[:-1]}),
        "no scheme": (403, {"Authorization": page.access.secret}),
        "foreign origin": (403, {"Authorization": key, "Origin": "https://example.com"}),
        "hidden origin": (403, {"Authorization": key, "Origin": "null"}),
        "origin on another port": (403, {"Authorization": key, "Origin": "http://127.0.0.1:1"}),
        "foreign host": (421, {"Authorization": key, "Host": "example.com"}),
        "a name that leads here": (421, {"Authorization": key, "Host": f"127.0.0.1.example.com:{page.port}"}),
    }
    for status, headers in refused.values():
        found = ask(page.port, path, ACTIONS[path], **headers)
        assert found[0] == status
        assert found[1].keys() == {"error"}
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://example.com"}
    assert ask_raw(page.port, path, b"row=0&labels=sport", "POST", **form)[0] in (403, 422)
    assert ask_raw(page.port, path, json.dumps(ACTIONS[path]).encode(), "POST", Content_Type="text/plain")[0] in (403, 422)
    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        status, headers, _ = ask_raw(page.port, path, None, method, Authorization=key)
        assert status == 405
        assert not any(name.startswith("access-control") for name in headers)
    assert page.session.current() == before
    assert not labels.exists()
    assert ask(page.port, path, ACTIONS[path], Authorization=key, Origin=f"http://127.0.0.1:{page.port}")[0] == 200


def test_the_ticket_opens_once(page: Labelling) -> None:
    ticket = {"Authorization": f"Bearer {page.access.ticket}"}
    assert ask(page.port, "/undo", {}, **ticket)[0] == 403  # it is for entering alone
    assert ask(page.port, "/enter", {}, Origin="https://example.com", **ticket)[0] == 403
    assert ask(page.port, "/enter", {}, **ticket)[1]["secret"] == page.access.secret
    assert ask(page.port, "/enter", {}, **ticket)[0] == 403
    assert ask(page.port, "/enter", {}, Authorization="Bearer ")[0] == 403  # no longer there is not empty


def test_any_text_arrives_as_it_is_and_bare_of_what_ends_lines(labels: Path) -> None:
    texts = [HOSTILE, "long " * 20_000]
    with labelling(session(labels, [{"text": text, HOSTILE: text[:100]} for text in texts], [HOSTILE, "b"], {"b": [HOSTILE]})) as page:
        shown, seen = allowed(page, "/enter")["shown"], set()
        while not shown["done"]:
            seen.add(shown["text"])
            assert shown["columns"] == {HOSTILE: shown["text"][:100]}
            raw = ask_raw(page.port, "/enter", {}, Authorization=f"Bearer {page.access.secret}")[2].decode()
            assert not {"\u2028", "\u202e", "\x1b"} & set(raw)
            shown = allowed(page, "/answer", {"row": shown["row"], "labels": [HOSTILE]})["shown"]
    assert seen == set(texts)
    assert {label for _, label in written(labels)} == {HOSTILE}


@contextmanager
def command(folder: Path, *options: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """The command in a process, with its port and its secret."""
    (folder / "texts.csv").write_text("text,id\na text,1\nb text,2\nc text,3\n", encoding="utf-8")
    (folder / "classes.yaml").write_text("a: first letters\nb: later letters\n", encoding="utf-8")
    line = [sys.executable, "-m", "mha_cli", "label", "texts.csv", "--output", "labels.csv", "--classes", "classes.yaml", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        printed = re.search(r"http://127\.0\.0\.1:(\d+)/#(\S{43,})", process.stderr.readline())  # 32 bytes in base 64
        assert printed is not None
        try:
            yield process, int(printed[1]), printed[2]
        finally:
            process.kill()


def test_the_command_opens_a_browser_and_a_kill_loses_nothing(tmp_path: Path, labels: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part\nmv {opened}.part {opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    with command(tmp_path, BROWSER=f"{browser} %s") as (process, port, secret):
        until(opened.exists)
        address, _, ticket = opened.read_text().strip().partition("/#")
        assert address == f"http://127.0.0.1:{port}"
        assert len(ticket) >= 43
        assert ticket != secret
        start = ask(port, "/enter", {}, Authorization=f"Bearer {ticket}")[1]
        assert start["secret"] == secret
        key = {"Authorization": f"Bearer {secret}"}
        assert ask(port, "/answer", {"row": start["shown"]["row"], "labels": ["a"]}, **key)[0] == 200
        process.kill()
    assert written(labels) == [(start["shown"]["text"], "a")]
    with command(tmp_path, "--no-browser") as (process, port, secret):
        again = ask(port, "/enter", {}, Authorization=f"Bearer {secret}")[1]
        assert again["progress"]["num_labelled"] == 1
        assert again["command"].startswith("mha train ")
        idle = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        idle.request("GET", "/")
        idle.getresponse().read()  # a browser keeps its connection
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "")
    assert err.endswith(f"{again['command']}\n")
