"""What the service answers, and what it refuses."""

import contextlib
import dataclasses
import gc
import itertools
import json
import re
import select
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.errors import MhaError
from mha_cli.runtime.classifier import Classifier
from mha_cli.serve import app
from mha_cli.serve.server import Limits
from mha_cli.text.encoding import EncodedText, TextPipeline
from mha_cli.version import __version__
from tests.checkpoints import small_checkpoint, small_checkpoint_file, with_text
from tests.cli.command import Mha, nearly
from tests.serve.services import ask, ask_raw, connected, received, service, until

pytestmark = pytest.mark.extras

TEXTS = ["the film was superb", "", "quux", "not \u202e <b>superb</b> 🎬 é", "a " * 30]
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def asking(letter: int) -> bytes:
    """A request for the answer to a text of one letter."""
    return HEAD + b'Content-Length: 13\r\n\r\n{"text": "%c"}' % letter


def explaining(text: str) -> bytes:
    """A request for the explanation of a text."""
    body = json.dumps({"text": text}).encode()
    return HEAD.replace(b"/predict", b"/explain") + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_checkpoint_file(tmp_path_factory.mktemp("serve") / "small.keras")


@pytest.fixture(scope="module")
def port(checkpoint: Path) -> Iterator[int]:
    """A service with its usual limits."""
    with service(read_checkpoint(checkpoint)) as port:
        yield port


@contextlib.contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """Nothing is computed meanwhile; gives the lengths of the texts in each round, as it is begun."""
    begun, go, probabilities = list[list[int]](), threading.Event(), Classifier.probabilities

    def wait(self: Classifier, texts: Any) -> Any:
        if texts:
            begun.append([len(text.tokens) for text in texts])
        go.wait()
        return probabilities(self, texts)

    monkeypatch.setattr(Classifier, "probabilities", wait)
    try:
        yield begun
    finally:
        go.set()


def test_it_answers_what_predict_prints(port: int, checkpoint: Path, mha: Mha) -> None:
    expected = [json.loads(line) for line in mha("predict", "--json", "-c", checkpoint, "--", *TEXTS).lines]
    assert ask(port, "/predict", {"texts": TEXTS}) == (200, expected)
    assert ask(port, "/predict", {"texts": []}) == (200, [])
    for text, answer in zip(TEXTS, expected, strict=True):
        assert ask(port, "/predict", {"text": text}) == (200, nearly({**answer, "id": 1}))


def test_a_text_of_no_class_gets_no_label() -> None:
    made = small_checkpoint()
    certain = HeldOut.of(np.tile(np.float32([0.0, 1.0]), (20, 1)), np.zeros(20, np.int32))  # more than any text is
    config = made.config.changed(data={"none_label": "oos"})
    with service(dataclasses.replace(made, config=config, held_out=certain)) as port:
        answer = ask(port, "/predict", {"text": TEXTS[0]})[1]
        assert (answer["label"], answer["none"]) == (None, True)
        assert ask(port, "/explain", {"text": TEXTS[0]})[1]["answer"] == answer


def test_an_explanation_is_that_of_the_commands(port: int, checkpoint: Path, mha: Mha) -> None:
    status, found = ask(port, "/explain", {"text": TEXTS[0]})
    assert status == 200
    assert found["answer"] == ask(port, "/predict", {"text": TEXTS[0]})[1]
    for command in ("explain", "attention"):
        assert found[{"explain": "explanation"}.get(command, command)] == mha(command, "--json", "-c", checkpoint, TEXTS[0]).json
    assert ask(port, "/explain", {"text": "quux"})[1]["notes"] == ["* not in the model's vocabulary: it reads all such words as one"]


