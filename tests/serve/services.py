"""Services to ask, and a client that can misbehave."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

from starlette.types import ASGIApp

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.serve.app import application
from mha_cli.serve.server import Guarded, Limits, listening_socket, server
from tests.cli.command import TIMEOUT

JSON = {"Content-Type": "application/json"}


@contextmanager
def service(checkpoint: Checkpoint, limits: Limits | None = None) -> Iterator[int]:
    """A service on a port of its own, in a thread, as the command has it in its process; gives the port."""
    limits = limits or Limits()
    with listening(application(checkpoint, limits.answer_seconds), limits) as port:
        yield port


@contextmanager
def listening(app: ASGIApp, limits: Limits) -> Iterator[int]:
    """An application on a port of its own, in a thread; gives the port."""
    with listening_socket("127.0.0.1", 0) as listener:
        running = server(Guarded(app, limits), limits)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def ask(port: int, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, Any]:
    """Status and JSON of an answer; a body that is no bytes is sent as JSON."""
    status, _, content = ask_raw(port, path, body, method, **headers)
    return status, json.loads(content)


def ask_raw(port: int, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method or ("GET" if body is None else "POST"), path, sent, {**JSON, **names})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def connected(port: int, *parts: bytes) -> socket.socket:
    """A connection on which something has been sent."""
    client = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    for part in parts:
        client.sendall(part)
    return client


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def until(true: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