def test_what_cannot_be_explained_is_answered_all_the_same(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_WORDS", 12)
    for text, note in {
        "": "the text has no words; give a text with at least one word",
        "a " * 30: "the text has 13 words; at most 12 are explained here; `mha explain` takes more",
    }.items():
        answer = ask(port, "/predict", {"text": text})[1]
        assert ask(port, "/explain", {"text": text}) == (200, {"answer": answer, "explanation": None, "attention": None, "notes": [note]})


def test_health(port: int) -> None:
    status, found = ask(port, "/healthz")
    assert (status, found["status"], found["version"]) == (200, "ok", __version__)
    assert found["model"].endswith("/small.keras")
    assert found["model"].count("/") == 1  # nobody learns the folders before
    status, _, body = ask_raw(port, "/healthz", None, "HEAD")  # as balancers ask
    assert (status, body) == (200, b"")


def test_an_object_may_have_other_keys_of_any_kind(port: int) -> None:
    given = {"text": "a film", "id": 3, "note": None}
    assert ask(port, "/predict", {"text": given}) == ask(port, "/predict", {"text": "a film"})


UNREAD = "the body cannot be read as JSON: it is not UTF-8, is nested too deeply, or has a number of thousands of digits"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"text": 5}', 422, "text: Input should be a valid string"),
        (b'{"texts": ["a"%b]}' % (b", 5" * 1000), 422, "texts[1]: Input should be a valid string"),
        (b'{"texts": "a"}', 422, "texts: Input should be a valid list"),
        (b'{"text": "a", "texts": []}', 422, "text: Extra inputs are not permitted"),
        (b'{"text": "a", "\\u001b[31m": 1}', 422, "\\x1b[31m: Extra inputs are not permitted"),
        (b"{}", 422, "text: Field required"),
        (b"[]", 422, "the body is not a JSON object"),
        (b"", 422, "the body is not a JSON object"),
        (b'{"text": "a"', 422, "the body is not JSON: Expecting ',' delimiter at character 12"),
        (b'{"text": "\xff"}', 400, UNREAD),
        (b"[" * 100_000, 400, UNREAD),
        (b'{"text": ' + b"9" * 5000 + b"}", 400, UNREAD),
    ],
)
def test_a_body_of_another_form_is_refused(body: bytes, status: int, message: str, port: int) -> None:
    form = '; send {"text": "…"}, or to /predict {"texts": ["…", …]}'
    assert ask(port, "/predict", body) == (status, {"error": message + form})


def test_a_body_of_too_much_is_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    too_large = {"error": "the body has more than 1,000,000 bytes; send fewer or shorter texts"}
    assert ask(port, "/predict", b" " * 1_000_001) == (413, too_large)
    assert ask(port, "/predict", {"texts": [""] * 1025}) == (422, {"error": "1,025 texts; send 1,024 at a time at most"})
    monkeypatch.setattr("mha_cli.system.working_memory.MOST_BYTES", 10_000)
    status, found = ask(port, "/predict", {"text": "the film was superb"})
    assert status == 422
    assert "small.keras: a text of 4 tokens would take about" in found["error"]


def test_other_requests_are_refused(port: int) -> None:
    assert ask(port, "/nowhere") == (404, {"error": "Not Found"})
    assert ask(port, "/predict/", {"text": "a"})[0] == ask(port, "/docs")[0] == 404
    assert ask(port, "/predict") == (405, {"error": "Method Not Allowed"})
    assert ask_raw(port, "/predict")[1]["allow"] == "POST"
    unsent = {"error": "the body is not sent as JSON; add the header Content-Type: application/json"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):  # those that other sites may send
        assert ask(port, "/predict", {"text": "a"}, Content_Type=kind) == (415, unsent)
    other_names = ("evil.example", "127.0.0.1.evil.example", "10.0.0.1:8000", "0.0.0.0", "[::]", "", "[127.0.0.1]", "::1", "x@127.0.0.1")
    for host in other_names:
        assert ask(port, "/healthz", Host=host) == (421, {"error": "not a name of this machine; ask for 127.0.0.1 or localhost"})
    for host in ("localhost", "LOCALHOST:1", "127.0.0.2", "[::1]:8000"):
        assert ask(port, "/healthz", Host=host)[0] == 200


def test_an_upgrade_is_not_taken(port: int) -> None:
    for last in (b"Connection: Upgrade\r\nUpgrade: h2c", b"UPGRADE: websocket\r\nConnection: Upgrade"):  # as Java's client sends it
        with connected(port, asking(ord("a")).replace(b"\r\n\r\n", b"\r\n" + last + b"\r\n\r\n")) as client:
            found = client.recv(1 << 16)
            assert found.startswith(b"HTTP/1.1 200 ") and b'"label"' in found


def test_a_request_with_two_hosts_is_refused(port: int) -> None:
    with connected(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n") as client:
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 421 ")


def test_where_there_are_too_many_connections_the_idle_ones_go(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    asking = HEAD + b'Content-Length: 13\r\n\r\n{"text": "a"'
    with service(read_checkpoint(checkpoint), Limits(connections=6)) as port, contextlib.ExitStack() as stack:
        first = stack.enter_context(connected(port, asking))
        assert ask(port, "/healthz")[0] == 200  # the server has read what came before
        slow = (b"", b"GET /", HEAD + b"Content-Length: 2000000\r\n\r\n")  # which is refused, and its body is not waited for
        idle = [stack.enter_context(connected(port, sent)) for sent in slow * 10]
        for _ in range(3):
            assert ask(port, "/healthz")[0] == 200
        others = [stack.enter_context(connected(port, asking)) for _ in range(4)]
        assert ask(port, "/healthz")[0] == 200
        assert [client.recv(100)[9:12] for client in (first, others[0])] == [b"408", b"408"]  # half of the connections are for health
        for client in others[1:]:  # what has been asked is answered
            client.sendall(b"}")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""
    said = "6 connections are open, as many as `ulimit -n` allows; idle ones are closed for new ones"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_no_other_site_may_read_an_answer(port: int) -> None:
    for path, body in (("/", None), ("/healthz", None), ("/predict", {"text": "a"}), ("/predict", b"{"), ("/nowhere", None)):
        _, headers, _ = ask_raw(port, path, body, Origin="https://evil.example")
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.startswith("access-control")]
    assert ask_raw(port, "/predict", None, "OPTIONS", Origin="https://evil.example")[0] == 405


def test_the_description_fits_what_is_answered(port: int) -> None:
    _, described = ask(port, "/openapi.json")
    assert set(described["paths"]) == {"/", "/predict", "/explain", "/healthz"}
    answer = described["components"]["schemas"]["Answer"]
    assert set(answer["properties"]) == set(answer["required"]) == set(ask(port, "/predict", {"text": "a"})[1])
    inside = described["components"]["schemas"]["LookInside"]
    assert set(inside["properties"]) == set(ask(port, "/explain", {"text": "a"})[1])
    statuses = {"200", "400", "408", "413", "415", "421", "422", "429", "500", "503"}
    for path in ("/predict", "/explain"):
        responses = described["paths"][path]["post"]["responses"]
        assert set(responses) == statuses
        for status in statuses - {"200"}:
            assert responses[status]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Failure"}
    assert set(described["components"]["schemas"]) == {
        *("Answer", "NoneAnswer", "NodeAnswer", "SeveralLabels", "Failure", "LookInside", "ManyTexts", "OneText")
    }


def test_the_page_needs_nothing_but_itself_and_its_server(port: int) -> None:
    _, headers, content = ask_raw(port, "/")
    source = content.decode()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'; img-src data:; ")
    assert "unsafe" not in policy
    assert not re.search(r"https?:|url\(|@import|innerHTML|document\.write|eval\(|/\*[A-Z]+\*/", source)
    assert set(re.findall(r'\bid="(\w+)"', source)) == set(re.findall(r'getElementById\("(\w+)"\)', source))


def test_too_many_requests(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(read_checkpoint(checkpoint), Limits(waiting=2)) as port, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(port, HEAD + b"Content-Length: 9\r\n\r\n")) for _ in range(5)]
        assert ask(port, "/predict", {"text": "a"})[0] == 200  # who sends a whole request has a place
        told = b'{"error": "the body did not arrive within 10 seconds, or before 4 others"}'
        assert received(slow[0]).endswith(told)
        with held(monkeypatch):
            clients = [stack.enter_context(connected(port, asking(letter))) for letter in b"ab"]
            assert ask(port, "/healthz")[0] == 200  # the server has read what came before
            status, headers, content = ask_raw(port, "/predict", {"text": "a"})
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(content) == {"error": "2 requests are waiting already; try again in a second"}
        assert all(client.recv(1 << 16).startswith(b"HTTP/1.1 200 ") for client in clients)


def test_predictions_come_before_an_explanation_that_is_begun(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "ROUND", 1)  # a text at a time
    with service(read_checkpoint(checkpoint)) as port, contextlib.ExitStack() as stack:
        with held(monkeypatch) as begun:
            gone, explained = (stack.enter_context(connected(port, explaining("a " * 13))) for _ in range(2))
            until(lambda: begun)
            clients = [stack.enter_context(connected(port, asking(letter))) for letter in b"ab"]
            assert ask(port, "/healthz")[0] == 200  # the server has read what came before
            gone.close()
            assert ask(port, "/healthz")[0] == 200
        assert all(client.recv(1 << 16).startswith(b"HTTP/1.1 200 ") for client in (*clients, explained))
    assert begun == [[13], [1], [13], [1], *[[12]] * 13]  # one round of each kind in turn, and nothing for those who hang up


def test_a_prediction_does_not_wait_for_the_explanation_of_a_long_text() -> None:
    """Which takes some rounds of a tenth of a second, whatever the machine."""
    long = with_text(small_checkpoint(embed_dim=128, feed_forward_dim=256, positions="sinusoidal"), sequence_length=256)
    with service(long) as port, connected(port, explaining("a " * 256)) as client:
        assert ask(port, "/healthz")[0] == 200  # the server has read what came before
        for _ in range(2):
            assert ask(port, "/predict", {"text": "the film"})[0] == 200
            assert not select.select([client], [], [], 0)[0]
        response = HTTPResponse(client)
        response.begin()
        assert len(json.load(response)["explanation"]["occlusion"]) == 256


def test_what_cannot_be_done_in_time_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "ROUND", 1)
    monkeypatch.setattr(app, "perf_counter", itertools.count().__next__)  # a text takes a second
    with service(read_checkpoint(checkpoint), Limits(answer_seconds=5.0)) as port:
        found = ask(port, "/explain", {"text": TEXTS[-1]})[1]
        assert found["answer"]["label"] and found["explanation"] is None
        assert found["notes"] == ["13 words would take longer than an answer may, 5 seconds; send at most 5 words like these"]
        refusal = "7 texts would take longer than an answer may, 5 seconds; send at most 2 texts like these"
        assert ask(port, "/predict", {"texts": [TEXTS[-1]] * 7}) == (422, {"error": refusal})
        assert ask(port, "/predict", {"texts": [TEXTS[-1]] * 4})[0] == 200


def test_an_answer_that_takes_too_long(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(read_checkpoint(checkpoint), Limits(answer_seconds=0.2)) as port, held(monkeypatch) as begun:
        assert ask(port, "/predict", {"text": "a"}) == (503, {"error": "no answer within 0.2 seconds; try again later, or send less"})
        assert ask(port, "/predict", {"text": "b"})[0] == 503
        assert begun == [[1]]


def test_a_body_that_does_not_come(checkpoint: Path) -> None:
    with service(read_checkpoint(checkpoint), Limits(body_seconds=0.2)) as port:
        with connected(port, HEAD + b'Content-Length: 99\r\n\r\n{"text":') as client:
            answer = received(client)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert answer.endswith(b'{"error": "the body did not arrive within 0.2 seconds, or before 256 others"}')
        for head in (b"", HEAD):  # what has not become a request has no answer
            with connected(port, head) as client:
                assert received(client) == b""
        two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"  # one that becomes a request, and one that does not
        with connected(port, two) as client:
            assert received(client).startswith(b"HTTP/1.1 200 ")
        with connected(port, HEAD + b"Content-Length: 2000000\r\n\r\n") as client:  # refused, and not waited for
            assert received(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("answers", [1, 1000])
def test_a_client_that_does_not_read_its_answers(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, connection_lost = list[object](), HttpToolsProtocol.connection_lost

    def note(self: HttpToolsProtocol, error: Exception | None) -> None:
        lost.append(error)
        connection_lost(self, error)

    monkeypatch.setattr(HttpToolsProtocol, "connection_lost", note)
    body = json.dumps({"texts": ["a"] * 1000}).encode()
    large = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    sent = large if answers == 1 else b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        service(small_checkpoint(("a" * 5000, "b" * 5000)), Limits(answer_seconds=1.0, body_seconds=0.2)) as port,
        socket.socket() as client,
        contextlib.suppress(ConnectionError),
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        for _ in range(answers):
            client.sendall(sent)
            time.sleep(0.001)  # else it would be one that sends too much ahead
        until(lambda: lost)


def test_a_client_that_sends_too_much_ahead_is_dropped(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = health.replace(b"Host", b"Connection: close\r\nHost")
    with service(read_checkpoint(checkpoint)) as port, contextlib.ExitStack() as stack:
        with held(monkeypatch) as begun:
            some, many = (stack.enter_context(connected(port, asking(ord("a")) + health * ahead + last)) for ahead in (15, 16))
            until(lambda: begun)
            with contextlib.suppress(ConnectionError):
                assert received(many) == b""
        assert received(some).count(b"HTTP/1.1 200 OK") == 17


@pytest.mark.parametrize(
    "endless",
    [HEAD + b"X-More: ", HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;"],
)
def test_no_head_is_endless(endless: bytes, port: int) -> None:
    with connected(port, endless) as client, contextlib.suppress(ConnectionError):
        for _ in range(1000):
            client.sendall(b"a: %b\r\n" % (b"a" * 1000) if endless.endswith(b"\n") else b"a" * 1000)
        assert b"HTTP/1.1 400 " in received(client)


def test_what_waits_is_computed_together(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mha_cli.runtime.stream.MAX_BATCH_PROBABILITIES", 5)  # of two texts
    with service(read_checkpoint(checkpoint)) as port, contextlib.ExitStack() as stack:
        with held(monkeypatch) as begun:
            first = stack.enter_context(connected(port, asking(ord("a"))))
            until(lambda: begun)
            others = [stack.enter_context(connected(port, asking(letter))) for letter in b"bcde"]
            until(lambda: ask(port, "/healthz")[0] == 200)  # the server has read what came before
            others.pop(1).close()
            assert ask(port, "/healthz")[0] == 200
            assert begun == [[1]]
            assert ask(port, "/predict", {"texts": ["a"] * 3}) == (422, {"error": "3 texts; send 2 at a time at most"})
        assert all(client.recv(1 << 16).startswith(b"HTTP/1.1 200 ") for client in (first, *others))
    assert sorted(map(len, begun)) == [1, 1, 2]
    assert capfd.readouterr().err == ""


def test_a_fault_of_one_text_is_no_fault_of_the_others(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    probabilities = Classifier.probabilities

    def refuse(self: Classifier, texts: Any) -> Any:
        if any(text.num_unknown for text in texts):
            raise ValueError("no such thing")
        return probabilities(self, texts)

    with service(read_checkpoint(checkpoint)) as port, contextlib.ExitStack() as stack:
        with held(monkeypatch) as begun:
            clients = [stack.enter_context(connected(port, asking(ord("a"))))]
            until(lambda: begun)
            clients += [stack.enter_context(connected(port, asking(letter))) for letter in b"za"]
            until(lambda: ask(port, "/healthz")[0] == 200)  # the server has read what came before
            monkeypatch.setattr(Classifier, "probabilities", refuse)
        assert [client.recv(100)[9:12] for client in clients] == [b"200", b"500", b"200"]
        assert ask(port, "/predict", {"text": "z"}) == (500, {"error": "a fault in mha; its stderr says which"})
    said = "POST /predict: ValueError: no such thing; this is a fault in mha, MHA_DEBUG=1 shows where"
    assert [record.getMessage() for record in caplog.records] == [said, said]


def test_a_text_that_cannot_be_encoded_is_refused_alone(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_all = TextPipeline.encode_all

    def refuse(self: TextPipeline, texts: list[str]) -> list[EncodedText]:
        if "z" in texts:
            raise MhaError("too many pieces", "give shorter texts")
        return encode_all(self, texts)

    monkeypatch.setattr(TextPipeline, "encode_all", refuse)
    with service(read_checkpoint(checkpoint)) as port, contextlib.ExitStack() as stack:
        with held(monkeypatch) as begun:
            clients = [stack.enter_context(connected(port, asking(ord("a"))))]
            until(lambda: begun)
            clients += [stack.enter_context(connected(port, asking(letter))) for letter in b"bza"]
            until(lambda: ask(port, "/healthz")[0] == 200)  # the server has read what came before
        assert [client.recv(1 << 16)[9:12] for client in clients] == [b"200", b"200", b"422", b"200"]


def test_what_has_been_answered_is_let_go(port: int) -> None:
    for _ in range(20):  # each with a connection of its own
        assert ask(port, "/predict", {"text": "a"})[0] == 200
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as client:
        for _ in range(20):
            client.request("GET", "/healthz")
            assert client.getresponse().read()
    gc.collect()
    assert sum(isinstance(one, RequestResponseCycle) for one in gc.get_objects()) < 10
